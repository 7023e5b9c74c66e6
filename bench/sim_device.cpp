#include "kv_offload/bench/sim_device.hpp"

#include <algorithm>
#include <utility>

namespace kv_offload::bench {

Duration SimDevice::device_now() const {
  return std::max(world_.now(), stall_until_) - SimWorld::kStart - stalled_;
}

void SimDevice::stall(Duration duration) {
  stall_until_ = std::max(stall_until_, world_.now()) + duration;
  stalled_ += duration;
}

void SimDevice::after_device_time(Duration when, Then then) {
  const bool first = due_.empty() || when < due_.top().when;
  due_.push({when, sequence_++, std::move(then)});
  if (first) arm();
}

void SimDevice::arm() {
  if (due_.empty()) return;
  world_.at(SimWorld::kStart + stalled_ + due_.top().when, [this] { fire(); });
}

/// A stall, or something earlier, may have come between: then the moment is another one by now.
void SimDevice::fire() {
  const Duration now = world_.now() - SimWorld::kStart - stalled_;
  if (due_.empty()) return;
  if (due_.top().when > now) return arm();
  const Then then = due_.top().then;
  due_.pop();
  arm();
  then();
}

void SimDevice::prefill(std::uint64_t tokens, Then then) {
  const Duration takes = from_seconds(static_cast<double>(tokens) / model_.prefill_tokens_s);
  prefill_free_ = std::max(prefill_free_, device_now()) + takes;
  prefill_busy_ += takes;
  after_device_time(prefill_free_, std::move(then));
}

void SimDevice::decode(std::uint64_t tokens, Then then) {
  after_device_time(
      device_now() + from_seconds(static_cast<double>(tokens) / model_.decode_tokens_s),
      std::move(then));
}

namespace {

MonotonicTime copied(MonotonicTime now, MonotonicTime& free, std::uint64_t bytes, double bytes_s) {
  free = std::max(free, now) + from_seconds(static_cast<double>(bytes) / bytes_s);
  return free;
}

}  // namespace

void SimDevice::to_host(std::uint64_t bytes, Then then) {
  world_.at(copied(world_.now(), to_host_free_, bytes, model_.to_host_bytes_s), std::move(then));
}

void SimDevice::to_device(std::uint64_t bytes, Then then) {
  world_.at(copied(world_.now(), to_device_free_, bytes, model_.to_device_bytes_s),
            std::move(then));
}

SimDeviceModel read_device_model(ConfigReader& reader) {
  SimDeviceModel model;
  const auto rate = [&](const char* key, double fallback) {
    return reader.number(key, fallback, 0, 1e18, /*min_exclusive=*/true);
  };
  model.hbm_chunks = static_cast<std::uint64_t>(reader.number("hbm_chunks", 0, 0, 1e9));
  model.prefill_tokens_s = rate("prefill_tokens_s", model.prefill_tokens_s);
  model.decode_tokens_s = rate("decode_tokens_s", model.decode_tokens_s);
  model.max_requests =
      static_cast<std::uint32_t>(reader.integer("max_requests", model.max_requests, 1, 1 << 20));
  model.to_host_bytes_s = rate("to_host_bytes_s", model.to_host_bytes_s);
  model.to_device_bytes_s = rate("to_device_bytes_s", model.to_device_bytes_s);
  model.min_load_tokens = static_cast<std::uint64_t>(reader.number("min_load_tokens", 0, 0, 1e9));
  return model;
}

}  // namespace kv_offload::bench
