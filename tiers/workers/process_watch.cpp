#include "kv_offload/tiers/workers/process_watch.hpp"

#include <cerrno>
#include <cstring>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

namespace kv_offload {
namespace {

#ifndef SO_PEERPIDFD
constexpr int SO_PEERPIDFD = 77;  // Linux 6.5
#endif
#ifndef SYS_pidfd_open
constexpr long SYS_pidfd_open = 434;  // Linux 5.3; the same number everywhere
#endif

int open_pidfd(std::int64_t pid) {
  return static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0U));
}

}  // namespace

Expected<ProcessWatch> ProcessWatch::of_peer(int socket) {
  ucred who{};
  socklen_t size = sizeof who;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0)
    return {OffloadErrc::io_error,
            std::string("who connected is not to be had: ") + std::strerror(errno)};
  if (who.uid != ::geteuid())
    return {OffloadErrc::invalid_argument,
            "user " + std::to_string(who.uid) + "; expected " + std::to_string(::geteuid())};
  if (who.pid <= 0)
    return {OffloadErrc::invalid_argument,
            "its process is not to be seen from here (another pid namespace)"};
  ProcessWatch watch;
  watch.pid_ = who.pid;
  int fd = -1;
  size = sizeof fd;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &size) == 0)
    watch.fd_.reset(fd);
  else  // older: whoever has the number now; that it is the same process is asked of the process itself
    watch.fd_.reset(open_pidfd(who.pid));
  if (!watch.fd_)
    return {OffloadErrc::io_error,
            "process " + std::to_string(who.pid) + ": pidfd: " + std::strerror(errno)};
  return watch;
}

Expected<ProcessWatch> ProcessWatch::of_mark(const ProcessMark& mark) {
  ProcessWatch watch;
  watch.pid_ = mark.pid;
  if (mark.pid > 0) watch.fd_.reset(open_pidfd(mark.pid));
  if (!watch.fd_)
    return {OffloadErrc::io_error,
            "process " + std::to_string(mark.pid) + ": pidfd: " + std::strerror(errno)};
  // Read after the pidfd was opened: whoever it stands for has this start.
  const auto now = mark_of_process(mark.pid);
  if (!now || *now != mark)
    return {OffloadErrc::invalid_argument,
            "process " + std::to_string(mark.pid) + " is another one than the owner's"};
  return watch;
}

bool ProcessWatch::is_dead() const {
  pollfd at{fd_.get(), POLLIN, 0};
  return fd_ && ::poll(&at, 1, 0) == 1 && (at.revents & POLLIN) != 0;
}

}  // namespace kv_offload
