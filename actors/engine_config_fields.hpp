#pragma once

#include "kv_offload/actors/engine_config.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

namespace kv_offload::config_fields {

/// The plain fields of an EngineConfig, once: parse() reads them, validate() checks them and
/// effective() shows them from these tables. Bounds are far from any real value; they catch slips.

struct Integer {
  std::string_view key;
  std::uint32_t EngineConfig::*member;
  std::int64_t min, max;
  std::string_view unit;
};
inline constexpr std::int64_t kTokensPerChunkMax = 1 << 24;
inline constexpr std::array<Integer, 11> kIntegers{{
    {"tokens_per_chunk", &EngineConfig::tokens_per_chunk, 0, kTokensPerChunkMax, "tokens"},
    {"compute_tokens_per_s", &EngineConfig::compute_tokens_per_s, 0, 1 << 30, "tokens/s"},
    {"store_threshold", &EngineConfig::store_threshold, 0, 1'000'000, "lookups"},
    {"max_tracker_size", &EngineConfig::max_tracker_size, 1, 1 << 24, "keys"},
    {"jobs_max", &EngineConfig::jobs_max, 1, 1 << 20, "jobs"},
    {"probes_max", &EngineConfig::probes_max, 1, 1 << 24, "keys"},
    {"calls_max", &EngineConfig::calls_max, 1, 1 << 20, "calls"},
    {"keys_max", &EngineConfig::keys_max, 1, 1 << 20, "keys"},
    {"requests_max", &EngineConfig::requests_max, 1, 1 << 24, "requests"},
    {"worker_threads", &EngineConfig::worker_threads, 1, 1024, "threads"},
    // A caller that spins longer than a wake-up costs (tens of µs) burns a core for nothing.
    {"spin_us", &EngineConfig::spin_us, 0, 10'000, "us"},
}};

struct Boolean {
  std::string_view key;
  bool EngineConfig::*member;
};
inline constexpr std::array<Boolean, 3> kBooleans{{
    {"offload_prompt_only", &EngineConfig::offload_prompt_only},
    {"huge_pages", &EngineConfig::huge_pages},
    {"enable_kv_events", &EngineConfig::enable_kv_events},
}};

struct Deadline {
  std::string_view key;
  Duration Deadlines::*member;
};
inline constexpr std::int64_t kDeadlineMsMax = 86'400'000;  ///< a day
inline constexpr std::array<Deadline, 8> kDeadlines{{
    {"load_ms", &Deadlines::load},
    {"store_ms", &Deadlines::store},
    {"probe_ms", &Deadlines::probe},
    {"lookup_ms", &Deadlines::lookup},
    {"unread_ms", &Deadlines::unread},
    {"drain_ms", &Deadlines::drain},
    {"shutdown_ms", &Deadlines::shutdown},
    {"copy_ms", &Deadlines::copy},
}};

struct Share {
  std::string_view key;
  double PrimaryConfig::*member;
  std::string_view chunks_key;  ///< derived number of chunks
};
inline constexpr std::array<Share, 3> kShares{{
    {"headroom_share", &PrimaryConfig::headroom_share, "headroom_chunks"},
    {"hold_share", &PrimaryConfig::hold_share, "hold_chunks"},
    {"max_pinned_share", &PrimaryConfig::max_pinned_share, "max_pinned_chunks"},
}};

struct IdentityInteger {
  std::string_view key;
  std::uint32_t NamespaceIdentity::*member;
  std::int64_t min, max;
  std::string_view unit;
};
inline constexpr std::array<IdentityInteger, 7> kIdentityIntegers{{
    {"tokens_per_hash", &NamespaceIdentity::tokens_per_hash, 1, 1 << 20, "tokens"},
    {"blocks_per_file", &NamespaceIdentity::blocks_per_file, 1, 1 << 20, "blocks"},
    {"tp_size", &NamespaceIdentity::tp_size, 1, 65536, "ranks"},
    {"pp_size", &NamespaceIdentity::pp_size, 1, 65536, "ranks"},
    {"pcp_size", &NamespaceIdentity::pcp_size, 1, 65536, "ranks"},
    {"dcp_size", &NamespaceIdentity::dcp_size, 1, 65536, "ranks"},
    {"rank", &NamespaceIdentity::rank, 0, 65535, ""},
}};
inline constexpr std::int64_t kTokensPerBlockMax = 1 << 20;
/// The model name becomes part of a directory name, which Linux limits to 255 bytes with our suffixes.
inline constexpr std::size_t kModelNameBytesMax = 200;
inline constexpr std::size_t kIdentityTextBytesMax = 4096;
inline constexpr std::size_t kPathBytesMax = 4000;  ///< Linux's 4096, less our suffixes

inline constexpr std::uint64_t kChunkBytesMin = 512;
inline constexpr std::uint64_t kChunkBytesMax = std::uint64_t{4} << 30;
inline constexpr std::uint64_t kRowAlignment = 4096;
inline constexpr std::uint64_t kCpuBytesMax = std::uint64_t{64}
                                              << 40;  ///< half of a 47-bit address space
inline constexpr std::size_t kTiersMax = 64;
inline constexpr std::int64_t kWorldSizeMax = 1024;  ///< workers of one replica
inline constexpr std::size_t kEngineNameBytesMax = 64;
inline constexpr std::array<std::string_view, 7> kLogLevels{
    {"trace", "debug", "info", "warn", "error", "critical", "off"}};

inline constexpr std::array<std::string_view, 2> kSpecNames{
    {"CPUOffloadingSpec", "TieringOffloadingSpec"}};
/// The last four bytes of a key hold it.
inline constexpr std::int64_t kCacheGroupMax = 0xffff'ffff;
inline constexpr std::string_view kAtomicGroupForms = "a list of 2 to 64 cache-group indices";

/// From here on a store waits for its key to be looked up again; below, chunks are stored at sight.
inline constexpr std::uint32_t kStoreThresholdMin = 2;

/// Keys whose values are never shown.
inline bool is_secret(std::string_view key) {
  constexpr std::array<std::string_view, 6> kSecrets{
      {"access_key", "secret_key", "session_token", "password", "token", "tenant"}};
  return std::find(kSecrets.begin(), kSecrets.end(), key) != kSecrets.end();
}

/// A message must stay one line whatever a document's strings contain.
inline std::string one_line(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return text;
}

/// Six digits are enough for people; 0.1 reads "0.1".
inline std::string number_text(double value) {
  std::array<char, 40> buffer{};
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                          std::chars_format::general, 6);
  return error == std::errc{} ? std::string(buffer.data(), end) : std::string("nan");
}

/// "1 chunk", "2 chunks".
inline std::string counted(std::uint64_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

inline std::int64_t to_ms(Duration d) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(d).count();
}

template <std::size_t N>
std::vector<std::string> choices(const std::array<std::string_view, N>& names) {
  return {names.begin(), names.end()};
}

}  // namespace kv_offload::config_fields
