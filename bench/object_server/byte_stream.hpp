#pragma once

#include <asio/awaitable.hpp>
#include <asio/ip/tcp.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kv_offload::bench {

/// The connection is over; caught where it began.
struct StreamClosed {};

/// Bytes of somebody's, or zeros.
struct BodyPiece {
  const char* data = nullptr;  ///< null: zeros
  std::uint64_t size = 0;
};

/// A socket with a small buffer for heads. Bodies pass it by: Asio's own loops move 64 KiB a call and copy what
/// nobody looks at. Everything on the thread of its executor; every function throws StreamClosed.
class ByteStream {
 public:
  using Clock = std::chrono::steady_clock;

  explicit ByteStream(asio::ip::tcp::socket socket);

  /// Up to and without the empty line. Empty: longer than a head may be.
  asio::awaitable<std::string> read_head();
  asio::awaitable<void> read(std::byte* to, std::uint64_t size);
  asio::awaitable<void> discard(std::uint64_t size);
  asio::awaitable<void> write(std::string head, std::vector<BodyPiece> body);
  /// As above, the body with so many bytes per second.
  asio::awaitable<void> write_slowly(std::string head, std::vector<BodyPiece> body,
                                     std::uint64_t bytes_per_s);
  /// Notices when the client goes meanwhile.
  asio::awaitable<void> pause(Clock::duration time);
  /// Says that nothing more comes, and takes for a while what the client still sends: an answer must not be
  /// lost to the reset that unread bytes cause.
  asio::awaitable<void> linger();

  void close();
  [[nodiscard]] bool anything_buffered() const { return begin_ < end_; }
  [[nodiscard]] Clock::time_point last_moved() const { return last_moved_; }

 private:
  asio::awaitable<std::size_t> receive(char* to, std::size_t size, int flags);
  asio::awaitable<void> send(std::vector<BodyPiece>& pieces);

  asio::ip::tcp::socket socket_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;
  Clock::time_point last_moved_ = Clock::now();
};

}  // namespace kv_offload::bench
