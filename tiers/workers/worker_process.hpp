#pragma once

#include "kv_offload/messages/copy_job.hpp"
#include "kv_offload/messages/expected.hpp"
#include "kv_offload/messages/export.hpp"
#include "kv_offload/messages/kv_layout.hpp"
#include "kv_offload/messages/monotonic_time.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace kv_offload {

class DeviceBackend;
struct DeviceWorkerStats;

/// One worker of an engine that lives in another process: maps its region, copies when told to, reports.
///
///     auto worker = WorkerProcess::start({.socket = "@engine-0", .place = {.rank = 1, .world_size = 4},
///                                         .caches = caches});
///     (*worker)->wait_ready(60s);
///     …serve; the engine's orders are copied in the background…
///     (*worker)->stop(10s);
class KV_OFFLOAD_EXPORT WorkerProcess {
 public:
  struct Options {
    /// The engine's `workers.socket`. Or `region_file`: then nobody but the embedder gives orders and counts reports.
    std::string socket = {};
    std::string region_file = {};
    WorkerPlace place = {};
    KvCaches caches = {};
    std::shared_ptr<DeviceBackend> backend = nullptr;  ///< null: the host
    // What this worker knows about its engine; checked where given.
    std::string engine_id = {};
    std::string fingerprint = {};
    std::optional<std::string> revision = {};
    Duration join_patience =
        std::chrono::seconds(60);  ///< from start() until the engine has to be there
    /// Called on the worker's thread before the copies of an order: the event of the compute stream that they must
    /// wait for, or 0. Must not block.
    std::function<DeviceEventHandle(const CopyJob&)> before_copy = {};
    /// Called when the engine is gone (its end, or its proven death) and nothing is being copied any more.
    std::function<void(std::string why)> engine_gone = {};
    /// Ends of jobs submitted by submit().
    std::function<void(CopyResult)> done = {};
    std::function<void(const std::string& level, const std::string& line)> log = {};
  };
  /// Checks what can be checked here at once; joins in the background, so that workers may start before the engine.
  static Expected<std::unique_ptr<WorkerProcess>> start(Options options);
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  /// Joined, and (with a socket) all ranks fit together. The error is the engine's refusal, or what is missing.
  Expected<Ok> wait_ready(Duration patience);
  /// A job of the embedder's own. With a socket its end is reported to the engine under its id as well, which is below
  /// 2^63 and never used again; one that is refused here (but for `busy`) is reported as failed.
  Expected<Ok> submit(CopyJob job);
  /// A job that the engine counts on (CopyOptions::told_job) will not come from this rank: it fails there, and its rows
  /// are free when the other ranks have reported.
  Expected<Ok> decline(std::uint64_t id, const std::string& why);
  [[nodiscard]] DeviceWorkerStats stats() const;
  [[nodiscard]] std::optional<bool> all_layers_portable() const;
  /// Ends in order: running copies end, the engine is told, the region is unmapped. False: a copy did not end.
  bool stop(Duration patience);

 private:
  struct Impl;
  explicit WorkerProcess(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kv_offload
