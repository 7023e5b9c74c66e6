#pragma once

#include "kv_offload/bench/workers.hpp"
#include "kv_offload/messages/expected.hpp"

#include <memory>
#include <sys/types.h>

namespace kv_offload::bench {

/// This program once more, as a worker. Killed with this object, if it still runs.
class SpawnedWorker {
 public:
  static Expected<std::unique_ptr<SpawnedWorker>> start(const BenchWorkerOptions& options);
  ~SpawnedWorker();
  SpawnedWorker(const SpawnedWorker&) = delete;
  SpawnedWorker& operator=(const SpawnedWorker&) = delete;

  void kill() const;
  /// Its exit status, or minus the signal that ended it; waits.
  int wait();

 private:
  explicit SpawnedWorker(pid_t pid) : pid_(pid) {}
  pid_t pid_;
};

}  // namespace kv_offload::bench
