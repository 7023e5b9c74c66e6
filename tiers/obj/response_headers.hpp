#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kv_offload {

/// The headers of one HTTP response, filled line by line by the transport's callback. Whatever a server sends,
/// it holds kHeadersMax headers and kBytesMax bytes at most; the rest is dropped and counted. One owner.
class ResponseHeaders {
 public:
  static constexpr std::size_t kHeadersMax = 64;
  static constexpr std::size_t kBytesMax = std::size_t{16} << 10;
  /// No store that wants to be asked again says more; one that does is asked anyway.
  static constexpr std::chrono::hours kRetryAfterMax{1};

  void clear();
  /// One line with or without its line end. A status line begins a new response (a 100 Continue, then the
  /// answer) and forgets what was there. Lines that are no header are passed over.
  void add_line(std::string_view line);

  /// The value without spaces around it, of the first header of that name; nullptr where there is none.
  /// Valid until the next line.
  [[nodiscard]] const std::string* find(std::string_view lower_case_name) const;
  /// Nothing if it is missing, is no number, or stands twice and differs.
  [[nodiscard]] std::optional<std::uint64_t> content_length() const;
  /// The server's clock, to the second.
  [[nodiscard]] std::optional<std::chrono::sys_seconds> date() const;
  /// How long the server wants to be left alone, at most kRetryAfterMax. A date counts from date(), the same
  /// server's clock; without it there is nothing to count from.
  [[nodiscard]] std::optional<std::chrono::milliseconds> retry_after() const;

  [[nodiscard]] bool overflowed() const { return num_dropped_ > 0; }
  [[nodiscard]] std::size_t num_dropped() const { return num_dropped_; }
  [[nodiscard]] std::size_t size() const { return headers_.size(); }

 private:
  std::vector<std::pair<std::string, std::string>> headers_;
  std::size_t num_bytes_ = 0;
  std::size_t num_dropped_ = 0;
};

}  // namespace kv_offload
