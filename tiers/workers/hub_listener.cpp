#include "kv_offload/tiers/workers/hub_listener.hpp"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace kv_offload {
namespace {

constexpr int kBacklog = 64;
/// Whoever has the lock of the folder looks and binds, no more: 2 s are plenty.
constexpr int kLockTriesMax = 400;

std::string folder_of(const std::string& path) {
  const auto at = path.rfind('/');
  if (at == std::string::npos) return ".";
  return at == 0 ? "/" : path.substr(0, at);
}

OffloadError failed(const SocketAddress& address, const std::string& what) {
  return {OffloadErrc::io_error, "socket " + address.text + ": " + what};
}

/// Removes a socket that a dead engine left. Under the lock of its folder nobody else does that at the same time.
Expected<Ok> clear_path(const SocketAddress& address) {
  struct stat there {};
  if (::lstat(address.text.c_str(), &there) != 0)
    return errno == ENOENT ? Expected<Ok>(Ok{}) : failed(address, std::strerror(errno));
  if (!S_ISSOCK(there.st_mode) || there.st_uid != ::geteuid())
    return failed(address, "something else is there already; it stays untouched");
  int error = 0;
  const auto probe = WireSocket::connect(address, error);
  if (probe || error == EAGAIN) return failed(address, "another engine listens there");
  if (error != ECONNREFUSED) return failed(address, std::strerror(error));
  if (::unlink(address.text.c_str()) != 0 && errno != ENOENT)
    return failed(address, std::strerror(errno));
  return Ok{};
}

}  // namespace

Expected<Ok> HubListener::open() {
  if (fd_) return Ok{};
  UniqueFd folder;
  if (address_.is_path()) {
    folder.reset(::open(folder_of(address_.text).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder) return failed(address_, std::string("its folder: ") + std::strerror(errno));
    int tries = 0;
    while (::flock(folder.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK || ++tries == kLockTriesMax)
        return failed(address_, std::string("its folder's lock: ") + std::strerror(errno));
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    if (auto cleared = clear_path(address_); !cleared) return cleared.error();
  }
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return failed(address_, std::strerror(errno));
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address_.address), address_.bytes) != 0)
    return failed(address_,
                  errno == EADDRINUSE ? "another engine listens there" : std::strerror(errno));
  struct stat ours {};
  if (address_.is_path()) {
    ::chmod(address_.text.c_str(), 0600);
    if (::lstat(address_.text.c_str(), &ours) == 0) inode_ = ours.st_ino;
  }
  fd_ = std::move(fd);
  if (::listen(fd_.get(), kBacklog) == 0) return Ok{};
  const int error = errno;
  close();
  return failed(address_, std::strerror(error));
}

void HubListener::close() {
  if (!fd_) return;
  struct stat there {};
  if (address_.is_path() && ::lstat(address_.text.c_str(), &there) == 0 && there.st_ino == inode_)
    ::unlink(address_.text.c_str());
  fd_.reset();
}

UniqueFd HubListener::accept() {
  return UniqueFd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

}  // namespace kv_offload
