#include "kv_offload/tiers/obj/response_headers.hpp"

#include "kv_offload/tiers/obj/time_text.hpp"
#include "kv_offload/tiers/obj/trimmed.hpp"

#include <algorithm>
#include <charconv>

namespace kv_offload {

namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

/// HTTP's numbers are digits alone: no sign, no space.
bool is_number(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// Nothing of a number that does not fit.
std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  if (!is_number(text)) return std::nullopt;
  const auto error = std::from_chars(text.data(), text.data() + text.size(), value).ec;
  return error == std::errc{} ? std::optional(value) : std::nullopt;
}

}  // namespace

void ResponseHeaders::clear() {
  headers_.clear();
  num_bytes_ = 0;
  num_dropped_ = 0;
}

void ResponseHeaders::add_line(std::string_view line) {
  if (line.starts_with("HTTP/")) return clear();
  // A line that goes on after a line end begins with a space; nothing that is read here is so long.
  const auto colon = line.find(':');
  if (colon == std::string_view::npos || colon == 0 || line.front() == ' ' || line.front() == '\t')
    return;
  const std::string_view name = trimmed(line.substr(0, colon));
  const std::string_view value = trimmed(line.substr(colon + 1));
  if (headers_.size() == kHeadersMax || name.size() + value.size() > kBytesMax - num_bytes_) {
    ++num_dropped_;
    return;
  }
  num_bytes_ += name.size() + value.size();
  auto& header = headers_.emplace_back(name, value);
  std::transform(header.first.begin(), header.first.end(), header.first.begin(), lower);
}

const std::string* ResponseHeaders::find(std::string_view lower_case_name) const {
  const auto found = std::find_if(headers_.begin(), headers_.end(),
                                  [&](const auto& h) { return h.first == lower_case_name; });
  return found == headers_.end() ? nullptr : &found->second;
}

std::optional<std::uint64_t> ResponseHeaders::content_length() const {
  const std::string* first = find("content-length");
  if (first == nullptr) return std::nullopt;
  for (const auto& [name, value] : headers_)
    if (name == "content-length" && value != *first) return std::nullopt;
  return number(*first);
}

std::optional<std::chrono::sys_seconds> ResponseHeaders::date() const {
  const std::string* value = find("date");
  return value == nullptr ? std::nullopt : parse_http_date(*value);
}

std::optional<std::chrono::milliseconds> ResponseHeaders::retry_after() const {
  using std::chrono::seconds;
  const std::string* value = find("retry-after");
  if (value == nullptr) return std::nullopt;
  constexpr seconds kMax = kRetryAfterMax;
  if (is_number(*value)) {
    const auto given = number(*value);
    if (!given || *given > static_cast<std::uint64_t>(kMax.count())) return kMax;
    return seconds(*given);
  }
  const auto until = parse_http_date(*value);
  const auto from = date();
  if (!until || !from) return std::nullopt;
  return std::clamp(seconds(*until - *from), seconds(0), kMax);
}

}  // namespace kv_offload
