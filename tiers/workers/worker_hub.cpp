#include "kv_offload/tiers/workers/worker_hub.hpp"

#include "kv_offload/tiers/io/io_thread.hpp"
#include "kv_offload/tiers/primary/region_memory.hpp"
#include "kv_offload/tiers/workers/hub_loop.hpp"

#include <array>
#include <fcntl.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>

namespace kv_offload {
namespace {

constexpr std::size_t kQueuedBytesMax = 64U << 20;
constexpr Duration kDestructorPatience = std::chrono::seconds(10);

bool is_sealed(int fd) {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_SHRINK) != 0;
}

/// Joiners would refuse a descriptor that is not the record's: better said here.
Expected<Ok> check_region(int fd, const RegionRecord& record) {
  std::array<std::byte, kRegionHeaderBytes> page{};
  if (::pread(fd, page.data(), page.size(), 0) != static_cast<ssize_t>(page.size()))
    return {OffloadErrc::invalid_argument, "workers: region_fd is no region"};
  auto header = parse_header(page);
  if (!header) return {OffloadErrc::invalid_argument, "workers: " + header.error().detail};
  if (!header->ready || header->record->owner != record.owner ||
      header->record->engine_id != record.engine_id)
    return {OffloadErrc::invalid_argument, "workers: region_fd is not the region of the record"};
  return Ok{};
}

}  // namespace

struct WorkerHub::Impl {
  Impl(Options with, SocketAddress address)
      : options(std::move(with)), listener(std::move(address)) {}

  const Options options;
  HubShared shared;
  HubListener listener;  // the thread's, once that runs
  WakeEvent wake;
  MappedMemory header;  // the region's first page
  std::thread thread;
};

WorkerHub::WorkerHub(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

WorkerHub::~WorkerHub() {
  static_cast<void>(stop(kDestructorPatience));
  if (impl_->thread.joinable()) impl_->thread.join();
}

Expected<std::unique_ptr<WorkerHub>> WorkerHub::start(Options options) {
  auto address = SocketAddress::parse(options.socket);
  if (!address) return {address.error().code, "workers." + address.error().detail};
  if (auto error = check_record(options.record))
    return {OffloadErrc::invalid_config, "workers: " + error->detail};
  if (options.orders_max == 0)
    return {OffloadErrc::invalid_config, "workers.orders_max: 0; expected at least 1"};
  if (auto region = check_region(options.region_fd, options.record); !region) return region.error();
  if (!options.now) options.now = [] { return std::chrono::steady_clock::now(); };
  auto impl = std::make_unique<Impl>(std::move(options), std::move(*address));
  impl->shared.record = impl->options.record;
  for (std::uint32_t rank = 0; rank < impl->options.record.world_size; ++rank)
    impl->shared.missing +=
        (rank == 0 ? "rank " : "; rank ") + std::to_string(rank) + " has not joined";
  impl->shared.stats.ranks.resize(impl->options.record.world_size);
  impl->header = map_region(impl->options.region_fd, kRegionRowsOffset);
  if (impl->header.base() == nullptr || !impl->wake)
    return {OffloadErrc::io_error, "workers: no memory or descriptors for the hub"};
  if (auto opened = impl->listener.open(); !opened)
    return {opened.error().code, "workers." + opened.error().detail};
  try {
    const SignalsBlocked blocked;
    impl->thread = std::thread([m = impl.get()] {
      name_this_thread("kvo-workers");
      HubLoop(m->options, m->shared, m->listener, m->wake, is_sealed(m->options.region_fd)).run();
    });
  } catch (const std::system_error& error) {
    return {OffloadErrc::io_error, std::string("workers: the hub's thread: ") + error.what()};
  }
  return std::unique_ptr<WorkerHub>(new WorkerHub(std::move(impl)));
}

Expected<Ok> WorkerHub::wait_joined(Duration patience) {
  auto& s = impl_->shared;
  std::unique_lock lock(s.mutex);
  const bool known =
      s.changed.wait_for(lock, patience, [&] { return s.missing.empty() || s.misfit || s.stop; });
  if (s.stop) return {OffloadErrc::shutting_down, "workers: the hub has been stopped"};
  if (s.misfit) return {s.misfit->code, "workers: " + s.misfit->detail};
  if (known) return Ok{};
  return {OffloadErrc::deadline,
          "workers: " + s.missing +
              (s.last_refusal.empty() ? "" : "; last refusal: " + s.last_refusal)};
}

Expected<Ok> WorkerHub::submit(WorkerOrder order) {
  std::shared_ptr<const std::vector<std::byte>> frame;
  const std::string name = "order " + std::to_string(order.id);
  const bool is_load = order.is_load;
  const std::uint64_t rows = mark_of_rows(order.chunk_ids);
  if (!order.told_by_embedder) {
    frame = std::make_shared<const std::vector<std::byte>>(encode(OrderMessage{
        order.id, order.is_load, std::move(order.blocks), std::move(order.chunk_ids)}));
    if (frame->size() > kFrameHeadBytes + kFramePayloadMax)
      return {OffloadErrc::invalid_argument, name + ": " + std::to_string(frame->size()) +
                                                 " bytes of blocks and chunks; expected at most " +
                                                 std::to_string(kFramePayloadMax)};
  }
  auto& s = impl_->shared;
  {
    const std::scoped_lock lock(s.mutex);
    if (s.stop) return {OffloadErrc::shutting_down, name + ": the engine ends"};
    if (!s.missing.empty()) return {OffloadErrc::io_error, name + ": " + s.missing};
    if (s.ids.size() >= impl_->options.orders_max)
      return {OffloadErrc::busy, name + ": " + std::to_string(s.ids.size()) +
                                     " orders are out; expected at most " +
                                     std::to_string(impl_->options.orders_max)};
    if (s.queued_bytes > kQueuedBytesMax)
      return {OffloadErrc::busy, name + ": " + std::to_string(s.queued_bytes) +
                                     " bytes wait for a worker to read them"};
    if (!s.ids.insert(order.id).second)
      return {OffloadErrc::invalid_argument, name + ": is out already"};
    if (frame) s.queued_bytes += frame->size();  // until the thread counts again
    s.inbox.push_back({order.id, order.deadline, order.told_by_embedder, is_load, rows, std::move(frame)});
  }
  impl_->wake.wake();
  return Ok{};
}

void WorkerHub::set_revision(const std::string& revision) {
  auto& s = impl_->shared;
  const std::scoped_lock lock(s.mutex);
  s.record.revision = revision.substr(0, kRevisionBytesMax);
  publish_record(impl_->header.base(), s.record);
}

WorkerHubStats WorkerHub::stats() const {
  const std::scoped_lock lock(impl_->shared.mutex);
  return impl_->shared.stats;
}

std::optional<bool> WorkerHub::all_layers_portable() const {
  const std::scoped_lock lock(impl_->shared.mutex);
  return impl_->shared.all_portable;
}

bool WorkerHub::stop(Duration patience) {
  auto& s = impl_->shared;
  std::unique_lock lock(s.mutex);
  // By the machine's clock: an embedder's own may stand still.
  if (!std::exchange(s.stop, true)) s.stop_at = std::chrono::steady_clock::now() + patience;
  s.changed.notify_all();
  impl_->wake.wake();
  s.changed.wait(lock, [&] { return s.ended; });
  return s.ended_clean;
}

}  // namespace kv_offload
