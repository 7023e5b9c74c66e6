#pragma once

#include "kv_offload/bench/object_server/server_faults.hpp"
#include "kv_offload/messages/expected.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kv_offload::bench {

struct ObjectServerOptions {
  std::uint16_t port =
      0;  ///< of 127.0.0.1; 0 takes any free one, and keeps it over stop() and start()
  std::string bucket = "kv-cache";
  std::uint64_t bytes_max = std::uint64_t{8}
                            << 30;  ///< of all bodies; a PUT beyond gets 503 SlowDown
  /// Null server: keeps headers and length, a GET sends zeros. Of bodies up to kKeptAnywayBytes it keeps the bytes: a
  /// client may want to see that they come back before it believes that this is a store.
  bool discard_bodies = false;
  static constexpr std::uint64_t kKeptAnywayBytes = 64;
  unsigned threads = 1;
  unsigned connections_max = 1024;  ///< further ones are closed at once
  unsigned idle_close_s = 300;      ///< a connection without a byte for so long is closed
};

using ObjectHeaders = std::map<std::string, std::string>;  ///< names in lower case

struct SeenRequest {
  std::string method;
  std::string target;  ///< as it came
  std::string key;     ///< decoded; empty: a request to the bucket
  ObjectHeaders headers;
  std::uint64_t body_bytes = 0;  ///< announced
};

struct ServerCounts {
  std::uint64_t gets = 0, puts = 0, heads = 0, deletes = 0, lists = 0, multi_deletes = 0,
                others = 0;
  std::uint64_t connections_accepted = 0, connections_open = 0;
  std::uint64_t body_bytes_in = 0, body_bytes_out = 0;
  [[nodiscard]] std::uint64_t requests() const {
    return gets + puts + heads + deletes + lists + multi_deletes + others;
  }
};

/// An in-memory stand-in for an S3 store, for tests, measurements and newcomers without one: HTTP/1.1 on
/// 127.0.0.1, one bucket, on threads of its own. Answers as README.md beside this file says; checks that
/// a request is signed, not the signature. All functions from any thread; start() and stop() from one.
class ObjectServer {
 public:
  explicit ObjectServer(ObjectServerOptions options = {});
  ~ObjectServer();  ///< stops
  ObjectServer(const ObjectServer&) = delete;
  ObjectServer& operator=(const ObjectServer&) = delete;

  /// io_error: the port is taken. Objects and rules of faults outlive stop() and start().
  Expected<Ok> start();
  /// Closes every connection, also those that hang.
  void stop();
  /// Closes every connection and goes on: what a restart of a store does to its clients.
  void close_connections();

  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] std::string endpoint() const;  ///< "http://127.0.0.1:PORT"
  [[nodiscard]] const std::string& bucket() const;

  [[nodiscard]] ServerFaults& faults();
  [[nodiscard]] ServerCounts counts() const;
  [[nodiscard]] std::vector<SeenRequest> requests() const;  ///< the last 4096, oldest first
  void forget_requests();

  [[nodiscard]] std::size_t objects() const;
  [[nodiscard]] std::vector<std::string> keys() const;  ///< sorted
  [[nodiscard]] std::optional<std::string> header_of(const std::string& key,
                                                     const std::string& name) const;
  [[nodiscard]] std::optional<std::string> body_of(const std::string& key) const;
  /// Flips a byte of a body. False: no such object, shorter, or the bodies are discarded.
  bool corrupt(const std::string& key, std::uint64_t byte_at);
  bool remove(const std::string& key);
  /// Beside the protocol, without a limit of bytes. Of `headers`, x-amz-meta-* and content-type are given back.
  void put(const std::string& key, std::string_view bytes, const ObjectHeaders& headers = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kv_offload::bench
