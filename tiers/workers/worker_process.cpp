#include "kv_offload/tiers/workers/worker_process.hpp"

#include "kv_offload/tiers/io/io_thread.hpp"
#include "kv_offload/tiers/workers/worker_loop.hpp"

#include <system_error>
#include <thread>
#include <utility>

namespace kv_offload {
namespace {

constexpr Duration kDestructorPatience = std::chrono::seconds(10);

/// What is wrong with them whatever the engine says; empty if nothing.
std::string wrong_options(const WorkerProcess::Options& o) {
  if (o.socket.empty() == o.region_file.empty())
    return "socket, region_file: " + std::string(o.socket.empty() ? "neither" : "both") +
           " given; expected one of them";
  if (o.place.world_size == 0 || o.place.world_size > kRegionRanksMax)
    return "world_size: " + std::to_string(o.place.world_size) + "; expected 1 to " +
           std::to_string(kRegionRanksMax);
  if (o.place.rank >= o.place.world_size)
    return "rank: " + std::to_string(o.place.rank) + "; expected 0 to " +
           std::to_string(o.place.world_size - 1);
  if (o.place.blocks_per_chunk == 0) return "blocks_per_chunk: 0; expected at least 1";
  if (const auto layout = WorkerLayout::make(o.caches, o.place, std::nullopt, false); !layout) return layout.error().detail;
  if (o.engine_id.size() > kEngineIdBytesMax)
    return "engine_id: longer than " + std::to_string(kEngineIdBytesMax) + " bytes";
  if (!o.socket.empty())
    if (auto address = SocketAddress::parse(o.socket); !address) return address.error().detail;
  return {};
}

/// The engine numbers its own orders from 2^63 on.
std::optional<OffloadError> wrong_id(const WorkerProcess::Options& o, std::uint64_t id) {
  if (o.socket.empty() || id < 1ULL << 63) return std::nullopt;
  return OffloadError{OffloadErrc::invalid_argument,
                      "worker: job id " + std::to_string(id) + " is not allowed; expected below 2^63"};
}

}  // namespace

struct WorkerProcess::Impl {
  explicit Impl(Options with) : options(std::move(with)) {}
  Options options;
  WorkerShared shared;
  WakeEvent wake;
  std::shared_ptr<WorkerInbox> inbox = std::make_shared<WorkerInbox>();
  std::thread thread;
};

WorkerProcess::WorkerProcess(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

WorkerProcess::~WorkerProcess() {
  static_cast<void>(stop(kDestructorPatience));
  if (impl_->thread.joinable()) impl_->thread.join();
}

Expected<std::unique_ptr<WorkerProcess>> WorkerProcess::start(Options options) {
  if (auto wrong = wrong_options(options); !wrong.empty())
    return {OffloadErrc::invalid_config, "worker: " + wrong};
  auto impl = std::make_unique<Impl>(std::move(options));
  if (!impl->wake) return {OffloadErrc::io_error, "worker: no descriptor for it"};
  impl->inbox->wakes(&impl->wake);
  try {
    const SignalsBlocked blocked;
    impl->thread = std::thread([m = impl.get()] {
      name_this_thread("kvo-rank" + std::to_string(m->options.place.rank));
      WorkerLoop(m->options, m->shared, m->wake, m->inbox).run();
    });
  } catch (const std::system_error& error) {
    return {OffloadErrc::io_error, std::string("worker: its thread: ") + error.what()};
  }
  return std::unique_ptr<WorkerProcess>(new WorkerProcess(std::move(impl)));
}

Expected<Ok> WorkerProcess::wait_ready(Duration patience) {
  auto& s = impl_->shared;
  using Phase = WorkerShared::Phase;
  std::unique_lock lock(s.mutex);
  s.changed.wait_for(lock, patience,
                     [&] { return s.phase == Phase::ready || s.phase == Phase::ended; });
  if (s.phase == Phase::ready) return Ok{};
  if (s.phase == Phase::ended) return s.why;
  return {OffloadErrc::deadline,
          "worker: " + (s.phase == Phase::joining ? s.joining_on : std::string("is leaving"))};
}

Expected<Ok> WorkerProcess::submit(CopyJob job) {
  auto& s = impl_->shared;
  const auto id = job.id;
  std::shared_ptr<DeviceWorker> device;
  {
    const std::scoped_lock lock(s.mutex);
    if (s.phase != WorkerShared::Phase::ready || s.stop)
      return {
          s.phase == WorkerShared::Phase::joining ? OffloadErrc::busy : OffloadErrc::shutting_down,
          "worker: job " + std::to_string(id) + ": " +
              (s.phase == WorkerShared::Phase::joining ? "still joining"
                                                       : "it is leaving, or has left")};
    if (auto wrong = wrong_id(impl_->options, id)) return *wrong;
    if (!s.jobs.emplace(id, WorkerShared::Job{job.is_load, true, mark_of_rows(job.chunk_ids), false}).second)
      return {OffloadErrc::invalid_argument,
              "worker: job " + std::to_string(id) + ": one with this id is running"};
    device = s.device;
  }
  auto begun = device->submit(std::move(job));
  if (begun) return begun;
  if (begun.error().code == OffloadErrc::busy) {  // it may be submitted again
    const std::scoped_lock lock(s.mutex);
    s.jobs.erase(id);
  } else {
    {
      const std::scoped_lock lock(s.mutex);
      s.jobs[id].is_declined = true;
    }
    impl_->inbox->push({id, false, begun.error().detail, 0, {}});  // else the engine would wait for this rank
  }
  impl_->wake.wake();
  return begun;
}

Expected<Ok> WorkerProcess::decline(std::uint64_t id, const std::string& why) {
  auto& s = impl_->shared;
  {
    const std::scoped_lock lock(s.mutex);
    if (s.phase != WorkerShared::Phase::ready || s.stop)
      return {OffloadErrc::shutting_down, "worker: job " + std::to_string(id) + ": it has not joined, or is leaving"};
    if (auto wrong = wrong_id(impl_->options, id)) return *wrong;
    if (!s.jobs.emplace(id, WorkerShared::Job{false, true, 0, true}).second)
      return {OffloadErrc::invalid_argument, "worker: job " + std::to_string(id) + ": is running"};
  }
  impl_->inbox->push({id, false, "declined: " + why, 0, {}});
  return Ok{};
}

DeviceWorkerStats WorkerProcess::stats() const {
  std::shared_ptr<DeviceWorker> device;
  {
    const std::scoped_lock lock(impl_->shared.mutex);
    if (impl_->shared.device == nullptr) return impl_->shared.last_stats;
    device = impl_->shared.device;
  }
  return device->stats();
}

std::optional<bool> WorkerProcess::all_layers_portable() const {
  const std::scoped_lock lock(impl_->shared.mutex);
  return impl_->shared.all_portable;
}

bool WorkerProcess::stop(Duration patience) {
  auto& s = impl_->shared;
  std::unique_lock lock(s.mutex);
  if (!s.stop) {
    s.stop_at = std::chrono::steady_clock::now() + patience;
    s.stop = true;
  }
  impl_->wake.wake();
  s.changed.wait(lock, [&] { return s.phase == WorkerShared::Phase::ended; });
  return s.clean;
}

}  // namespace kv_offload
