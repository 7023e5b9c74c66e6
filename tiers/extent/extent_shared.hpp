#pragma once

#include "kv_offload/tiers/event_queue.hpp"
#include "kv_offload/tiers/extent/extent_volume.hpp"
#include "kv_offload/tiers/secondary_tier.hpp"

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kv_offload {

/// Namespace and revision that new chunks belong to.
struct ExtentNamespace {
  std::string text;  ///< what digests are computed for
  std::uint64_t tag = 0;
};

struct ForgetWork {
  ForgetId id = 0;
  std::uint64_t namespace_tag = 0;  ///< of the time of the call
  KeyList keys;
  std::optional<std::uint64_t> salt;  ///< set: every key of this tenant
};

/// Numbers of an extent tier. Written by the lane, read by anyone.
struct ExtentCounters {
  std::atomic<std::uint64_t> corrupt_chunks{0};
  std::atomic<std::uint64_t> stored_bytes{0};   ///< rows of stores that succeeded
  std::atomic<std::uint64_t> written_bytes{0};  ///< everything written to the file
  std::atomic<std::uint64_t> evicted_chunks{0};
  std::atomic<std::uint64_t> evicted_segments{0};
  std::atomic<std::uint64_t> rewritten_chunks{0};
  std::atomic<std::uint64_t> rewrites_dropped{0};  ///< hot, and evicted all the same
  std::atomic<std::uint64_t> free_segments{0};     ///< gauge
  std::atomic<std::uint64_t> dead_slots{0};        ///< gauge: in filled segments, known to nobody
  std::atomic<std::uint64_t> bad_segments{0};      ///< gauge
};

/// What the tier's actor and its lane have in common. Any thread.
struct ExtentShared {
  static constexpr std::size_t kForgetsMax = 1024;  // like the engine's calls_max

  explicit ExtentShared(TierSink* to) : sink(to) {}

  /// Set by the start before the first job; the lane looks at the volume only then.
  std::atomic<bool> is_open{false};
  std::unique_ptr<ExtentVolume> volume;
  ExtentCounters counters;
  EventQueue events;

  std::atomic<bool> has_news{false};  ///< a forget or a namespace waits for the lane
  std::mutex mutex;                   // guards what follows
  std::deque<ForgetWork> forgets;
  std::size_t forgets_open = 0;  // taken and not answered
  std::optional<ExtentNamespace> next_namespace;

  std::recursive_mutex sink_mutex;  // guards the sink, which may call its tier
  TierSink* sink;                   // null once the tier was stopped

  /// A lane that outlives its tier finds no sink.
  void forgot(ForgetId id, std::uint64_t chunks, std::string error) {
    {
      const std::lock_guard lock(mutex);
      --forgets_open;
    }
    const std::lock_guard lock(sink_mutex);
    if (sink != nullptr) sink->forgot(id, chunks, std::move(error));
  }
};

}  // namespace kv_offload
