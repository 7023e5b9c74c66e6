#pragma once

#include "kv_offload/tiers/unique_fd.hpp"

#include <cstdint>
#include <sys/eventfd.h>
#include <unistd.h>

namespace kv_offload {

/// Wakes a thread that waits in poll().
class WakeEvent {
 public:
  WakeEvent() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  [[nodiscard]] int fd() const { return fd_.get(); }
  explicit operator bool() const { return static_cast<bool>(fd_); }
  void wake() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto done = ::write(fd_.get(), &one, sizeof one);
  }
  void clear() const {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto got = ::read(fd_.get(), &count, sizeof count);
  }

 private:
  UniqueFd fd_;
};

}  // namespace kv_offload
