#include "kv_offload/tiers/io/lane.hpp"

#include "kv_offload/tiers/io/io_thread.hpp"
#include "kv_offload/tiers/io/lane_inbox.hpp"
#include "kv_offload/tiers/io/lane_worker.hpp"
#include "kv_offload/tiers/io/sink_gate.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace kv_offload {

namespace {

/// Setting up a ring and registering 4 GiB takes 130 ms; a thread that needs longer is not coming.
constexpr auto kStartPatience = std::chrono::seconds(30);
constexpr auto kDestructorPatience = std::chrono::seconds(5);

}  // namespace

struct Lane::State {
  enum class Phase : std::uint8_t { idle, starting, running, ended };

  State(LaneOptions o, std::unique_ptr<IoBackend> b, std::unique_ptr<LaneStorage> s)
      : options(std::move(o)),
        backend(std::move(b)),
        storage(std::move(s)),
        inbox(options.probes_max, options.jobs_max, [this] { backend->wake(); }),
        sink(options.sink) {}

  const LaneOptions options;
  const std::unique_ptr<IoBackend> backend;
  const std::unique_ptr<LaneStorage> storage;
  LaneInbox inbox;
  SinkGate sink;
  LaneCounters counters;
  std::atomic<bool> abandoned{false};
  std::atomic<bool> failed{false};
  std::atomic<bool> has_loose_io{false};  // the thread ended, the device still has buffers

  std::mutex mutex;  // guards the rest
  std::condition_variable changed;
  Phase phase = Phase::idle;
  std::optional<Expected<std::string>> opened;
  std::thread thread;

  /// What the device may still touch, the storage's buffers and descriptors among it, is never freed.
  static void keep_for_ever(const std::shared_ptr<State>& state) {
    static std::mutex kept_mutex;
    static auto* kept = new std::vector<std::shared_ptr<State>>;  // never destroyed, on purpose
    const std::lock_guard lock(kept_mutex);
    kept->push_back(state);
  }

  void enter(Phase next) {
    const std::lock_guard lock(mutex);
    phase = next;
    changed.notify_all();
  }
};

Lane::Lane(LaneOptions options, std::unique_ptr<IoBackend> backend,
           std::unique_ptr<LaneStorage> storage)
    : state_(std::make_shared<State>(std::move(options), std::move(backend), std::move(storage))) {}

Lane::~Lane() { stop(kDestructorPatience); }

Expected<std::string> Lane::start() {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  if (s.phase != State::Phase::idle)
    return {OffloadErrc::invalid_argument, s.options.name + ": a lane starts once"};
  s.phase = State::Phase::starting;
  try {
    const SignalsBlocked signals_blocked;
    s.thread = std::thread([state = state_] { run_thread(state); });
  } catch (const std::exception& e) {
    s.phase = State::Phase::ended;
    return {OffloadErrc::io_error, s.options.name + ": no thread for its I/O: " + e.what()};
  }
  if (!s.changed.wait_for(lock, kStartPatience, [&] { return s.opened.has_value(); }))
    return {OffloadErrc::deadline, s.options.name + ": the I/O thread did not get ready"};
  return *s.opened;
}

void Lane::run_thread(const std::shared_ptr<State>& state) {
  State& s = *state;
  name_this_thread("kvo-" + s.options.name);
  auto opened = s.backend->open();
  const bool is_open = opened.has_value();
  if (!is_open) {
    s.failed = true;
    s.inbox.close();
  }
  {
    const std::lock_guard lock(s.mutex);
    s.opened = std::move(opened);
    if (is_open) s.phase = State::Phase::running;
    s.changed.notify_all();
  }
  if (is_open) {
    LaneWorker worker(s.options, *s.backend, *s.storage, s.inbox, s.sink, s.counters, s.abandoned);
    if (worker.run() == LaneWorker::End::failed) {
      s.failed = true;
      s.inbox.close();
      s.sink.lane_died(worker.failure());
    }
    s.has_loose_io = s.backend->in_flight() > 0;
    if (s.has_loose_io)
      s.keep_for_ever(state);
    else
      s.backend->close();
  }
  s.enter(State::Phase::ended);
}

bool Lane::probe(ProbeId id, KeyList keys) { return state_->inbox.push_probe(id, std::move(keys)); }

void Lane::submit(std::vector<TransferJob> jobs) {
  const auto rejected = state_->inbox.push_jobs(std::move(jobs));
  end_unstarted(rejected, state_->failed ? TransferFailure::lane_dead : TransferFailure::cancelled);
}

void Lane::cancel(const JobId& id) {
  if (auto job = state_->inbox.cancel(id)) {
    state_->inbox.job_ended(*job);
    end_unstarted({std::move(*job)}, TransferFailure::cancelled);
  }
}

void Lane::cancel_queued() {
  const auto jobs = state_->inbox.cancel_queued();
  for (const TransferJob& job : jobs) state_->inbox.job_ended(job);
  end_unstarted(jobs, TransferFailure::cancelled);
}

void Lane::end_unstarted(const std::vector<TransferJob>& jobs, TransferFailure why) {
  for (const TransferJob& job : jobs)
    state_->sink.job_ended(result_of_unstarted(job, why, state_->options.now()));
}

void Lane::wake() {
  const std::lock_guard lock(state_->mutex);
  if (state_->phase == State::Phase::running) state_->backend->wake();
}

bool Lane::stop(Duration patience) {
  State& s = *state_;
  s.inbox.close();
  cancel_queued();
  std::unique_lock lock(s.mutex);
  if (s.phase == State::Phase::idle) s.phase = State::Phase::ended;
  if (!s.thread.joinable()) return s.phase == State::Phase::ended && !s.has_loose_io;
  if (s.phase == State::Phase::running) s.backend->wake();
  if (s.changed.wait_for(lock, patience, [&] { return s.phase == State::Phase::ended; })) {
    lock.unlock();
    s.thread.join();
    return !s.has_loose_io;
  }
  s.abandoned = true;
  s.thread.detach();
  lock.unlock();
  s.sink.close();
  return false;
}

const LaneCounters& Lane::counters() const { return state_->counters; }
std::uint64_t Lane::queued_jobs() const { return state_->inbox.queued_jobs(); }

}  // namespace kv_offload
