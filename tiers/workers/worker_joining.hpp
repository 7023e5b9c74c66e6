#pragma once

#include "kv_offload/messages/expected.hpp"
#include "kv_offload/messages/monotonic_time.hpp"
#include "kv_offload/tiers/primary/joined_region.hpp"
#include "kv_offload/tiers/workers/process_watch.hpp"
#include "kv_offload/tiers/workers/wake_event.hpp"
#include "kv_offload/tiers/workers/wire_messages.hpp"
#include "kv_offload/tiers/workers/wire_socket.hpp"
#include "kv_offload/tiers/workers/worker_process.hpp"

#include <atomic>
#include <memory>
#include <optional>
#include <string>

namespace kv_offload {

/// What a worker has once it is in: the region, and (with a socket) the way to its engine. Goes in this order:
/// region, process, socket.
struct JoinedEngine {
  WireSocket socket;
  ProcessWatch engine;
  std::unique_ptr<JoinedRegion> region;
};

/// One thread's steps towards an engine. Every wait ends when `stop` turns true and `wake` is woken.
class WorkerJoining {
 public:
  WorkerJoining(const WorkerProcess::Options& options, const WakeEvent& wake,
                const std::atomic<bool>& stop)
      : options_(options), wake_(wake), stop_(stop) {}

  /// Until `until`: asks again while there is no engine. Errors are for good: refused, not in time, or told to stop.
  Expected<JoinedEngine> join(MonotonicTime until);
  /// Waits for the engine's word: `ready`, or why not. `again`: the connection was lost before it came.
  Expected<ReadyMessage> verdict(JoinedEngine& joined, bool& again);
  /// Waits that long; false: told to stop.
  bool pause(Duration time) const;

 private:
  Expected<JoinedEngine> join_by_socket(const SocketAddress& address, MonotonicTime until, bool& again);
  Expected<JoinedEngine> join_by_file(MonotonicTime until);
  /// The next frame; the connection's end and the engine's death are errors with `again`.
  Expected<Frame> next_frame(WireSocket& socket, const ProcessWatch& engine, MonotonicTime until,
                             bool& again);
  [[nodiscard]] JoinedRegion::Who who() const;

  const WorkerProcess::Options& options_;
  const WakeEvent& wake_;
  const std::atomic<bool>& stop_;
};

}  // namespace kv_offload
