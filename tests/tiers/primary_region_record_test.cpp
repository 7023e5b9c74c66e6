#include "kv_offload/tiers/primary/region_record.hpp"

#include <catch2/catch.hpp>

#include <array>
#include <cstring>
#include <functional>
#include <sys/wait.h>
#include <unistd.h>

namespace kv_offload::test {
namespace {

RegionRecord a_record() {
  RegionRecord r;
  r.engine_id = "engine-7";
  r.owner = {4711, 123456, "0f0f-boot"};
  r.num_chunks = 100;
  r.chunk_bytes = 5000;
  r.row_bytes = 8192;
  r.world_size = 4;
  r.blocks_per_chunk = 2;
  r.layout = ChunkLayout::canonical;
  r.namespace_collapsed = true;
  r.fingerprint = "model/abc";
  r.revision = "rev-1";
  return r;
}

bool same(const RegionRecord& a, const RegionRecord& b) {
  return encode_record(a) == encode_record(b);
}

struct Page {
  alignas(8) std::array<std::byte, kRegionHeaderBytes> bytes{};
  explicit Page(bool ready = true) {
    begin_header(bytes.data(), region_file_bytes(8192, 100, 4096));
    if (ready) publish_record(bytes.data(), a_record());
  }
};

TEST_CASE("a record is read as it was written", "[primary][unit]") {
  const auto read = parse_record(encode_record(a_record()));
  REQUIRE(read);
  CHECK(same(*read, a_record()));
  CHECK(read->owner == a_record().owner);
  CHECK(read->layout == ChunkLayout::canonical);
  CHECK(read->namespace_collapsed);
  CHECK(read->revision == "rev-1");
}

TEST_CASE("a record that is cut anywhere, or too long, is none", "[primary][unit]") {
  auto bytes = encode_record(a_record());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    CAPTURE(size);
    CHECK_FALSE(parse_record(std::span(bytes).first(size)));
  }
  bytes.push_back(std::byte{0});
  CHECK_FALSE(parse_record(bytes));
}

TEST_CASE("a record that no region has is refused by its field", "[primary][unit]") {
  struct Case {
    std::function<void(RegionRecord&)> change;
    std::string says;
  };
  const auto c = GENERATE(values<Case>({
      {[](RegionRecord& r) { r.engine_id.clear(); }, "engine_id: is empty"},
      {[](RegionRecord& r) { r.engine_id.assign(257, 'x'); },
       "engine_id: 257 bytes; expected at most 256"},
      {[](RegionRecord& r) { r.fingerprint.assign(513, 'x'); }, "fingerprint: 513 bytes"},
      {[](RegionRecord& r) { r.revision.assign(513, 'x'); }, "revision: 513 bytes"},
      {[](RegionRecord& r) { r.num_chunks = 0; }, "num_chunks: 0"},
      {[](RegionRecord& r) { r.num_chunks = kNoChunk; }, "num_chunks: 4294967295"},
      {[](RegionRecord& r) { r.chunk_bytes = 0; }, "chunk_bytes: 0"},
      {[](RegionRecord& r) { r.row_bytes = 5000; },
       "row_bytes: 5000; expected chunk_bytes 5000 rounded up to 4096"},
      {[](RegionRecord& r) { r.row_bytes = 4096; }, "row_bytes: 4096"},
      {[](RegionRecord& r) { r.row_bytes = 12288; }, "row_bytes: 12288"},
      {[](RegionRecord& r) { r.chunk_bytes = r.row_bytes = 1ULL << 62; },
       "exceed the address space"},
      {[](RegionRecord& r) { r.world_size = 0; }, "world_size: 0; expected 1 to 1024"},
      {[](RegionRecord& r) { r.world_size = 1025; }, "world_size: 1025"},
      {[](RegionRecord& r) { r.blocks_per_chunk = 0; }, "blocks_per_chunk: 0"},
  }));
  auto record = a_record();
  c.change(record);
  const auto error = check_record(record);
  REQUIRE(error);
  INFO(error->detail);
  CHECK(error->detail.find(c.says) != std::string::npos);
  CHECK(error->detail.find('\n') == std::string::npos);
}

TEST_CASE("what a joiner insists on is compared field by field", "[primary][unit]") {
  CHECK_FALSE(check_expectation(a_record(), {}));  // takes what it finds
  RegionExpectation all{"engine-7", 5000, 4, 2, ChunkLayout::canonical, "model/abc", "rev-1"};
  CHECK_FALSE(check_expectation(a_record(), all));
  struct Case {
    std::function<void(RegionExpectation&)> change;
    std::string says;
  };
  const auto c = GENERATE(values<Case>({
      {[](RegionExpectation& e) { e.engine_id = "other"; },
       "engine_id: found \"engine-7\", expected \"other\""},
      {[](RegionExpectation& e) { e.chunk_bytes = 4096; },
       "chunk_bytes: found 5000, expected 4096"},
      {[](RegionExpectation& e) { e.world_size = 8; }, "world_size: found 4, expected 8"},
      {[](RegionExpectation& e) { e.blocks_per_chunk = 1; },
       "blocks_per_chunk: found 2, expected 1"},
      {[](RegionExpectation& e) { e.layout = ChunkLayout::sharded; },
       "layout: found \"canonical\", expected \"sharded\""},
      {[](RegionExpectation& e) { e.fingerprint = "model/xyz"; },
       "fingerprint: found \"model/abc\", expected \"model/xyz\""},
      {[](RegionExpectation& e) { e.revision = "rev-2"; },
       "revision: found \"rev-1\", expected \"rev-2\""},
      {[](RegionExpectation& e) { e.revision = ""; }, "revision: found \"rev-1\", expected \"\""},
  }));
  c.change(all);
  const auto error = check_expectation(a_record(), all);
  REQUIRE(error);
  CHECK(error->detail == "region: " + c.says);
}

TEST_CASE("a first page counts once its owner says so, and changes as a whole", "[primary][unit]") {
  Page page(false);
  auto header = parse_header(page.bytes);
  REQUIRE(header);
  CHECK_FALSE(header->ready);
  CHECK_FALSE(header->record);
  prepare_record(page.bytes.data(), a_record());
  header = parse_header(page.bytes);
  REQUIRE(header);
  CHECK_FALSE(header->ready);
  REQUIRE(header->record);  // whose it will be
  CHECK(header->record->owner.pid == 4711);
  auto record = a_record();
  for (int i = 0; i < 5; ++i) {
    record.revision = "rev-" + std::to_string(i);
    publish_record(page.bytes.data(), record);
    header = parse_header(page.bytes);
    REQUIRE(header);
    CHECK(header->ready);
    CHECK(header->record->revision == record.revision);
  }
}

TEST_CASE("a damaged first page is an error, whatever is damaged", "[primary][unit]") {
  REQUIRE(parse_header(Page().bytes));
  struct Case {
    std::size_t at;
    std::string says;
  };
  const auto c = GENERATE(values<Case>({
      {0, "does not begin with KVOREGN"},
      {8, "version: found"},
      {12, "counts; expected 0, 1 or 2"},
      {16, "file_bytes: found"},
      {24, "rows_offset: found"},
      {256, "the checksum of its record is wrong"},
      {258, "expected at most 1904"},
      {260, "expected at most"},
      {264, "the checksum of its record is wrong"},
      {272, "the checksum of its record is wrong"},
      {290, "the checksum of its record is wrong"},
  }));
  CAPTURE(c.at);
  Page page;
  page.bytes[c.at] = c.at == 16 ? std::byte{0} : page.bytes[c.at] ^ std::byte{0x54};
  if (c.at == 16) page.bytes[17] = page.bytes[18] = page.bytes[19] = std::byte{0};
  const auto header = parse_header(page.bytes);
  REQUIRE_FALSE(header);
  INFO(header.error().detail);
  CHECK(header.error().detail.find(c.says) != std::string::npos);
}

TEST_CASE("the last rank to join is told so", "[primary][unit]") {
  Page page;
  for (std::uint32_t rank = 0; rank < 130; ++rank) {
    CHECK_FALSE(all_joined(page.bytes, 130));
    CHECK(mark_joined(page.bytes.data(), rank, 130) == (rank == 129));
    if (rank < 129) CHECK_FALSE(mark_joined(page.bytes.data(), rank, 130));  // twice is once
  }
  CHECK(all_joined(page.bytes, 130));
}

TEST_CASE("a process is marked by more than its number", "[primary][unit]") {
  const auto mine = mark_of_this_process();
  CHECK(mine.pid == ::getpid());
  CHECK(mine.start_ticks > 0);
  CHECK(mine.boot_id.size() == 36);
  CHECK(mark_of_process(::getpid()) == mine);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  const auto its = mark_of_process(child);  // a zombie has one too
  ::waitpid(child, nullptr, 0);
  REQUIRE(its);
  CHECK(*its != mine);
  CHECK_FALSE(mark_of_process(child));
}

}  // namespace
}  // namespace kv_offload::test
