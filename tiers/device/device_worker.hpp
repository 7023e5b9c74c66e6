#pragma once

#include "kv_offload/messages/copy_job.hpp"
#include "kv_offload/messages/expected.hpp"
#include "kv_offload/messages/export.hpp"
#include "kv_offload/messages/kv_layout.hpp"
#include "kv_offload/tiers/primary_view.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace kv_offload {

class DeviceBackend;

/// Totals of a worker since its start.
struct DeviceWorkerStats {
  struct Direction {
    std::uint64_t jobs = 0, failed = 0, bytes = 0;
    Duration time{};
  };
  Direction stores, loads;
  std::uint64_t running_jobs = 0;
  std::uint64_t region_bytes = 0;
  std::uint64_t registered_bytes = 0;  ///< of region_bytes, fast to reach for the device
};

/// Moves bytes between one rank's device buffers and the rows of a primary tier, whoever owns those: an engine
/// in the same process, or one in another that shares its region.
///
/// Stores and loads have a stream each, and within a direction copies begin in the order of submission. Any thread
/// may call; `done` comes on a thread of the back end, once per accepted job, and must not block.
class KV_OFFLOAD_EXPORT DeviceWorker {
 public:
  struct Options {
    WorkerPlace place = {};
    KvCaches caches = {};
    PrimaryView rows = {};                           ///< outlives the worker; `in_use` may be null (another process counts)
    std::shared_ptr<DeviceBackend> backend = nullptr;  ///< null: the host
    bool register_rows = true;                       ///< tell the device about the rows' memory
    /// The namespace on the tiers is shared by engines of other parallel layouts: only portable layers will do.
    bool namespace_collapsed = false;
    std::uint32_t jobs_max = 4096;                   ///< running at once; one more is refused with `busy`
    std::function<void(CopyResult)> done = {};
    std::function<void(const std::string& level, const std::string& line)> log = {};
  };
  /// Checks everything before anything is registered: on error nothing is left behind.
  static Expected<std::unique_ptr<DeviceWorker>> start(Options options);
  /// Stops with a patience of 10 s if stop() was not called.
  ~DeviceWorker();
  DeviceWorker(const DeviceWorker&) = delete;
  DeviceWorker& operator=(const DeviceWorker&) = delete;

  /// Checks the whole job (groups, blocks, chunks, buffers) before the first copy; an error means that nothing
  /// of it began and `done` will not be called.
  Expected<Ok> submit(CopyJob job);
  /// Refuses new jobs, waits for running ones, frees streams and registration. False: a copy did not end in time;
  /// what it may still touch is leaked on purpose and said in the log, and no end is told any more. Not from `done`.
  bool stop(Duration patience);

  [[nodiscard]] DeviceWorkerStats stats() const;
  /// Canonical layout: does every layer read the same under every parallel layout? Unset in other layouts.
  [[nodiscard]] std::optional<bool> all_layers_portable() const;

 private:
  struct Impl;
  explicit DeviceWorker(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;  // shared with the ends of running jobs
};

}  // namespace kv_offload
