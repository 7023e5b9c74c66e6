#pragma once

#include <catch2/catch.hpp>

#include <array>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace kv_offload::bench {

/// Runs `body` in a process of its own, for what a signal does to one. How that ended (as waitpid tells, 99 if
/// `body` returned), and what it wrote to standard error.
template <class Body>
std::pair<int, std::string> in_a_process(Body body) {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
    body();
    ::_exit(99);
  }
  ::close(ends[1]);
  std::string text;
  std::array<char, 256> piece{};
  for (ssize_t got = 0; (got = ::read(ends[0], piece.data(), piece.size())) > 0;)
    text.append(piece.data(), static_cast<std::size_t>(got));
  ::close(ends[0]);
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  return {status, text};
}

}  // namespace kv_offload::bench
