#include "kv_offload/bench/spawned_worker.hpp"

#include "kv_offload/bench/worker_device.hpp"
#include "kv_offload/tiers/workers/worker_process.hpp"

#include <csignal>
#include <cstring>
#include <future>
#include <ostream>
#include <spawn.h>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

extern char** environ;  // NOLINT: POSIX declares it nowhere

namespace kv_offload::bench {

using namespace std::chrono_literals;

Expected<std::unique_ptr<SpawnedWorker>> SpawnedWorker::start(const BenchWorkerOptions& o) {
  // dup2 onto a number of its own clears close-on-exec in the child alone.
  constexpr int kDeviceFd = 100;
  const std::vector<std::string> words{"kv-offload-bench", "worker-process",
                                       "--socket", o.socket,
                                       "--rank", std::to_string(o.rank),
                                       "--world-size", std::to_string(o.world_size),
                                       "--blocks-per-chunk", std::to_string(o.blocks_per_chunk),
                                       "--page-bytes", std::to_string(o.page_bytes),
                                       "--num-blocks", std::to_string(o.num_blocks),
                                       "--device-fd", std::to_string(kDeviceFd)};
  std::vector<char*> argv;
  for (const auto& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, o.device_fd, kDeviceFd);
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return {OffloadErrc::io_error, std::string("a worker process: ") + std::strerror(error)};
  return std::unique_ptr<SpawnedWorker>(new SpawnedWorker(pid));
}

SpawnedWorker::~SpawnedWorker() {
  if (pid_ == 0) return;
  kill();
  wait();
}

void SpawnedWorker::kill() const { ::kill(pid_, SIGKILL); }

int SpawnedWorker::wait() {
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int run_bench_worker(const BenchWorkerOptions& o, std::ostream& err) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::signal(SIGINT, SIG_IGN);  // Ctrl-C is the parent's
  auto device = WorkerDevice::open(o.device_fd, o.page_bytes, o.num_blocks);
  if (!device) {
    err << "kv-offload-bench: " << to_string(device.error()) << '\n';
    return kUsageError;
  }
  std::promise<void> gone;
  WorkerProcess::Options options;
  options.socket = o.socket;
  options.place = {o.rank, o.world_size, o.blocks_per_chunk, ChunkLayout::sharded};
  options.caches = (*device)->caches();
  options.engine_gone = [&gone](const std::string&) { gone.set_value(); };
  options.log = [&err](const std::string& level, const std::string& line) {
    if (level == "error" || level == "warn") err << "worker: " << line << '\n';
  };
  auto worker = WorkerProcess::start(std::move(options));
  if (!worker) {
    err << "kv-offload-bench: " << to_string(worker.error()) << '\n';
    return kUsageError;
  }
  if (const auto ready = (*worker)->wait_ready(60s); !ready) {
    err << "kv-offload-bench: " << to_string(ready.error()) << '\n';
    return kCheckFailed;
  }
  gone.get_future().wait();
  return (*worker)->stop(10s) ? kHeld : kCheckFailed;
}

}  // namespace kv_offload::bench
