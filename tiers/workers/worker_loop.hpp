#pragma once

#include "kv_offload/tiers/device/device_worker.hpp"
#include "kv_offload/tiers/workers/worker_inbox.hpp"
#include "kv_offload/tiers/workers/worker_joining.hpp"
#include "kv_offload/tiers/workers/worker_process.hpp"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

namespace kv_offload {

/// What the callers of a worker process and its thread have in common.
struct WorkerShared {
  enum class Phase { joining, ready, leaving, ended };
  struct Job {
    bool is_load = false;
    bool is_own = false;  ///< of the embedder, not of an order
    std::uint64_t rows = 0;
    bool is_declined = false;  ///< never begun; the engine is told all the same
  };
  std::mutex mutex;
  std::condition_variable changed;
  Phase phase = Phase::joining;
  OffloadError why{OffloadErrc::deadline, "still joining"};  ///< why it is not ready
  std::string joining_on = "waits for the engine";
  std::optional<bool> all_portable;
  std::shared_ptr<DeviceWorker> device;         ///< while ready, and until its jobs have ended
  std::unordered_map<std::uint64_t, Job> jobs;  ///< handed to the device and not ended
  DeviceWorkerStats last_stats;
  MonotonicTime stop_at{};
  bool clean = false;
  std::atomic<bool> stop{false};
};

/// A worker's thread: joins, carries out orders, reports, leaves.
class WorkerLoop {
 public:
  WorkerLoop(const WorkerProcess::Options& options, WorkerShared& shared, const WakeEvent& wake,
             std::shared_ptr<WorkerInbox> inbox)
      : options_(options), shared_(shared), wake_(wake), inbox_(std::move(inbox)) {}
  void run();

 private:
  struct Member {
    JoinedEngine engine;
    std::shared_ptr<DeviceWorker> device;
  };
  /// Everything up to `ready`. Errors are for good, and leave nothing.
  Expected<Member> join();
  Expected<Member> join_once(MonotonicTime until, bool& again);
  /// Until it is time to leave: says why.
  std::string serve(Member& member);
  void read(Member& member);
  void take_frames(Member& member);
  void gone(std::string why);
  void begin_orders(Member& member);
  void tell_ends(Member& member);
  void report(Member& member, const ReportMessage& report);
  void leave(Member member, const std::string& why);
  void end(OffloadError why, bool clean);
  void wait(Member& member, bool all_is_done);
  void log(const char* level, const std::string& line) const;

  const WorkerProcess::Options& options_;
  WorkerShared& shared_;
  const WakeEvent& wake_;
  const std::shared_ptr<WorkerInbox> inbox_;
  struct Waiting {
    OrderMessage order;
    std::optional<DeviceEventHandle> after;  // asked for once
  };
  std::deque<Waiting> orders_;  // not begun; the hub bounds what is out
  std::string leaving_;         // why; empty: not
  bool engine_is_gone_ = false;
  bool hears_nothing_ = false;  // after a strange frame
};

}  // namespace kv_offload
