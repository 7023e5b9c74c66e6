#include "kv_offload/tiers/device/device_worker.hpp"

#include "kv_offload/tiers/device/copy_plan.hpp"
#include "kv_offload/tiers/device/device_backend.hpp"
#include "kv_offload/tiers/device/host_backend.hpp"
#include "kv_offload/tiers/device/worker_layout.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace kv_offload {
namespace {

using Clock = std::chrono::steady_clock;
constexpr Duration kEndPatience = std::chrono::seconds(10);  // of the destructor
constexpr Duration kPatienceMax =
    std::chrono::hours(24);  // longer is the same, and far from the clock's overflow
/// Of all running jobs together: 1.6 GB of fragments. A job alone always fits.
constexpr std::uint64_t kRunningFragmentsMax = 4 * CopyPlanner::kFragmentsMax;

constexpr const char* kDirections[] = {"store", "load"};

/// Holds the buffers' tokens: a job that was accepted keeps its buffers from being freed until its
/// end.
using Tokens = std::vector<std::shared_ptr<const void>>;

struct RunningJob {
  bool is_load = false;
  std::uint64_t bytes = 0, fragments = 0;
  std::vector<ChunkId> rows = {};  // whose use it has begun
  Tokens tokens = {};
};

struct Direction {
  std::mutex order;  // who holds it enqueues; taken before the state's
  std::unique_ptr<DeviceStream> stream;
  std::string broken;  // why no job may follow; guarded by order
};

}  // namespace

/// Shared with the ends of jobs, so that one that comes after an abandoned stop finds it.
struct DeviceWorker::Impl {
  Options options;
  std::shared_ptr<DeviceBackend> backend;
  WorkerLayout layout;
  CopyPlanner planner;
  std::array<Direction, 2> directions;

  std::mutex stopping;  // one stop at a time
  std::mutex mutex;     // guards the rest
  std::condition_variable ended;
  std::map<std::uint64_t, RunningJob> running;
  std::uint64_t running_fragments = 0;
  std::uint32_t telling = 0;  // ends that are being told right now
  DeviceWorkerStats stats;
  bool is_stopping = false;
  bool is_abandoned = false;  // nothing outside may be touched any more
  std::optional<bool> stopped;

  void log(const std::string& level, const std::string& line) const {
    if (options.log) options.log(level, line);
  }
  Expected<Tokens> check_buffers(const std::vector<std::uint32_t>& tensors) const;
  Expected<Ok> accept(const CopyJob& job, const CopyPlan& plan, Tokens tokens);
  void forget(std::uint64_t id);
  void finish(std::uint64_t id, const std::string& error, Duration time);
  bool synchronize(Clock::time_point until);
  void release();
};

namespace {

/// What is still being copied when patience is over lives as long as the process.
void keep_for_ever(std::shared_ptr<void> what) {
  static auto* const kept = new std::vector<std::shared_ptr<void>>;
  static auto* const mutex = new std::mutex;
  const std::lock_guard lock(*mutex);
  kept->push_back(std::move(what));
}

std::vector<std::uint32_t> all_tensors(const KvCaches& caches) {
  std::vector<std::uint32_t> all(caches.tensors.size());
  for (std::uint32_t t = 0; t < all.size(); ++t) all[t] = t;
  return all;
}

std::optional<OffloadError> wrong_rows(const PrimaryView& rows) {
  if (rows.base == nullptr || rows.num_chunks == 0)
    return OffloadError{OffloadErrc::invalid_argument,
                        "rows: there are none; expected those of a primary tier"};
  if (rows.row_bytes < rows.payload_bytes)
    return OffloadError{OffloadErrc::invalid_argument,
                        "rows: row_bytes " + std::to_string(rows.row_bytes) +
                            " is not allowed; expected at least " +
                            std::to_string(rows.payload_bytes) + ", the payload"};
  return std::nullopt;
}

}  // namespace

Expected<Tokens> DeviceWorker::Impl::check_buffers(
    const std::vector<std::uint32_t>& tensors) const {
  Tokens tokens;
  for (const std::uint32_t t : tensors) {
    const KvTensor& tensor = options.caches.tensors[t];
    if (tensor.alive) {
      auto token = tensor.alive->lock();
      if (token == nullptr)
        return {OffloadErrc::invalid_argument,
                "tensor \"" + tensor.name +
                    "\": its buffer was freed while registered (its owner dropped `alive`); "
                    "nothing was copied; "
                    "remedy: stop the worker before its buffers are freed"};
      tokens.push_back(std::move(token));
    }
    if (auto checked = backend->check_buffer(tensor); !checked) return checked.error();
  }
  return tokens;
}

Expected<std::unique_ptr<DeviceWorker>> DeviceWorker::start(Options options) try {
  if (auto wrong = wrong_rows(options.rows)) return *std::move(wrong);
  if (options.jobs_max == 0)
    return {OffloadErrc::invalid_argument, "jobs_max: 0 is not allowed; expected at least 1"};
  auto layout = WorkerLayout::make(options.caches, options.place, options.rows.payload_bytes,
                                   options.namespace_collapsed);
  if (!layout) return layout.error();
  auto impl = std::make_shared<Impl>();
  impl->backend = options.backend;
  if (impl->backend == nullptr) {
    auto host = make_host_backend();
    if (!host) return host.error();
    impl->backend = std::move(*host);
  }
  impl->options = std::move(options);
  impl->layout = std::move(*layout);
  const Options& o = impl->options;
  if (auto buffers = impl->check_buffers(all_tensors(o.caches)); !buffers) return buffers.error();
  impl->planner = CopyPlanner(o.caches, impl->layout, o.rows);
  for (std::size_t d = 0; d < impl->directions.size(); ++d) {
    auto stream = impl->backend->open_stream("kvo-" + std::string(kDirections[d]) + '-' +
                                             std::to_string(o.place.rank));
    if (!stream) return stream.error();
    impl->directions[d].stream = std::move(*stream);
  }
  // Last, because nothing after it fails.
  const std::span<std::byte> memory{o.rows.base, o.rows.num_chunks * o.rows.row_bytes};
  impl->stats.region_bytes = memory.size();
  if (o.register_rows)
    impl->stats.registered_bytes = impl->backend->register_host(
        memory, [&impl](const std::string& line) { impl->log("warn", line); });
  std::string line = "worker " + std::to_string(o.place.rank) + " of " +
                     std::to_string(o.place.world_size) + ": " + impl->backend->name() + ", " +
                     std::string(to_string(o.place.layout)) + " layout, " +
                     std::to_string(impl->layout.chunk_bytes) + " bytes a chunk";
  if (const auto portable = impl->layout.all_layers_portable)
    line += *portable ? ", all_layers_portable: true" : ", all_layers_portable: false";
  if (o.register_rows)
    line += ", " + std::to_string(impl->stats.registered_bytes) + " of " +
            std::to_string(memory.size()) + " bytes registered";
  impl->log("info", line);
  return std::unique_ptr<DeviceWorker>(new DeviceWorker(std::move(impl)));
} catch (const std::bad_alloc&) {
  return {OffloadErrc::no_space, "device worker: memory is exhausted"};
}

DeviceWorker::DeviceWorker(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

DeviceWorker::~DeviceWorker() { stop(kEndPatience); }

Expected<Ok> DeviceWorker::Impl::accept(const CopyJob& job, const CopyPlan& plan, Tokens tokens) {
  const std::lock_guard lock(mutex);
  const std::string who = "copy job " + std::to_string(job.id) + ": ";
  if (is_stopping) return {OffloadErrc::shutting_down, who + "the worker is stopping"};
  if (running.size() >= options.jobs_max)
    return {OffloadErrc::busy,
            who + std::to_string(running.size()) + " jobs (jobs_max) are running already"};
  if (!running.empty() && running_fragments + plan.fragments.size() > kRunningFragmentsMax)
    return {OffloadErrc::busy,
            who + std::to_string(running_fragments) + " fragments are being copied already"};
  RunningJob entry{job.is_load, plan.bytes, plan.fragments.size(), {}, std::move(tokens)};
  if (options.rows.in_use != nullptr && !plan.fragments.empty()) entry.rows = job.chunk_ids;
  const auto [at, is_new] = running.try_emplace(job.id, std::move(entry));
  if (!is_new)
    return {OffloadErrc::invalid_argument,
            who + "a running job has this id; expected one of its own"};
  running_fragments += at->second.fragments;
  for (const ChunkId row : at->second.rows) options.rows.begin_use(row);
  return Ok{};
}

/// Of an accepted job that did not begin.
void DeviceWorker::Impl::forget(std::uint64_t id) {
  Tokens tokens;  // may free their buffers: not under the lock
  const std::lock_guard lock(mutex);
  RunningJob& job = running.at(id);
  for (const ChunkId row : job.rows) options.rows.end_use(row);
  running_fragments -= job.fragments;
  tokens = std::move(job.tokens);
  running.erase(id);
  ended.notify_all();
}

Expected<Ok> DeviceWorker::submit(CopyJob job) try {
  Impl& s = *impl_;
  auto plan = s.planner.plan(job);
  if (!plan) return plan.error();
  auto tokens = s.check_buffers(s.planner.tensors_of(job));
  if (!tokens) return tokens.error();

  Direction& direction = s.directions[job.is_load ? 1 : 0];
  const std::lock_guard order(direction.order);
  if (!direction.broken.empty()) return {OffloadErrc::io_error, direction.broken};
  if (auto accepted = s.accept(job, *plan, std::move(*tokens)); !accepted) return accepted;
  // From here on the stream stays: stop() passes `order` before it looks at streams.
  const bool copies = !plan->fragments.empty();
  if (copies && job.after != 0)
    if (auto waits = direction.stream->wait(job.after); !waits) return s.forget(job.id), waits;
  // A batch that fails may have begun: its job ends like any other, behind whatever was enqueued.
  std::string failed;
  if (copies)
    if (auto copied = direction.stream->copy(plan->fragments, job.is_load); !copied)
      failed = to_string(copied.error());
  auto told = direction.stream->then(
      [impl = impl_, id = job.id, failed](const std::string& error, Duration time) {
        impl->finish(id, failed.empty() ? error : failed, time);
      });
  if (!told) {
    direction.broken = std::string(kDirections[job.is_load ? 1 : 0]) +
                       " stream: the end of a job cannot be told: " + to_string(told.error());
    s.log("error", direction.broken + "; copy job " + std::to_string(job.id) +
                       " counts as running until the worker stops");
  }
  return Ok{};
} catch (const std::bad_alloc&) {
  return {OffloadErrc::no_space, "copy job " + std::to_string(job.id) + ": memory is exhausted"};
}

void DeviceWorker::Impl::finish(std::uint64_t id, const std::string& error, Duration time) {
  RunningJob job;
  CopyResult result{id, error.empty(), error, 0, time};
  {
    const std::lock_guard lock(mutex);
    const auto at = running.find(id);
    if (is_abandoned || at == running.end()) return;
    job = std::move(at->second);
    running.erase(at);
    running_fragments -= job.fragments;
    auto& totals = job.is_load ? stats.loads : stats.stores;
    ++totals.jobs;
    totals.time += time;
    if (result.success)
      totals.bytes += result.bytes = job.bytes;
    else
      ++totals.failed;
    for (const ChunkId row : job.rows) options.rows.end_use(row);
    ++telling;
  }
  job.tokens.clear();
  if (options.done) options.done(std::move(result));
  const std::lock_guard lock(mutex);
  --telling;
  ended.notify_all();
}

/// False: a copy is still running. A device that failed has ended, too: it copies nothing any more.
bool DeviceWorker::Impl::synchronize(Clock::time_point until) {
  bool all_ended = true;
  for (Direction& direction : directions) {
    { const std::lock_guard passed(direction.order); }  // whoever was enqueueing has done so
    const Duration left = std::max<Duration>(until - Clock::now(), Duration{});
    const auto synchronized = direction.stream->synchronize(left);
    if (synchronized) continue;
    log("error", "at the end: " + to_string(synchronized.error()));
    if (synchronized.error().code == OffloadErrc::deadline) all_ended = false;
  }
  if (!all_ended) return false;
  // Ends that no stream told.
  std::vector<std::uint64_t> untold;
  {
    const std::lock_guard lock(mutex);
    for (const auto& [id, job] : running) untold.push_back(id);
  }
  for (const std::uint64_t id : untold) finish(id, "the device did not say how it ended", {});
  std::unique_lock lock(mutex);
  return ended.wait_until(lock, until, [this] { return running.empty() && telling == 0; });
}

void DeviceWorker::Impl::release() {
  if (options.register_rows)
    backend->unregister_host({options.rows.base, options.rows.num_chunks * options.rows.row_bytes});
  for (Direction& direction : directions) direction.stream.reset();
}

bool DeviceWorker::stop(Duration patience) {
  Impl& s = *impl_;
  const std::lock_guard alone(s.stopping);
  {
    const std::lock_guard lock(s.mutex);
    if (s.stopped) return *s.stopped;
    s.is_stopping = true;
  }
  const bool all_ended =
      s.synchronize(Clock::now() + std::clamp(patience, Duration{}, kPatienceMax));
  if (all_ended) {
    s.release();
  } else {
    std::uint64_t left = 0;
    {
      const std::lock_guard lock(s.mutex);
      s.is_abandoned = true;
      left = s.running.size();
    }
    s.log(
        "error",
        "worker " + std::to_string(s.options.place.rank) + ": " + std::to_string(left) +
            " copy jobs did not end within " + std::to_string(to_seconds(patience)) +
            " s: their streams, the registration of " + std::to_string(s.stats.registered_bytes) +
            " bytes of rows and the buffers' tokens are kept for the rest of the process; rows and "
            "buffers must not be freed");
    keep_for_ever(impl_);
  }
  const std::lock_guard lock(s.mutex);
  s.stopped = all_ended;
  return all_ended;
}

DeviceWorkerStats DeviceWorker::stats() const {
  const std::lock_guard lock(impl_->mutex);
  DeviceWorkerStats stats = impl_->stats;
  stats.running_jobs = impl_->running.size();
  return stats;
}

std::optional<bool> DeviceWorker::all_layers_portable() const {
  return impl_->layout.all_layers_portable;
}

}  // namespace kv_offload
