#include "kv_offload/bench/object_server/answer_text.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

namespace kv_offload::bench {
namespace {

std::string_view reason_of(int status) {
  switch (status) {
    case 200: return "OK";
    case 204: return "No Content";
    case 206: return "Partial Content";
    case 301: return "Moved Permanently";
    case 400: return "Bad Request";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 411: return "Length Required";
    case 412: return "Precondition Failed";
    case 416: return "Requested Range Not Satisfiable";
    case 429: return "Too Many Requests";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Slow Down";
    default: return "Unknown";
  }
}

/// Lines of 8 KiB: a client's limit may be on a line or on all of them.
void append_filler(std::string& head, std::uint64_t bytes) {
  constexpr std::uint64_t kLine = 8 * 1024;
  for (std::uint64_t number = 0; bytes > 0; ++number) {
    head += "x-filler-" + std::to_string(number) + ": ";
    const auto size = std::min(bytes, kLine);
    head.append(size, 'f').append("\r\n");
    bytes -= size;
  }
}

}  // namespace

std::string head_text(const S3Answer& answer, const AnswerFraming& framing) {
  std::string head;
  head.reserve(512);
  head.append("HTTP/1.1 ").append(std::to_string(answer.status)).append(" ");
  head.append(reason_of(answer.status)).append("\r\nDate: ");
  head.append(http_date(std::time(nullptr) + framing.clock_ahead_s)).append("\r\n");
  head.append("x-amz-request-id: ").append(std::to_string(framing.request_id)).append("\r\n");
  if (answer.status != 204)
    head.append("Content-Length: ").append(std::to_string(framing.body_bytes)).append("\r\n");
  head += answer.headers;
  if (answer.object) {
    head.append("Accept-Ranges: bytes\r\nETag: ").append(answer.object->etag).append("\r\n");
    head.append("Last-Modified: ").append(http_date(answer.object->modified)).append("\r\n");
    for (const auto& [name, value] : answer.object->headers)
      if (framing.metadata || !name.starts_with("x-amz-meta-"))
        head.append(name).append(": ").append(value).append("\r\n");
  }
  append_filler(head, framing.more_headers_bytes);
  if (!framing.keep_alive) head += "Connection: close\r\n";
  return head.append("\r\n");
}

std::string http_date(std::time_t at) {
  // The same second is asked for thousands of times.
  thread_local std::time_t last = -1;
  thread_local std::array<char, 40> text{};
  if (at != last) {
    constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                       "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    std::tm parts{};
    ::gmtime_r(&at, &parts);
    std::snprintf(text.data(), text.size(), "%s, %02d %s %d %02d:%02d:%02d GMT",
                  kDays[parts.tm_wday], parts.tm_mday, kMonths[parts.tm_mon], parts.tm_year + 1900,
                  parts.tm_hour, parts.tm_min, parts.tm_sec);
    last = at;
  }
  return text.data();
}

std::optional<std::time_t> amz_date(std::string_view text) {
  std::tm parts{};
  const std::string copy(text);
  const char* end = ::strptime(copy.c_str(), "%Y%m%dT%H%M%SZ", &parts);
  if (!end || *end != '\0') return std::nullopt;
  return ::timegm(&parts);
}

}  // namespace kv_offload::bench
