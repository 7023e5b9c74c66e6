#pragma once

#include "kv_offload/messages/monotonic_time.hpp"
#include "kv_offload/tiers/obj/response_headers.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace kv_offload {

enum class HttpMethod : std::uint8_t { get, head, put, post, remove };

/// Takes the body of an answer piece by piece, as it comes from the network. Loop thread.
class BodySink {
 public:
  virtual ~BodySink() = default;
  /// A (new) body begins; what was taken of an earlier attempt is void.
  virtual void begin() = 0;
  /// False: more than was expected; the exchange ends.
  virtual bool take(std::span<const std::byte> piece) = 0;
};

/// One HTTP request. What it points to belongs to the exchange until its end, or its cancel.
struct HttpRequest {
  HttpMethod method = HttpMethod::get;
  std::string url;  ///< path and query encoded
  std::vector<std::pair<std::string, std::string>> headers;
  std::span<const std::byte> upload;  ///< put, post
  BodySink* sink = nullptr;           ///< of the body of a 200 or 206; other bodies are collected as text
  Duration timeout{};                 ///< of everything together
};

/// How it ended below HTTP.
enum class HttpEnd : std::uint8_t {
  answered,      ///< a whole answer, whatever its status
  unreachable,   ///< no connection: refused, no route, unknown name, proxy
  tls,           ///< no agreement on TLS, or a certificate that does not hold
  timed_out,
  broken,        ///< the connection ended in the middle of the answer, or of the request
  malformed,     ///< not HTTP, or headers beyond all bounds
  too_long,      ///< the sink had no room for more of the body
  failed,        ///< anything else: a mistake of ours, no memory
};

struct HttpResponse {
  HttpEnd end = HttpEnd::failed;
  long status = 0;             ///< 0: no answer
  const ResponseHeaders* headers = nullptr;  ///< never null; valid inside the callback only
  std::string body;            ///< not taken by a sink; cut at kTextMax
  std::uint64_t bytes_in = 0;  ///< of the body
  std::string detail;          ///< one line, where `end` is not `answered`; without secrets

  /// Error documents have some hundred bytes, a page of a listing 1000 keys of at most 1 KiB and markup.
  static constexpr std::size_t kTextMax = 4U << 20;
};

}  // namespace kv_offload
