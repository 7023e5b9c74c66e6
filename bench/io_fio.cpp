#include "kv_offload/bench/io_fio.hpp"

#include "kv_offload/bench/io_tier.hpp"
#include "kv_offload/bench/progress.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

extern char** environ;

namespace kv_offload::bench {
namespace {

constexpr std::uint64_t kHugePageBytes = std::uint64_t{2} << 20;

/// An interrupt is looked for this often while a program runs.
constexpr int kLookMs = 100;

/// What a program prints until it closes its output. An interrupt ends the program, which a signal to this
/// process alone would not.
std::string read_all(int fd, pid_t pid) {
  std::string text;
  std::array<char, 4096> piece;
  bool told = false;
  while (true) {
    if (interrupted() && !std::exchange(told, true)) ::kill(pid, SIGTERM);
    pollfd ready{fd, POLLIN, 0};
    const int found = ::poll(&ready, 1, kLookMs);
    if (found == 0 || (found < 0 && errno == EINTR)) continue;
    const ssize_t got = ::read(fd, piece.data(), piece.size());
    if (got > 0)
      text.append(piece.data(), static_cast<std::size_t>(got));
    else if (got == 0 || errno != EINTR)
      return text;
  }
}

/// Runs a program found in PATH and reads what it prints; stderr goes nowhere. Fails unless it exits with 0;
/// `aborted` if it was interrupted.
Expected<std::string> output_of(std::vector<std::string> words) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    return OffloadError{OffloadErrc::io_error, std::string("pipe: ") + std::strerror(errno)};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t pid = 0;
  const int error = ::posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  std::string text;
  if (error == 0) text = read_all(ends[0], pid);
  ::close(ends[0]);
  if (error != 0)
    return OffloadError{OffloadErrc::io_error, words[0] + ": " + std::strerror(error)};
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  // A terminal's interrupt reaches the program, too: it may have ended of it, in whatever way.
  if (interrupted()) return OffloadError{OffloadErrc::aborted, "interrupted"};
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return text;
  return OffloadError{OffloadErrc::io_error, words[0] + " failed"};
}

std::uint64_t free_huge_page_bytes() {
  std::ifstream meminfo("/proc/meminfo");
  std::string word;
  std::uint64_t pages = 0;
  while (meminfo >> word)
    if (word == "HugePages_Free:") meminfo >> pages;
  return pages * kHugePageBytes;
}

class Fio final : public IoContestant {
 public:
  Fio(const IoShape& shape, const WorkDir& dir, bool fixed)
      : shape_(shape), dir_(dir), fixed_(fixed) {}

  [[nodiscard]] std::string name() const override { return fixed_ ? "fio-fixed" : "fio"; }
  Expected<IoFigure> store() override {
    auto files = io_directory(dir_, name());
    if (!files) return files.error();
    file_ = *files / "chunks";
    return run("write", "write");
  }
  Expected<IoFigure> load() override { return run("randread", "read"); }

 private:
  Expected<IoFigure> run(const char* pattern, const char* section) {
    std::vector<std::string> words = {
        "fio",
        "--name=kv-offload-bench",
        "--filename=" + file_.string(),
        "--size=" + std::to_string(shape_.chunks() * shape_.chunk_bytes),
        "--bs=" + std::to_string(shape_.chunk_bytes),
        std::string("--rw=") + pattern,
        "--direct=1",
        "--thread",  // no process and session of its own
        "--ioengine=io_uring",
        "--iodepth=" + std::to_string(shape_.depth),
        "--output-format=json"};
    if (fixed_) {
      words.emplace_back("--fixedbufs=1");
      words.emplace_back("--mem=shmhuge");
    }
    auto text = output_of(std::move(words));
    if (!text) return text.error();
    const auto document = nlohmann::json::parse(*text, nullptr, false);
    const auto* job =
        document.is_object() && document.contains("jobs") ? &document["jobs"][0][section] : nullptr;
    if (job == nullptr || !job->contains("bw_bytes"))
      return OffloadError{OffloadErrc::io_error, "fio: its output is not as expected"};
    IoFigure figure;
    figure.mib_per_s = (*job)["bw_bytes"].get<double>() / 1048576;
    return figure;
  }

  const IoShape shape_;
  const WorkDir& dir_;
  const bool fixed_;
  std::filesystem::path file_;
};

}  // namespace

std::unique_ptr<IoContestant> io_fio(const IoShape& shape, const WorkDir& dir, bool fixed) {
  return std::make_unique<Fio>(shape, dir, fixed);
}

std::string why_no_fio(const IoShape& shape, bool fixed) {
  if (auto version = output_of({"fio", "--version"}); !version)
    return version.error().code == OffloadErrc::aborted
               ? version.error().detail
               : to_string(version.error()) + "; install the package fio";
  const std::uint64_t needed = shape.depth * shape.chunk_bytes + kHugePageBytes;
  if (fixed && free_huge_page_bytes() < needed)
    return "fio with registered buffers needs " +
           std::to_string((needed + kHugePageBytes - 1) / kHugePageBytes) +
           " free huge pages (sysctl vm.nr_hugepages)";
  return {};
}

}  // namespace kv_offload::bench
