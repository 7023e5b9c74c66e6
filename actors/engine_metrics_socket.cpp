#include "kv_offload/actors/engine_metrics_socket.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <sys/socket.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace kv_offload {
namespace {

constexpr auto kWakePeriod = std::chrono::milliseconds(10);

/// A socket and the first address that the name stands for.
class StreamSocket {
 public:
  StreamSocket(const std::string& address, int port) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_PASSIVE;
    if (::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found_) != 0) return;
    fd_ = ::socket(found_->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  }
  StreamSocket(const StreamSocket&) = delete;
  StreamSocket& operator=(const StreamSocket&) = delete;
  ~StreamSocket() {
    if (fd_ >= 0) ::close(fd_);
    if (found_ != nullptr) ::freeaddrinfo(found_);
  }

  int listen() const {
    if (found_ == nullptr) return EADDRNOTAVAIL;
    const int on = 1;
    if (fd_ < 0 || ::setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        ::bind(fd_, found_->ai_addr, found_->ai_addrlen) != 0 || ::listen(fd_, 1) != 0)
      return errno;
    return 0;
  }
  void connect() const {
    if (fd_ >= 0) (void)::connect(fd_, found_->ai_addr, found_->ai_addrlen);
  }

 private:
  addrinfo* found_ = nullptr;
  int fd_ = -1;
};

}  // namespace

bool is_listen_address(const std::string& address) {
  std::array<unsigned char, sizeof(in6_addr)> number{};
  if (::inet_pton(AF_INET, address.c_str(), number.data()) == 1 ||
      ::inet_pton(AF_INET6, address.c_str(), number.data()) == 1)
    return address.find('\0') == std::string::npos;
  constexpr std::size_t kNameBytesMax = 253;  // of a host name, RFC 1035
  if (address.empty() || address.size() > kNameBytesMax || address.front() == '-') return false;
  bool has_letter = false;  // without one it is a number gone wrong: 127.0.0, 1.2.3.400
  char previous = '.';
  for (const char c : address) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    has_letter = has_letter || is_letter;
    if (c == '.' ? previous == '.' : !is_letter && (c < '0' || c > '9') && c != '-' && c != '_')
      return false;
    previous = c;
  }
  return has_letter;
}

int listen_error(const std::string& address, int port) {
  return StreamSocket(address, port).listen();
}

ServerWaker::ServerWaker(std::string address, int port) {
  try {
    thread_ = std::thread([this, address = std::move(address), port] { run(address, port); });
  } catch (const std::system_error&) {
  }
}

ServerWaker::~ServerWaker() {
  is_done_ = true;
  if (thread_.joinable()) thread_.join();
}

void ServerWaker::run(const std::string& address, int port) const {
  for (;;) {
    // First the pause: a connection that comes before the server was told to end is accepted, one
    // that waits when it ends is not.
    std::this_thread::sleep_for(kWakePeriod);
    if (is_done_) return;
    StreamSocket(address, port).connect();
  }
}

}  // namespace kv_offload
