#pragma once

#include "kv_offload/bench/object_server/http_request.hpp"
#include "kv_offload/bench/object_server/object_map.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace kv_offload::bench {

/// A request with bucket and key found in it.
struct S3Request {
  enum class Kind { get, put, head, remove, list, multi_delete, head_bucket, other };
  Kind kind = Kind::other;
  const HttpRequest* http = nullptr;
  std::string bucket;
  std::string key;                           ///< decoded; empty: the bucket itself
  std::map<std::string, std::string> query;  ///< decoded
  std::uint64_t body_bytes = 0;
  bool well_formed = true;  ///< false: badly encoded, or a length that is none
};

struct S3Body {
  std::shared_ptr<std::byte[]> bytes = {};  ///< null: discarded
  std::uint64_t size = 0;
  bool metadata = true;  ///< false: a PUT forgets x-amz-meta-*
};

struct S3Answer {
  int status = 200;
  std::string headers = {};              ///< lines, each with its CRLF
  std::string text = {};                 ///< the body, where it is XML
  ObjectPtr object = {};                 ///< whose ETag, metadata and bytes go along
  std::uint64_t offset = 0, length = 0;  ///< of the object's bytes
};

/// What an S3 store answers, without sockets. Any thread.
class S3Service {
 public:
  S3Service(std::string bucket, ObjectMap& objects)
      : bucket_(std::move(bucket)), objects_(objects) {}

  /// `http` must outlive what is returned.
  [[nodiscard]] S3Request understood(const HttpRequest& http) const;
  /// What can be said before the body came; nullopt: go on.
  [[nodiscard]] std::optional<S3Answer> refusal(const S3Request& request) const;
  S3Answer answer(const S3Request& request, S3Body body);

  /// @param code  S3's word for it
  [[nodiscard]] static S3Answer error(const S3Request& request, int status, std::string_view code,
                                      std::string_view message);
  /// The usual word for a status.
  [[nodiscard]] static std::string_view code_of(int status);

 private:
  S3Answer put(const S3Request& request, S3Body body);
  [[nodiscard]] S3Answer get(const S3Request& request) const;
  [[nodiscard]] S3Answer list(const S3Request& request) const;
  S3Answer multi_delete(const S3Request& request, const S3Body& body);

  const std::string bucket_;
  ObjectMap& objects_;
};

}  // namespace kv_offload::bench
