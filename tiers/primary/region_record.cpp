#include "kv_offload/tiers/primary/region_record.hpp"

#include "kv_offload/tiers/byte_codec.hpp"

#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>

namespace kv_offload {
namespace {

constexpr char kMagic[8] = {'K', 'V', 'O', 'R', 'E', 'G', 'N', '\0'};
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kVersionAt = 8;
constexpr std::size_t kCountsAt = 12;
constexpr std::size_t kFileBytesAt = 16;
constexpr std::size_t kRowsOffsetAt = 24;
constexpr std::size_t kJoinedAt = 64;
constexpr std::size_t kRecordsAt = 256;
constexpr std::size_t kRecordSlotBytes = 1920;
constexpr std::size_t kRecordHeadBytes = 16;
constexpr std::size_t kBootIdBytesMax = 64;
constexpr std::uint64_t kRowAlignment = 4096;
static_assert(kRecordsAt + 2 * kRecordSlotBytes == kRegionHeaderBytes);
static_assert(kJoinedAt + kRegionRanksMax / 8 <= kRecordsAt);
static_assert(kRecordHeadBytes + kEngineIdBytesMax + kBootIdBytesMax + kFingerprintBytesMax +
                  kRevisionBytesMax + 64 <=
              kRecordSlotBytes);

template <class T>
T load(std::span<const std::byte> page, std::size_t at) {
  T value;
  std::memcpy(&value, page.data() + at, sizeof value);
  return value;
}
template <class T>
void store(std::byte* page, std::size_t at, T value) {
  std::memcpy(page + at, &value, sizeof value);
}

std::atomic_ref<std::uint32_t> counting_word(std::byte* page) {
  return std::atomic_ref(*reinterpret_cast<std::uint32_t*>(page + kCountsAt));
}

OffloadError bad(std::string what) {
  return {OffloadErrc::invalid_argument, "region: " + std::move(what)};
}

/// Printable, short: a foreign record's text goes into a message.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text.substr(0, 120)) out += c >= ' ' && c <= '~' ? c : '?';
  return out + (text.size() > 120 ? "…\"" : "\"");
}

void write_slot(std::byte* page, std::uint32_t slot, const RegionRecord& record) {
  const auto bytes = encode_record(record);
  std::byte* at = page + kRecordsAt + (slot - 1) * kRecordSlotBytes;
  store(at, 0, static_cast<std::uint32_t>(bytes.size()));
  store(at, 4, std::uint32_t{0});
  store(at, 8, static_cast<std::uint64_t>(XXH3_64bits(bytes.data(), bytes.size())));
  std::memcpy(at + kRecordHeadBytes, bytes.data(), bytes.size());
}

Expected<RegionRecord> read_slot(std::span<const std::byte> page, std::uint32_t slot) {
  const auto at = page.subspan(kRecordsAt + (slot - 1) * kRecordSlotBytes, kRecordSlotBytes);
  const auto size = load<std::uint32_t>(at, 0);
  if (size > kRecordSlotBytes - kRecordHeadBytes || load<std::uint32_t>(at, 4) != 0)
    return bad("its record says it has " + std::to_string(size) + " bytes; expected at most " +
               std::to_string(kRecordSlotBytes - kRecordHeadBytes));
  const auto body = at.subspan(kRecordHeadBytes, size);
  if (load<std::uint64_t>(at, 8) != XXH3_64bits(body.data(), body.size()))
    return bad("the checksum of its record is wrong");
  return parse_record(body);
}

template <class T>
std::optional<OffloadError> differs(const char* field, const T& found, const T& expected) {
  if (found == expected) return std::nullopt;
  if constexpr (std::is_same_v<T, std::string>)
    return bad(std::string(field) + ": found " + quoted(found) + ", expected " + quoted(expected));
  else
    return bad(std::string(field) + ": found " + std::to_string(found) + ", expected " +
               std::to_string(expected));
}

std::optional<OffloadError> too_long(const char* field, const std::string& text,
                                     std::size_t bytes_max) {
  if (text.size() <= bytes_max) return std::nullopt;
  return bad(std::string(field) + ": " + std::to_string(text.size()) + " bytes; expected at most " +
             std::to_string(bytes_max));
}

}  // namespace

std::optional<OffloadError> check_record(const RegionRecord& r) {
  if (r.engine_id.empty()) return bad("engine_id: is empty");
  if (auto e = too_long("engine_id", r.engine_id, kEngineIdBytesMax)) return e;
  if (auto e = too_long("boot_id", r.owner.boot_id, kBootIdBytesMax)) return e;
  if (auto e = too_long("fingerprint", r.fingerprint, kFingerprintBytesMax)) return e;
  if (auto e = too_long("revision", r.revision, kRevisionBytesMax)) return e;
  if (r.num_chunks == 0 || r.num_chunks == kNoChunk)
    return bad("num_chunks: " + std::to_string(r.num_chunks) + "; expected 1 to " +
               std::to_string(kNoChunk - 1));
  if (r.chunk_bytes == 0) return bad("chunk_bytes: 0; expected at least 1");
  if (r.row_bytes % kRowAlignment != 0 || r.row_bytes < r.chunk_bytes ||
      r.row_bytes - r.chunk_bytes >= kRowAlignment)
    return bad("row_bytes: " + std::to_string(r.row_bytes) + "; expected chunk_bytes " +
               std::to_string(r.chunk_bytes) + " rounded up to " + std::to_string(kRowAlignment));
  if (r.row_bytes >
      (std::numeric_limits<std::int64_t>::max() - 2 * kRegionRowsOffset) / r.num_chunks)
    return bad("row_bytes: " + std::to_string(r.num_chunks) + " rows of " +
               std::to_string(r.row_bytes) + " exceed the address space");
  if (r.world_size == 0 || r.world_size > kRegionRanksMax)
    return bad("world_size: " + std::to_string(r.world_size) + "; expected 1 to " +
               std::to_string(kRegionRanksMax));
  if (r.blocks_per_chunk == 0) return bad("blocks_per_chunk: 0; expected at least 1");
  return std::nullopt;
}

std::optional<OffloadError> check_expectation(const RegionRecord& r, const RegionExpectation& e) {
  if (!e.engine_id.empty())
    if (auto d = differs("engine_id", r.engine_id, e.engine_id)) return d;
  if (e.world_size != 0)
    if (auto d = differs("world_size", r.world_size, e.world_size)) return d;
  if (e.blocks_per_chunk != 0)
    if (auto d = differs("blocks_per_chunk", r.blocks_per_chunk, e.blocks_per_chunk)) return d;
  if (e.layout)
    if (auto d =
            differs("layout", std::string(to_string(r.layout)), std::string(to_string(*e.layout))))
      return d;
  if (e.chunk_bytes != 0)
    if (auto d = differs("chunk_bytes", r.chunk_bytes, e.chunk_bytes)) return d;
  if (!e.fingerprint.empty())
    if (auto d = differs("fingerprint", r.fingerprint, e.fingerprint)) return d;
  if (e.revision)
    if (auto d = differs("revision", r.revision, *e.revision)) return d;
  return std::nullopt;
}

std::vector<std::byte> encode_record(const RegionRecord& r) {
  ByteWriter out;
  out.text(r.engine_id, kEngineIdBytesMax);
  out.number(r.owner.pid);
  out.number(r.owner.start_ticks);
  out.text(r.owner.boot_id, kBootIdBytesMax);
  out.number(r.num_chunks);
  out.number(r.chunk_bytes);
  out.number(r.row_bytes);
  out.number(r.world_size);
  out.number(r.blocks_per_chunk);
  out.number(static_cast<std::uint8_t>(r.layout));
  out.flag(r.namespace_collapsed);
  out.text(r.fingerprint, kFingerprintBytesMax);
  out.text(r.revision, kRevisionBytesMax);
  return out.take();
}

Expected<RegionRecord> parse_record(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  RegionRecord r;
  r.engine_id = in.text(kEngineIdBytesMax);
  r.owner.pid = in.number<std::int64_t>();
  r.owner.start_ticks = in.number<std::uint64_t>();
  r.owner.boot_id = in.text(kBootIdBytesMax);
  r.num_chunks = in.number<ChunkId>();
  r.chunk_bytes = in.number<std::uint64_t>();
  r.row_bytes = in.number<std::uint64_t>();
  r.world_size = in.number<std::uint32_t>();
  r.blocks_per_chunk = in.number<std::uint32_t>();
  const auto layout = in.number<std::uint8_t>();
  if (layout > static_cast<std::uint8_t>(ChunkLayout::canonical)) in.fail();
  r.layout = static_cast<ChunkLayout>(layout);
  r.namespace_collapsed = in.flag();
  r.fingerprint = in.text(kFingerprintBytesMax);
  r.revision = in.text(kRevisionBytesMax);
  if (!in.done()) return bad("its record is cut, too long, or has a value that does not exist");
  if (auto e = check_record(r)) return *e;
  return r;
}

std::uint64_t region_file_bytes(std::uint64_t row_bytes, ChunkId num_chunks,
                                std::uint64_t page_bytes) {
  const std::uint64_t bytes = kRegionRowsOffset + row_bytes * num_chunks;
  return (bytes + page_bytes - 1) / page_bytes * page_bytes;
}

void begin_header(std::byte* page, std::uint64_t file_bytes) {
  std::memset(page, 0, kRegionHeaderBytes);
  std::memcpy(page, kMagic, sizeof kMagic);
  store(page, kVersionAt, kVersion);
  store(page, kFileBytesAt, file_bytes);
  store(page, kRowsOffsetAt, kRegionRowsOffset);
}

void publish_record(std::byte* page, const RegionRecord& record) {
  const auto counts = counting_word(page);
  const std::uint32_t next = counts.load(std::memory_order_relaxed) == 1 ? 2 : 1;
  write_slot(page, next, record);
  counts.store(next, std::memory_order_release);
}

void prepare_record(std::byte* page, const RegionRecord& record) { write_slot(page, 1, record); }

bool mark_joined(std::byte* page, std::uint32_t rank, std::uint32_t world_size) {
  auto* words = reinterpret_cast<std::uint64_t*>(page + kJoinedAt);
  // Sequentially consistent: of two ranks that come at the same time, in different words, one sees both.
  std::atomic_ref(words[rank / 64]).fetch_or(std::uint64_t{1} << (rank % 64));
  for (std::uint32_t r = 0; r < world_size; ++r)
    if ((std::atomic_ref(words[r / 64]).load() >> (r % 64) & 1) == 0) return false;
  return true;
}

bool all_joined(std::span<const std::byte> page, std::uint32_t world_size) {
  for (std::uint32_t rank = 0; rank < world_size; ++rank) {
    const auto word = load<std::uint64_t>(page, kJoinedAt + rank / 64 * 8);
    if ((word >> (rank % 64) & 1) == 0) return false;
  }
  return true;
}

bool looks_like_region(std::span<const std::byte> page) {
  return page.size() >= kRegionHeaderBytes && std::memcmp(page.data(), kMagic, sizeof kMagic) == 0;
}

Expected<RegionHeader> parse_header(std::span<const std::byte> page) {
  if (!looks_like_region(page)) return bad("is not one of ours: it does not begin with KVOREGN");
  if (auto e = differs("version", load<std::uint32_t>(page, kVersionAt), kVersion)) return *e;
  if (auto e = differs("rows_offset", load<std::uint64_t>(page, kRowsOffsetAt), kRegionRowsOffset))
    return *e;
  RegionHeader header;
  header.file_bytes = load<std::uint64_t>(page, kFileBytesAt);
  const auto counts = load<std::uint32_t>(page, kCountsAt);
  if (counts > 2)
    return bad("says that record " + std::to_string(counts) + " counts; expected 0, 1 or 2");
  header.ready = counts != 0;
  auto record = read_slot(page, header.ready ? counts : 1);
  if (record)
    header.record = std::move(*record);
  else if (header.ready)
    return record.error();
  if (header.record) {
    const auto& r = *header.record;
    if (region_file_bytes(r.row_bytes, r.num_chunks, 1) > header.file_bytes)
      return bad("file_bytes: found " + std::to_string(header.file_bytes) + ", expected at least " +
                 std::to_string(region_file_bytes(r.row_bytes, r.num_chunks, 1)) + " for its rows");
  }
  return header;
}

}  // namespace kv_offload
