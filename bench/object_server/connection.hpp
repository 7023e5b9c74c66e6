#pragma once

#include "kv_offload/bench/object_server/byte_stream.hpp"
#include "kv_offload/bench/object_server/server_state.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_set>

namespace kv_offload::bench {

/// One client: reads a request, answers it, until either side closes. On the thread of its executor.
class Connection {
 public:
  using Set = std::unordered_set<Connection*>;

  /// Stands in `all` as long as it lives.
  Connection(asio::ip::tcp::socket socket, ServerState& state, Set& all);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  asio::awaitable<void> run();
  void close() { stream_.close(); }
  [[nodiscard]] ByteStream::Clock::time_point last_moved() const { return stream_.last_moved(); }

 private:
  asio::awaitable<void> serve(const S3Request& request);
  /// Reads the rest of the request: into `body.bytes`, or nowhere.
  asio::awaitable<void> take(S3Body& body);
  /// Answers before the body came. Does not return.
  asio::awaitable<void> refuse(const S3Request& request, S3Answer refusal);
  asio::awaitable<void> send(const S3Request& request, S3Answer answer);
  asio::awaitable<void> send_garbage();
  asio::awaitable<void> hang();
  /// What the fault says without asking the store; nullopt: it does not say.
  std::optional<S3Answer> fault_answer(const S3Request& request) const;
  [[nodiscard]] bool has(ServerFaultKind kind) const {
    return drawn_.fault && drawn_.fault->kind == kind;
  }
  [[nodiscard]] std::int64_t argument() const { return drawn_.fault->argument; }
  [[nodiscard]] std::uint64_t argument_or(std::uint64_t usual) const;

  ServerState& state_;
  Set& all_;
  ByteStream stream_;
  ServerFaults::Drawn drawn_;  ///< of the request under way
  bool keep_alive_ = true;
};

}  // namespace kv_offload::bench
