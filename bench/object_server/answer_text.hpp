#pragma once

#include "kv_offload/bench/object_server/s3_service.hpp"

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>

namespace kv_offload::bench {

/// How an answer is worded.
struct AnswerFraming {
  std::uint64_t body_bytes = 0;  ///< as announced
  std::uint64_t request_id = 0;
  bool keep_alive = true;
  bool metadata = true;            ///< x-amz-meta-* of the object
  std::int64_t clock_ahead_s = 0;  ///< of the Date
  std::uint64_t more_headers_bytes = 0;
};

/// The head of an answer, with its empty line.
std::string head_text(const S3Answer& answer, const AnswerFraming& framing);
/// "Tue, 03 Feb 2026 10:00:00 GMT"
std::string http_date(std::time_t at);
/// Of "20260203T100000Z"; nullopt: not in this form.
std::optional<std::time_t> amz_date(std::string_view text);

}  // namespace kv_offload::bench
