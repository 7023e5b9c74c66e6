#include "kv_offload/tiers/obj/obj_lane.hpp"

#include "kv_offload/tiers/io/active_job.hpp"
#include "kv_offload/tiers/io/io_thread.hpp"
#include "kv_offload/tiers/io/lane_inbox.hpp"
#include "kv_offload/tiers/io/sink_gate.hpp"
#include "kv_offload/tiers/obj/obj_worker.hpp"

#include <asio/io_context.hpp>
#include <asio/post.hpp>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace kv_offload {

namespace {

/// On top of what the attempts of the start check may take.
constexpr auto kStartPatience = std::chrono::seconds(30);
constexpr auto kDestructorPatience = std::chrono::seconds(5);

}  // namespace

struct ObjLane::State {
  explicit State(ObjLaneSetup with)
      : setup(std::move(with)),
        inbox(setup.options.probes_max, setup.options.jobs_max, [this] { wake(); }),
        sink(setup.options.sink) {}

  const ObjLaneSetup setup;
  asio::io_context loop{1};
  LaneInbox inbox;
  SinkGate sink;
  LaneCounters counters;
  ObjShared shared;
  std::atomic<bool> failed{false};

  std::mutex mutex;  // guards the rest
  std::condition_variable changed;
  bool is_started = false;
  bool has_ended = false;
  ObjWorker* worker = nullptr;  // while the thread runs
  std::optional<Expected<std::string>> opened;
  std::thread thread;

  void wake() {
    asio::post(loop, [this] {
      if (worker != nullptr) worker->look();  // the loop's thread is the one that sets it
    });
  }
  void say_opened(Expected<std::string> result) {
    const std::lock_guard lock(mutex);
    if (!opened) opened = std::move(result);
    changed.notify_all();
  }
};

ObjLane::ObjLane(ObjLaneSetup setup) : state_(std::make_shared<State>(std::move(setup))) {}

ObjLane::~ObjLane() { stop(kDestructorPatience); }

Expected<std::string> ObjLane::start() {
  State& s = *state_;
  const std::string& name = s.setup.options.name;
  std::unique_lock lock(s.mutex);
  if (std::exchange(s.is_started, true)) return {OffloadErrc::invalid_argument, name + ": a lane starts once"};
  try {
    const SignalsBlocked signals_blocked;
    s.thread = std::thread([state = state_] { run_thread(state); });
  } catch (const std::exception& e) {
    s.has_ended = true;
    return {OffloadErrc::io_error, name + ": no thread for its transfers: " + e.what()};
  }
  const ObjConfig& config = s.setup.config;
  const Duration most = kStartPatience + 4 * config.retry.attempts * (config.request_timeout + config.retry.max);
  if (!s.changed.wait_for(lock, most, [&] { return s.opened.has_value(); }))
    return {OffloadErrc::deadline, name + ": the store could not be tried in time"};
  return *s.opened;
}

void ObjLane::run_thread(const std::shared_ptr<State>& state) {
  State& s = *state;
  name_this_thread("kvo-" + s.setup.options.name);
  std::string died;
  bool was_killed = false;
  try {
    ObjWorker worker(s.setup, s.loop, s.inbox, s.sink, s.counters, s.shared);
    s.worker = &worker;
    was_killed = worker.run([&s](Expected<std::string> result) { s.say_opened(std::move(result)); }) ==
                 ObjWorker::End::killed;
    s.worker = nullptr;
  } catch (const std::exception& e) {  // memory is out; nothing else throws
    s.worker = nullptr;
    died = e.what();
  }
  if (!was_killed) s.inbox.close();  // a killed lane says nothing, on purpose
  if (!died.empty()) {
    s.failed = true;
    s.sink.lane_died(s.setup.options.name + ": " + died);
  }
  s.say_opened({OffloadErrc::io_error, s.setup.options.name + ": its thread ended: " + died});
  const std::lock_guard lock(s.mutex);
  s.has_ended = true;
  s.changed.notify_all();
}

bool ObjLane::probe(ProbeId id, KeyList keys) { return state_->inbox.push_probe(id, std::move(keys)); }

void ObjLane::submit(std::vector<TransferJob> jobs) {
  const auto rejected = state_->inbox.push_jobs(std::move(jobs));
  end_unstarted(rejected, state_->failed ? TransferFailure::lane_dead : TransferFailure::cancelled);
}

void ObjLane::cancel(const JobId& id) {
  if (auto job = state_->inbox.cancel(id)) {
    state_->inbox.job_ended(*job);
    end_unstarted({std::move(*job)}, TransferFailure::cancelled);
  }
}

void ObjLane::cancel_queued() {
  const auto jobs = state_->inbox.cancel_queued();
  for (const TransferJob& job : jobs) state_->inbox.job_ended(job);
  end_unstarted(jobs, TransferFailure::cancelled);
}

void ObjLane::end_unstarted(const std::vector<TransferJob>& jobs, TransferFailure why) {
  for (const TransferJob& job : jobs)
    state_->sink.job_ended(result_of_unstarted(job, why, state_->setup.options.now()));
}

bool ObjLane::forget(ObjForget forget) {
  ObjShared& shared = state_->shared;
  {
    const std::lock_guard lock(shared.mutex);
    if (shared.forgets.size() >= ObjShared::kForgetsMax || state_->inbox.is_closed()) return false;
    shared.forgets.push_back(std::move(forget));
    shared.has_news.store(true, std::memory_order_release);
  }
  state_->wake();
  return true;
}

void ObjLane::change_namespace(ObjNamespace name_space) {
  ObjShared& shared = state_->shared;
  {
    const std::lock_guard lock(shared.mutex);
    shared.next_namespace = std::move(name_space);
    shared.has_news.store(true, std::memory_order_release);
  }
  state_->wake();
}

bool ObjLane::stop(Duration patience) {
  State& s = *state_;
  s.inbox.close();
  cancel_queued();
  std::unique_lock lock(s.mutex);
  if (!s.thread.joinable()) return s.has_ended || !s.is_started;
  asio::post(s.loop, [state = &s, patience] {
    if (state->worker != nullptr) state->worker->stop_within(patience / 2);
  });
  if (s.changed.wait_for(lock, patience, [&] { return s.has_ended; })) {
    lock.unlock();
    s.thread.join();
    return true;
  }
  s.thread.detach();
  lock.unlock();
  s.sink.close();
  return false;
}

const LaneCounters& ObjLane::counters() const { return state_->counters; }
const ObjShared& ObjLane::shared() const { return state_->shared; }
ObjShared& ObjLane::shared() { return state_->shared; }
std::uint64_t ObjLane::queued_jobs() const { return state_->inbox.queued_jobs(); }

}  // namespace kv_offload
