#include "kv_offload/bench/device.hpp"

#include <catch2/catch.hpp>

#include <set>
#include <string>
#include <vector>

using namespace kv_offload;
using namespace kv_offload::bench;

namespace {

std::vector<std::byte> contents(std::size_t size, const OffloadKey& key) {
  std::vector<std::byte> bytes(size, std::byte{0xee});
  fill_chunk(bytes, key);
  return bytes;
}

}  // namespace

TEST_CASE("a chunk filled for a key verifies for that key and no other", "[bench][unit]") {
  const auto size = GENERATE(std::size_t{1}, std::size_t{7}, std::size_t{8}, std::size_t{9},
                             std::size_t{4096}, std::size_t{5001}, std::size_t{65536});
  CAPTURE(size);
  const auto mine = contents(size, chunk_key(1));
  CHECK(verify_chunk(mine, chunk_key(1)));
  CHECK(verify_chunk(mine, chunk_key(1), Verify::sample));
  CHECK_FALSE(verify_chunk(mine, chunk_key(2)));
  CHECK_FALSE(verify_chunk(mine, chunk_key(2), Verify::sample));
  CHECK(verify_chunk(mine, chunk_key(2), Verify::none));
}

TEST_CASE("any flipped byte is found by a full comparison", "[bench][unit]") {
  constexpr std::size_t kSize = 4096 + 5;
  auto bytes = contents(kSize, chunk_key(9));
  for (std::size_t at = 0; at < kSize; ++at) {
    bytes[at] ^= std::byte{0x10};
    if (verify_chunk(bytes, chunk_key(9))) FAIL("byte " << at << " flipped unnoticed");
    bytes[at] ^= std::byte{0x10};
  }
  CHECK(verify_chunk(bytes, chunk_key(9)));
}

TEST_CASE("a sampled comparison finds both ends and chunks that are wrong throughout",
          "[bench][unit]") {
  auto bytes = contents(4096, chunk_key(3));
  bytes.front() ^= std::byte{1};
  CHECK_FALSE(verify_chunk(bytes, chunk_key(3), Verify::sample));
  bytes.front() ^= std::byte{1};
  bytes.back() ^= std::byte{1};
  CHECK_FALSE(verify_chunk(bytes, chunk_key(3), Verify::sample));
  CHECK_FALSE(verify_chunk(std::vector<std::byte>(4096), chunk_key(3), Verify::sample));
}

TEST_CASE("filling writes every byte of the chunk and none behind it", "[bench][unit]") {
  std::vector<std::byte> bytes(64, std::byte{0x5a});
  fill_chunk(std::span(bytes).first(61), chunk_key(4));
  CHECK(bytes[61] == std::byte{0x5a});
  CHECK(verify_chunk(std::span(bytes).first(61), chunk_key(4)));
}

TEST_CASE("chunk keys differ, repeat, and carry 32 hash bytes of group 0", "[bench][unit]") {
  std::set<std::string> seen;
  for (std::uint64_t i = 0; i < 10000; ++i) seen.insert(to_string(chunk_key(i)));
  CHECK(seen.size() == 10000);
  CHECK(chunk_key(77) == chunk_key(77));
  CHECK(chunk_key(77).content_hash().size() == 32);
  CHECK(chunk_key(77).group_idx() == 0);
}
