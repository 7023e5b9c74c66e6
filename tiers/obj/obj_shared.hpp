#pragma once

#include "kv_offload/tiers/event_queue.hpp"
#include "kv_offload/tiers/obj/obj_namespace.hpp"
#include "kv_offload/tiers/obj/s3_counters.hpp"
#include "kv_offload/tiers/secondary_tier.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace kv_offload {

/// Numbers of an obj tier besides those of its client. Written by the lane, read by anyone.
struct ObjCounters {
  std::atomic<std::uint64_t> corrupt_chunks{0};
  std::atomic<std::uint64_t> foreign_refused{0};
  std::atomic<std::uint64_t> cached_verdicts{0};     ///< keys answered without asking the store
  std::atomic<std::uint64_t> evicted_chunks{0};
  std::atomic<std::uint64_t> evicted_bytes{0};
  std::atomic<std::uint64_t> delete_failures{0};     ///< objects that the store did not delete
  std::atomic<std::uint64_t> waited_stores{0};       ///< keys that waited for room
  std::atomic<std::uint64_t> listed_objects{0};
  std::atomic<std::uint64_t> known_objects{0};       ///< gauge
  std::atomic<std::uint64_t> known_bytes{0};         ///< gauge
  std::atomic<std::uint64_t> credentials_renewed{0};
};

struct ObjForget {
  ForgetId id = 0;
  KeyList keys;
  std::optional<std::uint64_t> salt;  ///< set: every key of this tenant
};

/// What the tier's actor leaves for its lane, and what anyone may read. Any thread.
struct ObjShared {
  static constexpr std::size_t kForgetsMax = 1024;  // like the engine's calls_max

  const std::shared_ptr<S3Counters> s3 = std::make_shared<S3Counters>();
  ObjCounters counters;
  EventQueue events;

  std::atomic<bool> has_news{false};
  std::mutex mutex;  // guards the rest
  std::deque<ObjForget> forgets;
  std::optional<ObjNamespace> next_namespace;
};

}  // namespace kv_offload
