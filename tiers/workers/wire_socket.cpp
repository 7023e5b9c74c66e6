#include "kv_offload/tiers/workers/wire_socket.hpp"

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <unistd.h>
#include <utility>

namespace kv_offload {
namespace {

/// Of one receive(): other connections wait meanwhile.
constexpr int kReadsMax = 16;
constexpr std::size_t kReadBytes = 64 << 10;
constexpr std::size_t kDescriptorsMax = 4;

}  // namespace

Expected<SocketAddress> SocketAddress::parse(const std::string& text) {
  SocketAddress out;
  out.text = text;
  constexpr std::size_t kMax = sizeof out.address.sun_path - 1;
  const bool is_abstract = !text.empty() && text.front() == '@';
  if (text.size() < (is_abstract ? 2U : 1U) || text.size() > kMax ||
      text.find('\0') != std::string::npos)
    return {OffloadErrc::invalid_config,
            "socket: \"" + text.substr(0, 2 * kMax) + "\" has " + std::to_string(text.size()) +
                " bytes; expected @name or a path of at most " + std::to_string(kMax)};
  out.address.sun_family = AF_UNIX;
  std::memcpy(out.address.sun_path, text.data(), text.size());
  if (is_abstract) out.address.sun_path[0] = '\0';
  out.bytes =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + text.size() + (is_abstract ? 0 : 1));
  return out;
}

Expected<WireSocket> WireSocket::connect(const SocketAddress& address, int& error) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd || ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address.address),
                       address.bytes) != 0) {
    error = errno;
    return {OffloadErrc::io_error, "socket " + address.text + ": " + std::strerror(error)};
  }
  error = 0;
  return WireSocket(std::move(fd));
}

void WireSocket::send(std::shared_ptr<const std::vector<std::byte>> frame, int descriptor) {
  queued_ += frame->size();
  out_.push_back({std::move(frame), descriptor});
}

bool WireSocket::flush() {
  while (!out_.empty()) {
    Outgoing& front = out_.front();
    iovec part{const_cast<std::byte*>(front.frame->data()) + sent_of_front_,
               front.frame->size() - sent_of_front_};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
    if (front.descriptor >= 0) {
      message.msg_control = control.data();
      message.msg_controllen = control.size();
      cmsghdr* head = CMSG_FIRSTHDR(&message);
      head->cmsg_level = SOL_SOCKET;
      head->cmsg_type = SCM_RIGHTS;
      head->cmsg_len = CMSG_LEN(sizeof(int));
      std::memcpy(CMSG_DATA(head), &front.descriptor, sizeof(int));
    }
    const ssize_t sent = ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      return errno == EAGAIN || errno == EWOULDBLOCK || errno == ETOOMANYREFS;
    }
    front.descriptor = -1;
    sent_of_front_ += static_cast<std::size_t>(sent);
    queued_ -= static_cast<std::size_t>(sent);
    if (sent_of_front_ < front.frame->size()) continue;
    out_.pop_front();
    sent_of_front_ = 0;
  }
  return true;
}

WireSocket::Read WireSocket::receive() {
  static thread_local std::array<std::byte, kReadBytes> bytes;
  for (int i = 0; i < kReadsMax; ++i) {
    iovec part{bytes.data(), bytes.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(kDescriptorsMax * sizeof(int))> control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t got = ::recvmsg(fd_.get(), &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (got < 0) {
      if (errno == EINTR) continue;
      return errno == EAGAIN || errno == EWOULDBLOCK ? Read::open : Read::ended;
    }
    for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr;
         head = CMSG_NXTHDR(&message, head)) {
      if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
      for (std::size_t at = 0; at + sizeof(int) <= head->cmsg_len - CMSG_LEN(0);
           at += sizeof(int)) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(head) + at, sizeof fd);
        UniqueFd owned(fd);
        if (descriptors_.size() < kDescriptorsMax) descriptors_.push_back(std::move(owned));
      }
    }
    if (got == 0) return Read::ended;
    cutter_.add({bytes.data(), static_cast<std::size_t>(got)});
    if (static_cast<std::size_t>(got) < bytes.size()) return Read::open;
  }
  return Read::open;
}

}  // namespace kv_offload
