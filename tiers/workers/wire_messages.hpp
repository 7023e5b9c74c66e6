#pragma once

#include "kv_offload/messages/copy_job.hpp"
#include "kv_offload/tiers/device/worker_layout.hpp"
#include "kv_offload/tiers/primary/region_record.hpp"
#include "kv_offload/tiers/workers/wire_frame.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kv_offload {

inline constexpr std::size_t kWireTextBytesMax = 1000;
inline constexpr std::size_t kWireNameBytesMax = 1024;  ///< of a layer

struct HelloMessage {
  std::uint32_t rank = 0;
  RegionExpectation expected = {};
  std::uint64_t start_ticks = 0;  ///< of the worker's process
};
struct WelcomeMessage {
  RegionRecord record = {};
  bool is_sealed = true;
};
struct RefusalMessage {
  std::string why = {};
};
struct LayoutMessage {
  RankLayout layout = {};
  std::uint64_t region_bytes = 0;
  std::uint64_t registered_bytes = 0;
  std::optional<bool> portable = {};
};
struct ReadyMessage {
  std::optional<bool> all_portable = {};
};
struct OrderMessage {
  std::uint64_t id = 0;
  bool is_load = false;
  BlockList blocks = {};
  std::vector<ChunkId> chunk_ids = {};
};
struct ReportMessage {
  std::uint64_t id = 0;
  bool is_load = false;
  bool success = false;
  std::uint64_t bytes = 0;
  Duration time{};
  std::string error = {};
  std::uint64_t rows = 0;  ///< mark_of_rows of its chunks
};
/// Tells lists of rows apart.
[[nodiscard]] std::uint64_t mark_of_rows(std::span<const ChunkId> chunk_ids);
struct GoodbyeMessage {
  std::string why = {};
};
struct EndMessage {
  std::string why = {};
};

/// Each as a whole frame.
[[nodiscard]] std::vector<std::byte> encode(const HelloMessage& message);
[[nodiscard]] std::vector<std::byte> encode(const WelcomeMessage& message);
[[nodiscard]] std::vector<std::byte> encode(const RefusalMessage& message);
[[nodiscard]] std::vector<std::byte> encode(const LayoutMessage& message);
[[nodiscard]] std::vector<std::byte> encode(const ReadyMessage& message);
[[nodiscard]] std::vector<std::byte> encode(const OrderMessage& message);
[[nodiscard]] std::vector<std::byte> encode(const ReportMessage& message);
[[nodiscard]] std::vector<std::byte> encode(const GoodbyeMessage& message);
[[nodiscard]] std::vector<std::byte> encode(const EndMessage& message);

/// Strict: a payload that encode() would not have made is none. Texts come back printable.
[[nodiscard]] std::optional<HelloMessage> parse_hello(std::span<const std::byte> payload);
[[nodiscard]] std::optional<WelcomeMessage> parse_welcome(std::span<const std::byte> payload);
[[nodiscard]] std::optional<LayoutMessage> parse_layout(std::span<const std::byte> payload);
[[nodiscard]] std::optional<ReadyMessage> parse_ready(std::span<const std::byte> payload);
[[nodiscard]] std::optional<OrderMessage> parse_order(std::span<const std::byte> payload);
[[nodiscard]] std::optional<ReportMessage> parse_report(std::span<const std::byte> payload);
/// Of a refusal, a goodbye or an end.
[[nodiscard]] std::optional<std::string> parse_why(std::span<const std::byte> payload);

}  // namespace kv_offload
