#include "kv_offload/bench/progress.hpp"

#include "kv_offload/bench/work_dir.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <unistd.h>

namespace kv_offload::bench {
namespace {

volatile std::sig_atomic_t g_interrupted = 0;

void on_signal(int signal) {
  if (g_interrupted == 0) {
    g_interrupted = 1;
    return;
  }
  const int error = errno;
  tell_temporary_directories();
  errno = error;
  std::signal(signal, SIG_DFL);
  ::raise(signal);  // comes when this handler has ended
}

}  // namespace

ProgressLine::ProgressLine(bool wanted) : on_(wanted && ::isatty(STDERR_FILENO) == 1) {}

bool ProgressLine::due() {
  if (!on_) return false;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return false;
  next_ = now + std::chrono::milliseconds(100);
  return true;
}

void ProgressLine::show(const std::string& text) {
  if (!on_) return;
  drawn_ = true;
  std::fprintf(stderr, "\r\033[K%s", text.c_str());
  std::fflush(stderr);
}

void ProgressLine::finish() {
  if (!drawn_) return;
  drawn_ = false;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
}

void watch_interrupts() {
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  // Whoever ignores the end of the terminal (nohup) goes on doing so.
  if (std::signal(SIGHUP, on_signal) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
}

bool interrupted() { return g_interrupted != 0; }

}  // namespace kv_offload::bench
