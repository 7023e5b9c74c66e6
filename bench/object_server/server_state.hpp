#pragma once

#include "kv_offload/bench/object_server/object_map.hpp"
#include "kv_offload/bench/object_server/object_server.hpp"
#include "kv_offload/bench/object_server/s3_service.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

namespace kv_offload::bench {

/// The last requests, kept as they came: taking them apart is for whoever asks. Any thread.
class RequestLog {
 public:
  void add(const std::string& head, const std::string& key, std::uint64_t body_bytes);
  [[nodiscard]] std::vector<SeenRequest> read() const;
  void clear();

 private:
  static constexpr std::size_t kKept = 4096;
  struct Line {
    std::string head, key;
    std::uint64_t body_bytes = 0;
  };
  mutable std::mutex mutex_;
  std::deque<Line> lines_;
};

/// What all connections of a server share.
struct ServerState {
  explicit ServerState(ObjectServerOptions the_options)
      : options(std::move(the_options)),
        objects(options.bytes_max),
        service(options.bucket, objects) {}

  void count(S3Request::Kind kind);

  const ObjectServerOptions options;
  ServerFaults faults;
  ObjectMap objects;
  S3Service service;
  RequestLog log;
  std::atomic<std::uint64_t> gets{0}, puts{0}, heads{0}, deletes{0}, lists{0}, multi_deletes{0},
      others{0}, accepted{0}, open{0}, bytes_in{0}, bytes_out{0}, request_ids{0};
};

}  // namespace kv_offload::bench
