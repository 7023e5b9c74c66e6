#include "kv_offload/tiers/io/choose_backend.hpp"

#include "kv_offload/tiers/io/fallback_backend.hpp"
#include "kv_offload/tiers/io/thread_backend.hpp"
#include "kv_offload/tiers/io/uring_backend.hpp"

#include <utility>

namespace kv_offload {

namespace {

std::unique_ptr<IoBackend> make_ring(const LaneOptions& lane, std::uint32_t queue_depth) {
  UringOptions options;
  options.queue_depth = queue_depth;
  options.primary = lane.primary;
  return std::make_unique<UringBackend>(std::move(options));
}

std::unique_ptr<IoBackend> make_threads(const LaneOptions& lane, std::uint32_t queue_depth) {
  ThreadOptions options;
  options.name = lane.name;
  options.queue_depth = queue_depth;
  return std::make_unique<ThreadBackend>(std::move(options));
}

}  // namespace

std::unique_ptr<IoBackend> choose_backend(IoMode mode, const LaneOptions& lane,
                                          std::uint32_t queue_depth,
                                          std::function<void(std::string)> log) {
  if (mode == IoMode::uring) return make_ring(lane, queue_depth);
  if (mode == IoMode::threads) return make_threads(lane, queue_depth);
  auto say = [log = std::move(log), name = lane.name](const std::string& why,
                                                      const std::string& used) {
    if (log) log(name + ": " + used + " in place of io_uring: " + why);
  };
  return std::make_unique<FallbackBackend>(make_ring(lane, queue_depth),
                                           make_threads(lane, queue_depth), std::move(say));
}

}  // namespace kv_offload
