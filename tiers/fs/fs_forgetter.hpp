#pragma once

#include "kv_offload/tiers/fs/file_mapper.hpp"
#include "kv_offload/tiers/secondary_tier.hpp"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace kv_offload {

/// Removes chunk files in a thread of its own, started on first use: unlinking takes up to a millisecond on
/// some disks, and a tenant's files have to be looked for. What lies quarantined beside a chunk goes, too.
/// Called by the tier's actor; answers through the sink.
class FsForgetter {
 public:
  /// Told of each key whose file was removed, in the forgetter's thread.
  using Removed = std::function<void(const OffloadKey&)>;
  struct Work {
    ForgetId id = 0;
    FileMapper mapper;
    KeyList keys;
    std::optional<std::uint64_t> salt;  ///< set: every file of this tenant in the mapper's chunk_dir
    Removed removed;                    ///< may be empty
  };
  static constexpr std::size_t kWaitingMax = 1024;  // like the engine's calls_max

  /// `sink` outlives the thread, or is leaked with it.
  explicit FsForgetter(TierSink* sink) : state_(std::make_shared<State>(sink)) {}
  ~FsForgetter();

  /// False: too much is waiting already, or it was stopped.
  bool take(Work work);
  /// Drops what waits and ends what runs at the next file. False: the device did not return by then; the
  /// thread is left behind and touches only the sink.
  bool stop(Duration patience);

 private:
  struct State {
    explicit State(TierSink* to) : sink(to) {}
    TierSink* const sink;
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Work> waiting;
    bool stopping = false;
    bool ended = false;
  };
  static void run(const std::shared_ptr<State>& state);

  const std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace kv_offload
