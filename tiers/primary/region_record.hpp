#pragma once

#include "kv_offload/messages/expected.hpp"
#include "kv_offload/messages/ids.hpp"
#include "kv_offload/messages/kv_layout.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kv_offload {

/// A process, so that it can be told from another one that got its number later.
struct ProcessMark {
  std::int64_t pid = 0;
  std::uint64_t start_ticks = 0;  ///< /proc/<pid>/stat, field 22
  std::string boot_id = {};       ///< /proc/sys/kernel/random/boot_id
  friend bool operator==(const ProcessMark&, const ProcessMark&) = default;
};

/// What a shared region says of itself in its first page: whose it is, and what its rows are.
struct RegionRecord {
  std::string engine_id = {};
  ProcessMark owner = {};
  ChunkId num_chunks = 0;
  std::uint64_t chunk_bytes = 0;  ///< payload of a row
  std::uint64_t row_bytes = 0;
  std::uint32_t world_size = 1;
  std::uint32_t blocks_per_chunk = 1;
  ChunkLayout layout = ChunkLayout::sharded;
  bool namespace_collapsed = false;
  std::string fingerprint = {};  ///< of the namespace identity, without revision
  std::string revision = {};
};

/// What a joiner knows by itself and insists on; empty or 0: takes what the record says.
struct RegionExpectation {
  std::string engine_id = {};
  std::uint64_t chunk_bytes = 0;
  std::uint32_t world_size = 0;
  std::uint32_t blocks_per_chunk = 0;
  std::optional<ChunkLayout> layout = {};
  std::string fingerprint = {};
  std::optional<std::string> revision = {};
};

// --- the page in front of the rows; its fields are in tiers/workers/README.md ---------------------

inline constexpr std::size_t kRegionHeaderBytes = 4096;  ///< that are read and written
inline constexpr std::uint64_t kRegionRowsOffset =
    2ULL << 20;  ///< rows begin on a huge page of their own
inline constexpr std::uint32_t kRegionRanksMax = 1024;
inline constexpr std::size_t kEngineIdBytesMax = 256;
inline constexpr std::size_t kFingerprintBytesMax = 512;
inline constexpr std::size_t kRevisionBytesMax = 512;

/// This process, or that one; nullopt if there is no such process to be seen.
[[nodiscard]] std::optional<ProcessMark> mark_of_process(std::int64_t pid);
[[nodiscard]] ProcessMark mark_of_this_process();

/// Names the first field that no region may have; nullopt if there is none.
[[nodiscard]] std::optional<OffloadError> check_record(const RegionRecord& record);
/// Names the first field in which the record is not what the joiner insists on: field, found, expected.
[[nodiscard]] std::optional<OffloadError> check_expectation(const RegionRecord& record,
                                                            const RegionExpectation& expected);

/// The record as bytes; the record has passed check_record. Also goes over the wire.
[[nodiscard]] std::vector<std::byte> encode_record(const RegionRecord& record);
Expected<RegionRecord> parse_record(std::span<const std::byte> bytes);

/// Size of the file of a region with these rows: whole pages of `page_bytes`.
[[nodiscard]] std::uint64_t region_file_bytes(std::uint64_t row_bytes, ChunkId num_chunks,
                                              std::uint64_t page_bytes);

/// Writes a first page that says what it is, but not yet whose, and not that the rows are ready.
void begin_header(std::byte* page, std::uint64_t file_bytes);
/// Makes `record` the one that counts, and the rows ready. One writer; readers may look on.
void publish_record(std::byte* page, const RegionRecord& record);
/// Writes the record without making it count: whose a region is that is still being made.
void prepare_record(std::byte* page, const RegionRecord& record);
/// Sets the bit of `rank`; true if this was the last of `world_size`.
bool mark_joined(std::byte* page, std::uint32_t rank, std::uint32_t world_size);
[[nodiscard]] bool all_joined(std::span<const std::byte> page, std::uint32_t world_size);

struct RegionHeader {
  bool ready = false;
  std::uint64_t file_bytes = 0;
  /// Not ready: whose it will be, if that stands there already.
  std::optional<RegionRecord> record = {};
};
/// Does the page begin as ours do? Everything else about it may be wrong.
[[nodiscard]] bool looks_like_region(std::span<const std::byte> page);
/// Strict: all of it is right, or it is an error. `page` has kRegionHeaderBytes; it may be changed by its owner while
/// it is read into `page`: then reading it again helps.
Expected<RegionHeader> parse_header(std::span<const std::byte> page);

}  // namespace kv_offload
