#pragma once

#include "kv_offload/tests/workers/fleet.hpp"
#include "kv_offload/tests/workers/stage.hpp"
#include "kv_offload/tiers/primary/region.hpp"
#include "kv_offload/tiers/workers/worker_hub.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

namespace kv_offload::test {

/// What a hub says, in order.
class OrderLog final : public WorkerOrderSink {
 public:
  struct Line {
    std::uint64_t id = 0;
    std::optional<OrderOutcome> outcome = {};  ///< none: quiesced
  };
  void order_outcome(OrderOutcome outcome) override {
    const std::scoped_lock lock(mutex_);
    const auto id = outcome.id;
    lines_.push_back({id, std::move(outcome)});
    changed_.notify_all();
  }
  /// On the hub's thread, before the line is in the log.
  std::function<void()> at_quiesced = {};
  void order_quiesced(std::uint64_t id) override {
    if (at_quiesced) at_quiesced();
    const std::scoped_lock lock(mutex_);
    lines_.push_back({id, std::nullopt});
    changed_.notify_all();
  }
  /// Waits for it; an outcome that never comes is a failed test.
  std::optional<OrderOutcome> outcome(std::uint64_t id) {
    std::unique_lock lock(mutex_);
    std::optional<OrderOutcome> found;
    changed_.wait_for(lock, kPatience, [&] {
      for (const auto& line : lines_)
        if (line.id == id && line.outcome) found = line.outcome;
      return found.has_value();
    });
    return found;
  }
  bool wait_quiesced(std::uint64_t id) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return count(id, false) > 0; });
  }
  bool quiesced(std::uint64_t id) {
    const std::scoped_lock lock(mutex_);
    return count(id, false) > 0;
  }
  /// Each order once, the outcome first.
  bool in_order() {
    const std::scoped_lock lock(mutex_);
    std::map<std::uint64_t, int> seen;
    for (const auto& line : lines_)
      if (seen[line.id]++ != (line.outcome ? 0 : 1)) return false;
    return true;
  }
  std::vector<Line> lines() {
    const std::scoped_lock lock(mutex_);
    return lines_;
  }

 private:
  static constexpr auto kPatience = std::chrono::seconds(40);
  int count(std::uint64_t id, bool outcome) const {
    int n = 0;
    for (const auto& line : lines_)
      n += line.id == id && line.outcome.has_value() == outcome ? 1 : 0;
    return n;
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Line> lines_;
};

/// Names that no other test has.
inline std::string unique_socket() {
  static int next = 0;
  return "@kvo-test-" + std::to_string(::getpid()) + "-" + std::to_string(next++);
}

/// An engine's end: region and hub for the ranks of a stage.
struct Scene {
  explicit Scene(const StageShape& shape, ChunkId chunks = 8) : stage(shape) {
    record.engine_id = "engine-a";
    record.world_size = shape.world_size;
    record.blocks_per_chunk = shape.blocks_per_chunk;
    record.fingerprint = "f1";
    record.revision = "r1";
    RegionOptions options;
    options.num_chunks = chunks;
    options.chunk_bytes = stage.slot_bytes() * shape.world_size;
    options.threads = 1;
    options.shared = RegionSharing{record, "", false};
    auto made = Region::create(options);
    if (made) region = std::move(*made);
  }
  ~Scene() {
    if (hub)
      static_cast<void>(hub->stop(std::chrono::milliseconds(10)));  // raw workers say no goodbye
    hub.reset();
    region.reset();
  }
  /// The error, or empty.
  std::string start_hub(WorkerHub::Options options = {}) {
    if (options.socket.empty()) options.socket = socket;
    options.record = *region->record();
    options.region_fd = region->fd();
    options.sink = &log;
    options.log = [this](const std::string& level, const std::string& line) {
      const std::scoped_lock lock(mutex);
      lines.push_back(level + ": " + line);
    };
    auto started = WorkerHub::start(std::move(options));
    if (!started) return started.error().detail;
    hub = std::move(*started);
    return {};
  }
  static WorkerOrder order(std::uint64_t id, bool is_load, std::uint32_t block, ChunkId chunk,
                           std::uint32_t count = 1) {
    WorkerOrder order;
    order.id = id;
    order.is_load = is_load;
    for (std::uint32_t i = 0; i < count; ++i) order.blocks.block_ids.push_back(block + i);
    order.blocks.group_sizes = {count};
    order.blocks.first_blocks = {0};
    order.chunk_ids = {chunk};
    order.deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    return order;
  }
  bool logged(const std::string& text) {
    const std::scoped_lock lock(mutex);
    for (const auto& line : lines)
      if (line.find(text) != std::string::npos) return true;
    return false;
  }

  Stage stage;
  RegionRecord record;
  const std::string socket = unique_socket();
  OrderLog log;
  std::mutex mutex;
  std::vector<std::string> lines;
  std::unique_ptr<Region> region;
  std::unique_ptr<WorkerHub> hub;
};

}  // namespace kv_offload::test
