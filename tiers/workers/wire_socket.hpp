#pragma once

#include "kv_offload/messages/expected.hpp"
#include "kv_offload/tiers/unique_fd.hpp"
#include "kv_offload/tiers/workers/wire_frame.hpp"

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <vector>

namespace kv_offload {

/// Where the engine listens: "@name" in the abstract namespace, or a path.
struct SocketAddress {
  std::string text;
  sockaddr_un address{};
  socklen_t bytes = 0;
  [[nodiscard]] bool is_path() const { return text.front() != '@'; }
  /// Errors name the text and what is allowed.
  static Expected<SocketAddress> parse(const std::string& text);
};

/// One connection: frames in both directions, without blocking. Used by one thread.
class WireSocket {
 public:
  WireSocket() = default;
  explicit WireSocket(UniqueFd fd) : fd_(std::move(fd)) {}
  /// Errors: errno, as of connect().
  static Expected<WireSocket> connect(const SocketAddress& address, int& error);

  [[nodiscard]] int fd() const { return fd_.get(); }
  explicit operator bool() const { return static_cast<bool>(fd_); }
  void close() { fd_.reset(); }

  /// Leaves a frame to be sent; several connections may share its bytes. `descriptor` goes with its first byte and
  /// is lent until flush() says that everything went.
  void send(std::shared_ptr<const std::vector<std::byte>> frame, int descriptor = -1);
  void send(std::vector<std::byte> frame) {
    send(std::make_shared<const std::vector<std::byte>>(std::move(frame)));
  }
  [[nodiscard]] std::size_t queued_bytes() const { return queued_; }
  /// Sends what goes without waiting; false: the connection is gone.
  bool flush();

  enum class Read { open, ended };
  /// Takes what is there, a bounded amount.
  Read receive();
  /// As FrameCutter.
  Expected<std::optional<Frame>> next() { return cutter_.next(); }
  /// Descriptors that came, in order.
  std::vector<UniqueFd>& descriptors() { return descriptors_; }

 private:
  struct Outgoing {
    std::shared_ptr<const std::vector<std::byte>> frame;
    int descriptor = -1;
  };
  UniqueFd fd_;
  FrameCutter cutter_;
  std::vector<UniqueFd> descriptors_;
  std::deque<Outgoing> out_;
  std::size_t sent_of_front_ = 0;
  std::size_t queued_ = 0;
};

}  // namespace kv_offload
