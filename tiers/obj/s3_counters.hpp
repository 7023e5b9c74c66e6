#pragma once

#include "kv_offload/tiers/obj/s3_failure.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kv_offload {

enum class S3Op : std::uint8_t { get, head, put, remove, list, remove_many };
inline constexpr std::size_t kNumS3Ops = 6;
inline constexpr std::array<std::string_view, kNumS3Ops> kS3OpNames = {"get",    "head", "put",
                                                                       "delete", "list", "multi_delete"};

/// Written by the loop, read by anyone.
struct S3Counters {
  std::array<std::atomic<std::uint64_t>, kNumS3Ops> requests{};       ///< sent, every attempt
  std::array<std::atomic<std::uint64_t>, kNumS3Failures> failures{};  ///< of every attempt; `none`: went well
  std::atomic<std::uint64_t> retries{0};
  std::atomic<std::uint64_t> retries_denied{0};                       ///< the budget was spent
  std::atomic<std::uint64_t> breaker_opened{0};
  std::atomic<std::uint64_t> connections{0};                          ///< opened
  std::atomic<std::uint64_t> in_flight{0};                            ///< gauge
  std::atomic<bool> breaker_open{false};                              ///< gauge
};

}  // namespace kv_offload
