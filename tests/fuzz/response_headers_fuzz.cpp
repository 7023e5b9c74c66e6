// What a server may send before the body, line by line.
#include "kv_offload/tests/fuzz/promise.hpp"
#include "kv_offload/tiers/obj/response_headers.hpp"
#include "kv_offload/tiers/obj/trimmed.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

namespace kv_offload::fuzz {
namespace {

void check_values(const ResponseHeaders& headers) {
  using std::chrono::milliseconds;
  const auto length = headers.content_length();
  promise(!length || *headers.find("content-length") == std::to_string(*length) ||
              headers.find("content-length")->starts_with('0'),
          "a length is the number that stands there");
  const auto wait = headers.retry_after();
  promise(!wait || (*wait >= milliseconds(0) && *wait <= ResponseHeaders::kRetryAfterMax),
          "a wait has a bound");
  if (const auto date = headers.date()) {
    using std::chrono::system_clock;
    promise(*date > std::chrono::floor<std::chrono::seconds>(system_clock::time_point::min()) &&
                *date < std::chrono::floor<std::chrono::seconds>(system_clock::time_point::max()),
            "a date is one that the system's clock can have");
  }
}

/// What is read of the headers is the same of these alone.
void check_again(const ResponseHeaders& headers) {
  ResponseHeaders again;
  again.add_line("HTTP/1.1 200 OK\r\n");
  for (const char* name : {"content-length", "date", "retry-after"})
    if (const std::string* value = headers.find(name))
      again.add_line(std::string(name) + ": " + *value + "\r\n");
  promise(!again.overflowed(), "three that fitted fit again");
  promise(again.date() == headers.date(), "the date stays");
  promise(again.retry_after() == headers.retry_after(), "the wait stays");
  promise(!headers.content_length() || again.content_length() == headers.content_length(),
          "the length stays");
}

void check_line(const ResponseHeaders& headers, std::string_view line) {
  std::string name(trimmed(line.substr(0, line.find(':'))));
  std::transform(name.begin(), name.end(), name.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  const std::string* value = headers.find(name);
  promise(value == nullptr || *value == trimmed(*value), "a value has no spaces around it");
}

}  // namespace
}  // namespace kv_offload::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using kv_offload::ResponseHeaders;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  ResponseHeaders headers;
  std::size_t num_lines = 0;
  while (!rest.empty()) {
    const auto end = rest.find('\n');
    const auto line = rest.substr(0, end == std::string_view::npos ? rest.size() : end + 1);
    headers.add_line(line);
    kv_offload::fuzz::promise(headers.size() <= ResponseHeaders::kHeadersMax, "headers are few");
    kv_offload::fuzz::promise(headers.size() + headers.num_dropped() <= ++num_lines,
                              "a line is at most one header");
    kv_offload::fuzz::check_line(headers, line);
    rest.remove_prefix(line.size());
  }
  kv_offload::fuzz::check_values(headers);
  kv_offload::fuzz::check_again(headers);
  return 0;
}
