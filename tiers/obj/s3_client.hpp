#pragma once

#include "kv_offload/messages/expected.hpp"
#include "kv_offload/tiers/obj/aws_credentials.hpp"
#include "kv_offload/tiers/obj/curl_loop.hpp"
#include "kv_offload/tiers/obj/s3_counters.hpp"
#include "kv_offload/tiers/obj/s3_failure.hpp"
#include "kv_offload/tiers/obj/s3_place.hpp"
#include "kv_offload/tiers/obj/s3_retry.hpp"
#include "kv_offload/tiers/obj/sigv4.hpp"

#include <asio/io_context.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace kv_offload {

/// One operation on the bucket. What it points to belongs to the call until its end, or its cancel.
struct S3Call {
  S3Op op = S3Op::get;
  std::string key;                                            ///< as it is, not encoded; list, remove_many: empty
  std::vector<std::pair<std::string, std::string>> query;     ///< not encoded
  HeaderList headers;                                         ///< lower case; x-amz-* are signed
  std::span<const std::byte> upload;
  BodySink* sink = nullptr;
  std::optional<std::uint64_t> object_bytes;                  ///< get, head: an object of another length is none
  Duration attempt_timeout{};
  MonotonicTime deadline = MonotonicTime::max();  ///< of all attempts
};

struct S3Reply {
  S3Failure failure = S3Failure::none;
  S3Failure cause = S3Failure::none;  ///< with breaker_open: how the last call failed that was made
  const ResponseHeaders* headers = nullptr;  ///< never null; valid inside the callback only
  std::string body;                          ///< of list and remove_many
  std::uint64_t bytes_in = 0;
  std::string detail;                        ///< one line for people: code and words of the store; no secrets
  std::chrono::seconds skew{};               ///< store's clock minus ours; with clock_skew only
  bool is_late = false;                      ///< there was no time for another attempt
};

struct S3ClientOptions {
  S3Place place;
  CurlOptions curl;
  S3RetryOptions retry;
  S3BreakerOptions breaker;
  std::uint64_t seed = 1;  ///< of the waits between attempts
  std::function<MonotonicTime()> now;
  std::function<std::chrono::sys_seconds()> wall_clock;  ///< for signatures
  std::function<void(const std::string&)>
      log;  ///< told when the store stops and begins to work; may be empty
};

/// Operations on one bucket: signs, sends, tells apart what can go wrong, and asks again where that may help
/// and every operation may be repeated. One thread, that of the loop.
class S3Client {
 public:
  using CallId = std::uint64_t;
  /// Once per call, never from inside start().
  using Done = std::function<void(S3Reply&&)>;

  S3Client(asio::io_context& loop, S3ClientOptions options, std::shared_ptr<S3Counters> counters);
  ~S3Client();
  S3Client(const S3Client&) = delete;
  S3Client& operator=(const S3Client&) = delete;

  void set_credentials(AwsCredentials credentials) { credentials_ = std::move(credentials); }
  [[nodiscard]] const AwsCredentials& credentials() const { return credentials_; }

  CallId start(S3Call call, Done done);
  /// From the return on no buffer of the call is touched, and `done` is not called.
  void cancel(CallId id);

  /// For what is not an operation on the bucket (a token service). Not retried, not counted.
  CurlLoop& http() { return curl_; }

 private:
  struct Running;
  void send(Running& running);
  void answered(CallId id, HttpResponse&& response);
  void end(CallId id, S3Reply&& reply);
  [[nodiscard]] HttpRequest request_of(const Running& running, Duration timeout);
  [[nodiscard]] S3Reply reply_of(const Running& running, HttpResponse&& response) const;
  /// True: another attempt is on its way.
  bool try_again(Running& running, S3Reply& reply, Duration retry_after);
  void note(const S3Reply& reply);
  void judge(const S3Reply& reply);
  [[nodiscard]] std::string without_secrets(std::string text) const;

  asio::io_context& loop_;
  const S3ClientOptions options_;
  const std::shared_ptr<S3Counters> counters_;
  CurlLoop curl_;
  SigV4Signer signer_;
  AwsCredentials credentials_;
  S3Retry retry_;
  S3Breaker breaker_;
  S3Failure last_outage_ = S3Failure::none;
  CallId next_id_ = 1;
  struct Calls;
  std::unique_ptr<Calls> calls_;
  std::shared_ptr<bool> alive_;
};

}  // namespace kv_offload
