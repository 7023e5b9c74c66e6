#pragma once

#include <arpa/inet.h>
#include <cstdint>
#include <netinet/in.h>
#include <stdexcept>
#include <string>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

namespace kv_offload::test {

/// A TCP socket of this machine, closed with its object.
class TestSocket {
 public:
  /// Port 0 takes any free one.
  static TestSocket listen(const std::string& address, int port = 0) {
    TestSocket socket;
    const sockaddr_in name = name_of(address, port);
    if (::bind(socket.fd_, reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0 ||
        ::listen(socket.fd_, 1) != 0)
      throw std::runtime_error("cannot listen on " + address);
    return socket;
  }
  static TestSocket connect(const std::string& address, int port) {
    TestSocket socket;
    const sockaddr_in name = name_of(address, port);
    if (::connect(socket.fd_, reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0)
      throw std::runtime_error("connection refused");
    return socket;
  }
  static bool can_connect(const std::string& address, int port) try {
    connect(address, port);
    return true;
  } catch (const std::runtime_error&) {
    return false;
  }
  TestSocket(TestSocket&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  TestSocket& operator=(TestSocket&&) = delete;
  ~TestSocket() {
    if (fd_ >= 0) ::close(fd_);
  }

  [[nodiscard]] int port() const {
    sockaddr_in name{};
    socklen_t size = sizeof name;
    ::getsockname(fd_, reinterpret_cast<sockaddr*>(&name), &size);
    return ntohs(name.sin_port);
  }
  void send(const std::string& text) const {
    if (::send(fd_, text.data(), text.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(text.size()))
      throw std::runtime_error("send");
  }
  /// Everything until the other side closes, or says nothing for 20 s.
  [[nodiscard]] std::string receive_all() const {
    std::string all;
    char part[4096];
    for (ssize_t n = 0; (n = ::recv(fd_, part, sizeof part, 0)) > 0;)
      all.append(part, static_cast<std::size_t>(n));
    return all;
  }

 private:
  TestSocket() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval patience{20, 0};
    if (fd_ < 0 || ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0)
      throw std::runtime_error("socket");
  }
  static sockaddr_in name_of(const std::string& address, int port) {
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_port = htons(static_cast<std::uint16_t>(port));
    if (::inet_pton(AF_INET, address.c_str(), &name.sin_addr) != 1)
      throw std::runtime_error("address " + address);
    return name;
  }

  int fd_;
};

}  // namespace kv_offload::test
