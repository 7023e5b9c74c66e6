#pragma once

#include "kv_offload/tests/workers/stage.hpp"

#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <functional>
#include <spawn.h>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

extern char** environ;

namespace kv_offload::test {

/// Waits for what must come, however slow the machine: a test that fails here has met a hang.
inline bool comes_true(const std::function<bool()>& what,
                       std::chrono::milliseconds patience = std::chrono::seconds(40)) {
  const auto until = std::chrono::steady_clock::now() + patience;
  while (!what()) {
    if (std::chrono::steady_clock::now() >= until) return what();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

/// Worker processes (the program worker_process), each killed at the end if it is still there.
class Fleet {
 public:
  Fleet(Stage& stage, std::string where)
      : stage_(stage), where_(std::move(where)), pids_(stage.shape().world_size, -1) {}
  ~Fleet() {
    for (std::uint32_t rank = 0; rank < pids_.size(); ++rank) kill(rank);
  }
  Fleet(const Fleet&) = delete;
  Fleet& operator=(const Fleet&) = delete;

  bool spawn(std::uint32_t rank, const std::string& patience_ms = "60000") {
    const auto& s = stage_.shape();
    stage_.reset_board(rank);
    std::array<std::string, 10> words = {program(),
                                         std::to_string(stage_.fd()),
                                         std::to_string(s.world_size),
                                         std::to_string(s.blocks_per_chunk),
                                         std::to_string(s.page_bytes),
                                         std::to_string(s.num_blocks),
                                         std::to_string(s.num_tensors),
                                         std::to_string(rank),
                                         where_,
                                         patience_ms};
    std::array<char*, 11> args{};
    for (std::size_t i = 0; i < words.size(); ++i) args[i] = words[i].data();
    pid_t pid = -1;
    if (::posix_spawn(&pid, args[0], nullptr, nullptr, args.data(), environ) != 0) return false;
    pids_[rank] = pid;
    return true;
  }
  void spawn_all() {
    for (std::uint32_t rank = 0; rank < pids_.size(); ++rank) spawn(rank);
  }
  [[nodiscard]] pid_t pid(std::uint32_t rank) const { return pids_[rank]; }
  [[nodiscard]] StageBoard& board(std::uint32_t rank) { return stage_.board(rank); }
  void signal(std::uint32_t rank, int number) {
    if (pids_[rank] > 0) ::kill(pids_[rank], number);
  }
  /// Stands still, all of it, until SIGCONT.
  bool stop_running(std::uint32_t rank) {
    int status = 0;
    signal(rank, SIGSTOP);
    return ::waitpid(pids_[rank], &status, WUNTRACED) == pids_[rank] && WIFSTOPPED(status);
  }
  /// kill -9, and reaped.
  void kill(std::uint32_t rank) {
    signal(rank, SIGKILL);
    static_cast<void>(reap(rank));
  }
  /// Waits for its end: exit status, or minus the signal.
  int reap(std::uint32_t rank) {
    int status = 0;
    const pid_t pid = std::exchange(pids_[rank], -1);
    if (pid <= 0 || ::waitpid(pid, &status, 0) != pid) return 1000;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  static std::string program() { return KV_OFFLOAD_WORKER_PROCESS; }
  Stage& stage_;
  const std::string where_;
  std::vector<pid_t> pids_;
};

}  // namespace kv_offload::test
