#include "kv_offload/bench/object_server/byte_stream.hpp"

#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <string_view>
#include <sys/socket.h>
#include <sys/uio.h>
#include <utility>

namespace kv_offload::bench {
namespace {

constexpr std::size_t kHeadBytesMax = 64 * 1024;
constexpr std::size_t kReceiveBytesMax = 4 << 20;  // of one call; more than a socket holds
constexpr std::size_t kVectorsMax = 16;
// Never written to: all of it is one page of the kernel's, and stays in the cache.
alignas(4096) std::array<char, 256 * 1024> zeros;

}  // namespace

ByteStream::ByteStream(asio::ip::tcp::socket socket)
    : socket_(std::move(socket)), buffer_(kHeadBytesMax) {
  asio::error_code ignored;
  socket_.native_non_blocking(true, ignored);
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
}

void ByteStream::close() {
  asio::error_code ignored;
  socket_.close(ignored);
}

asio::awaitable<std::size_t> ByteStream::receive(char* to, std::size_t size, int flags) {
  while (socket_.is_open()) {
    const ssize_t got = ::recv(socket_.native_handle(), to, size, flags);
    if (got > 0) {
      last_moved_ = Clock::now();
      co_return static_cast<std::size_t>(got);
    }
    if (got == 0 || (errno != EAGAIN && errno != EINTR)) break;
    if (errno == EAGAIN) co_await socket_.async_wait(socket_.wait_read, asio::use_awaitable);
  }
  throw StreamClosed();
}

asio::awaitable<std::string> ByteStream::read_head() {
  std::size_t looked_at = 0;  // of what is buffered: so much has no end of a head
  while (true) {
    const std::string_view text(buffer_.data() + begin_, end_ - begin_);
    if (const auto end = text.find("\r\n\r\n", looked_at); end != std::string_view::npos) {
      std::string head(text.substr(0, end));
      begin_ += end + 4;
      co_return head;
    }
    // No method: somebody speaks TLS, say. Waiting for the end of a head would be waiting for ever.
    if (!text.empty() && (text.front() < 'A' || text.front() > 'Z')) co_return std::string(text.substr(0, 1));
    looked_at = text.size() < 3 ? 0 : text.size() - 3;
    if (text.size() == buffer_.size()) co_return std::string();
    std::memmove(buffer_.data(), text.data(), text.size());
    end_ = text.size();
    begin_ = 0;
    end_ += co_await receive(buffer_.data() + end_, buffer_.size() - end_, 0);
  }
}

asio::awaitable<void> ByteStream::read(std::byte* to, std::uint64_t size) {
  const auto buffered = static_cast<std::size_t>(std::min<std::uint64_t>(size, end_ - begin_));
  if (buffered > 0) std::memcpy(to, buffer_.data() + begin_, buffered);
  begin_ += buffered;
  for (std::uint64_t done = buffered; done < size;) {
    const auto most =
        static_cast<std::size_t>(std::min<std::uint64_t>(size - done, kReceiveBytesMax));
    done += co_await receive(reinterpret_cast<char*>(to) + done, most, 0);
  }
}

asio::awaitable<void> ByteStream::discard(std::uint64_t size) {
  const auto buffered = std::min<std::uint64_t>(size, end_ - begin_);
  begin_ += buffered;
  for (std::uint64_t done = buffered; done < size;) {
    const auto most =
        static_cast<std::size_t>(std::min<std::uint64_t>(size - done, kReceiveBytesMax));
    // With MSG_TRUNC the kernel drops what TCP received, and touches no buffer (tcp(7)).
    done += co_await receive(nullptr, most, MSG_TRUNC);
  }
}

asio::awaitable<void> ByteStream::send(std::vector<BodyPiece>& pieces) {
  std::size_t first = 0;
  while (first < pieces.size()) {
    std::array<iovec, kVectorsMax> vectors{};
    std::size_t used = 0;
    for (std::size_t i = first; i < pieces.size() && used < vectors.size(); ++i) {
      std::uint64_t left = pieces[i].size;
      const char* data = pieces[i].data;
      while (left > 0 && used < vectors.size()) {
        const auto size = data ? left : std::min<std::uint64_t>(left, zeros.size());
        // sendmsg reads; the type has no const.
        vectors[used++] = {const_cast<char*>(data ? data : zeros.data()),
                           static_cast<std::size_t>(size)};
        left -= size;
      }
    }
    if (used == 0) co_return;
    if (!socket_.is_open()) throw StreamClosed();
    msghdr message{};
    message.msg_iov = vectors.data();
    message.msg_iovlen = used;
    const ssize_t sent = ::sendmsg(socket_.native_handle(), &message, MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno != EAGAIN && errno != EINTR) throw StreamClosed();
      if (errno == EAGAIN) co_await socket_.async_wait(socket_.wait_write, asio::use_awaitable);
      continue;
    }
    last_moved_ = Clock::now();
    auto left = static_cast<std::uint64_t>(sent);
    while (first < pieces.size() && left >= pieces[first].size) left -= pieces[first++].size;
    if (left > 0) {
      if (pieces[first].data) pieces[first].data += left;
      pieces[first].size -= left;
    }
  }
}

asio::awaitable<void> ByteStream::write(std::string head, std::vector<BodyPiece> body) {
  body.insert(body.begin(), {head.data(), head.size()});
  co_await send(body);
}

asio::awaitable<void> ByteStream::write_slowly(std::string head, std::vector<BodyPiece> body,
                                               std::uint64_t bytes_per_s) {
  std::vector<BodyPiece> part{{head.data(), head.size()}};
  co_await send(part);
  const std::uint64_t rate = std::max<std::uint64_t>(bytes_per_s, 1);
  const std::uint64_t slice = std::max<std::uint64_t>(rate / 20, 1);
  for (BodyPiece piece : body) {
    while (piece.size > 0) {
      const auto size = std::min(piece.size, slice);
      co_await pause(std::chrono::microseconds(size * 1'000'000 / rate));
      part.assign(1, {piece.data, size});
      co_await send(part);
      if (piece.data) piece.data += size;
      piece.size -= size;
    }
  }
}

asio::awaitable<void> ByteStream::pause(Clock::duration time) {
  const auto end = Clock::now() + time;
  asio::steady_timer timer(socket_.get_executor());
  while (Clock::now() < end) {
    timer.expires_at(std::min(end, Clock::now() + std::chrono::milliseconds(10)));
    co_await timer.async_wait(asio::use_awaitable);
    if (!socket_.is_open()) throw StreamClosed();
    pollfd client{socket_.native_handle(), POLLRDHUP, 0};
    if (::poll(&client, 1, 0) > 0) throw StreamClosed();
    last_moved_ = Clock::now();
  }
}

asio::awaitable<void> ByteStream::linger() {
  asio::error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  asio::steady_timer timer(socket_.get_executor());
  for (int i = 0; i < 100 && socket_.is_open(); ++i) {  // a second at most
    ssize_t got = 0;
    while ((got = ::recv(socket_.native_handle(), nullptr, kReceiveBytesMax, MSG_TRUNC)) > 0) {
    }
    if (got == 0 || errno != EAGAIN) break;
    timer.expires_after(std::chrono::milliseconds(10));
    co_await timer.async_wait(asio::use_awaitable);
  }
  throw StreamClosed();
}

}  // namespace kv_offload::bench
