#include "kv_offload/tiers/extent/extent_format.hpp"

#include "kv_offload/tests/support/tier_memory.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <vector>

namespace kv_offload {
namespace {

using test::tier_key;

ChunkRecord record() {
  ChunkRecord r;
  r.generation = 77;
  r.namespace_tag = 5;
  r.row_bytes = 4096;
  r.digest.value.fill(std::byte{9});
  r.key = tier_key(3, 1);
  return r;
}

TEST_CASE("a record is read back at its place and nowhere else", "[extent]") {
  const ExtentCodec codec({1, 2});
  std::vector<std::byte> bytes(ExtentGeometry::kRecordBytes);
  codec.encode_record(record(), 10, bytes);
  const auto read = codec.parse_record(bytes, 10, 77);
  REQUIRE(read);
  CHECK(read->key == record().key);
  CHECK(read->digest == record().digest);
  CHECK(read->namespace_tag == 5);
  CHECK(read->row_bytes == 4096);
  CHECK_FALSE(codec.parse_record(bytes, 11, 77));                // another slot
  CHECK_FALSE(codec.parse_record(bytes, 10, 78));                // the segment was opened anew
  CHECK_FALSE(ExtentCodec({1, 3}).parse_record(bytes, 10, 77));  // another file
}

TEST_CASE("no flipped bit of a record or header goes unnoticed", "[extent]") {
  const ExtentCodec codec({1, 2});
  std::vector<std::byte> bytes(ExtentGeometry::kRecordBytes);
  codec.encode_record(record(), 10, bytes);
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    CHECK_FALSE(codec.parse_record(bytes, 10, 77));
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
  }
  CHECK(codec.parse_record(bytes, 10, 77));

  std::vector<std::byte> header(32);
  codec.encode_header(4, 77, header);
  CHECK(codec.parse_header(4, header) == 77);
  CHECK_FALSE(codec.parse_header(5, header));
  for (std::size_t bit = 0; bit < header.size() * 8; ++bit) {
    header[bit / 8] ^= std::byte{1} << (bit % 8);
    CHECK_FALSE(codec.parse_header(4, header));
    header[bit / 8] ^= std::byte{1} << (bit % 8);
  }
}

TEST_CASE("a superblock is ours, damaged, of another version, foreign, or nothing", "[extent]") {
  Superblock written;
  written.row_bytes = 4096;
  written.num_segments = 9;
  SuperblockBlock block{};
  Superblock read;
  CHECK(parse_superblock(block, read) == SuperblockParse::zeros);
  encode_superblock(written, block);
  REQUIRE(parse_superblock(block, read) == SuperblockParse::ok);
  CHECK(read.num_segments == 9);
  block[40] ^= std::byte{1};
  CHECK(parse_superblock(block, read) == SuperblockParse::damaged);
  block[40] ^= std::byte{1};
  block[8] = std::byte{2};
  CHECK(parse_superblock(block, read) == SuperblockParse::unknown_version);
  CHECK(read.version == 2);
  block[0] = std::byte{'X'};
  CHECK(parse_superblock(block, read) == SuperblockParse::foreign);
}

TEST_CASE("nothing overlaps in a file, at any size", "[extent]") {
  const std::uint64_t row = GENERATE(4096U, 65536U, 2U << 20, 64U << 20);
  const std::uint64_t capacity = row * GENERATE(9U, 64U, 1000U, 100'000U);
  const auto g = ExtentGeometry::make(capacity, 0, row);
  INFO("row " << row << " capacity " << capacity);
  if (!g) {
    CHECK(g.error().detail.find("capacity_bytes") == 0);
    return;
  }
  CHECK(g->num_segments >= ExtentGeometry::kSegmentsMin);
  CHECK(g->recency_at >= 8192);
  CHECK(g->hot_at == g->recency_at + 2 * g->recency_bytes);
  CHECK(g->data_at == g->hot_at + g->hot_bytes);
  const auto last = static_cast<std::uint32_t>(g->num_slots() - 1);
  CHECK(g->row_at(last) + row <= capacity);
  CHECK(g->row_at(0) == g->data_at + g->table_bytes);
  CHECK(ExtentGeometry::record_offset(g->slots_per_segment - 1) + 128 <= g->table_bytes);
  for (const std::uint64_t at : {g->recency_at, g->hot_at, g->data_at, g->row_at(last), g->stride})
    CHECK(at % 4096 == 0);
  // What is not rows: 3.2 % at 4 KiB, and less than a segment at the end.
  const double overhead = 1 - static_cast<double>(g->num_slots() * row) /
                                  static_cast<double>(g->num_segments * g->stride);
  if (g->slots_per_segment >= 100) CHECK(overhead <= 0.034);
}

TEST_CASE("a capacity without room for four segments is refused with the range", "[extent]") {
  const auto g = ExtentGeometry::make(3U << 20, 1U << 20, 4096);
  REQUIRE_FALSE(g);
  CHECK(g.error().detail ==
        "capacity_bytes: 3 MiB is not allowed; expected a whole number of bytes, KiB, MiB, GiB or "
        "TiB "
        "in [4260 KiB, 16960 GiB]: at least 4 segments with their tables (a smaller segment_bytes "
        "needs "
        "less), fewer than 2^32 - 2 rows");
  CHECK(ExtentGeometry::make(4260U << 10, 1U << 20, 4096)->num_segments == 4);
}

TEST_CASE(
    "every capacity in the range that messages name has its four segments, none beside it has",
    "[extent]") {
  const std::uint64_t row = GENERATE(4096U, 8192U, 12288U, 65536U, 2U << 20, 300U << 20);
  const std::uint64_t segment =
      GENERATE(as<std::uint64_t>(), 0U, 4096U, 100'000U, 1U << 20, 1U << 30);
  const auto range = ExtentGeometry::capacity_range(segment, row);
  CAPTURE(row, segment, range.min, range.max);
  REQUIRE(range.min < range.max);
  CHECK_FALSE(ExtentGeometry::make(range.min - 1, segment, row));
  CHECK_FALSE(ExtentGeometry::make(range.max + 1, segment, row));
  std::uint64_t refused = 0;
  const auto look = [&](std::uint64_t capacity) {
    const auto g = ExtentGeometry::make(capacity, segment, row);
    if (!g || g->num_segments < ExtentGeometry::kSegmentsMin ||
        g->segment_at(g->num_segments) > capacity || g->num_slots() >= 0xffff'fffeU)
      if (refused++ == 0) UNSCOPED_INFO("first at " << capacity);
  };
  for (std::uint64_t step = 0; step < 2000; ++step) look(range.min + step * 4096);
  for (std::uint64_t capacity = range.min; capacity < range.max; capacity += capacity / 7)
    look(capacity);
  look(range.max);
  CHECK(refused == 0);
}

}  // namespace
}  // namespace kv_offload
