#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace kv_offload {

// The three ways in which HTTP and S3 write a time, all in UTC. What is read is in the years 1900 to 2200: the
// system's clock counts nanoseconds and ends in 2262, and a stranger's date must not overflow a difference to it.

/// HTTP's date, `Sun, 06 Nov 1994 08:49:37 GMT`. Strict, but for the name of the day, which is not compared.
[[nodiscard]] std::optional<std::chrono::sys_seconds> parse_http_date(std::string_view text);

/// Listings' and STS's `2009-10-12T17:50:30.000Z`, with or without a fraction, which is dropped.
[[nodiscard]] std::optional<std::chrono::sys_seconds> parse_iso_time(std::string_view text);

/// Signatures' `20130524T000000Z`, of a time in the years 0 to 9999.
[[nodiscard]] std::string basic_iso_time(std::chrono::sys_seconds time);

}  // namespace kv_offload
