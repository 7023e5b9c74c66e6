#include "kv_offload/tests/support/tier_memory.hpp"
#include "kv_offload/tiers/eviction/ghost_list.hpp"
#include "kv_offload/tiers/fs/fs_residency.hpp"

#include <catch2/catch.hpp>
#include <malloc.h>

#include <array>
#include <cstring>

namespace kv_offload {
namespace {

/// Bytes that the allocator has given out.
std::size_t bytes_in_use() {
  const struct mallinfo2 info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

OffloadKey numbered(std::uint64_t name) {
  std::array<std::byte, 32> hash{};
  const std::uint64_t mixed = (name + 1) * 0x9e3779b97f4a7c15ULL;
  std::memcpy(hash.data(), &mixed, sizeof mixed);
  return *OffloadKey::make(hash, 0);
}

// 10^7 chunks take too long for every run; the sizes below stand to the hash table's power of two as
// 10^7 does, so that the bytes per chunk are the same.
TEST_CASE("a known chunk of 36 key bytes takes at most 96 bytes besides ghosts, under every policy",
          "[fs][capacity][unit]") {
  const auto policy = GENERATE(as<std::string>{}, "lru", "arc", "s3fifo");
  const bool is_full_size = std::getenv("KV_OFFLOAD_TEST_FULL_SIZE") != nullptr;
  const ChunkId count = is_full_size ? 10'000'000 : 10'000'000 / 32;
  const std::size_t before = bytes_in_use();
  std::size_t ghosts = 0;
  if (policy != "lru") {
    const GhostList list(policy == "arc" ? count : count - count / 10);
    ghosts = bytes_in_use() - before;
    if (policy == "arc") ghosts *= 2;  // two lists
  }
  auto index = std::move(FsResidency::make({policy, count})).value();
  for (ChunkId i = 0; i < count; ++i) index->insert_cold(numbered(i), 65536, i + 1, false);
  const auto per_chunk = static_cast<double>(bytes_in_use() - before - ghosts) / count;
  const auto per_ghost = static_cast<double>(ghosts) / count;
  INFO(policy << ": " << per_chunk << " bytes per cold chunk, " << per_ghost
              << " of ghosts per chunk of capacity");
  CHECK(per_chunk <= 96);
  CHECK(per_ghost <= 64);
  for (ChunkId i = 0; i < count; ++i) index->touch(i, 2ULL * count + i);
  CHECK_FALSE(index->oldest_cold().has_value());
  const auto used = static_cast<double>(bytes_in_use() - before - ghosts) / count;
  INFO(used << " bytes per chunk in use");
  CHECK(used <= per_chunk);
  if (is_full_size)
    WARN(policy << ": " << per_chunk << " cold, " << used << " in use, " << per_ghost << " ghosts");
}

TEST_CASE("keys of any length keep their bytes when longer ones come", "[fs][capacity][unit]") {
  CompactKeys keys(100);
  std::vector<OffloadKey> set;
  for (ChunkId i = 0; i < 64; ++i) {
    std::array<std::byte, 64> hash{};
    for (std::size_t b = 0; b < hash.size(); ++b) hash[b] = static_cast<std::byte>(i + b);
    set.push_back(*OffloadKey::make(std::span(hash).first(i + 1), i));
    keys.set(i, set.back());
    for (ChunkId j = 0; j <= i; ++j) {
      REQUIRE(keys.get(j) == set[j]);
      REQUIRE(keys.equals(j, set[j]));
    }
    CHECK_FALSE(keys.equals(i, test::tier_key(1)));
  }
}

TEST_CASE("a slot that was removed while pinned is used again only after its pins",
          "[fs][capacity][unit]") {
  auto index = std::move(FsResidency::make({"lru", 2})).value();
  const ChunkId a = index->insert_used(test::tier_key(1), 4096, 1);
  index->pin(a);
  index->pin(a);
  CHECK_FALSE(index->take_victim().has_value());
  index->remove(a);
  CHECK(index->find(test::tier_key(1)) == kNoChunk);
  CHECK(index->bytes() == 0);
  const ChunkId b = index->insert_used(test::tier_key(1), 8192, 2);
  CHECK(b != a);
  CHECK_FALSE(index->has_free_slot());
  index->unpin(a);
  CHECK_FALSE(index->has_free_slot());
  index->unpin(a);
  CHECK(index->has_free_slot());
  CHECK(index->take_victim() == b);
  CHECK(index->bytes() == 0);
}

}  // namespace
}  // namespace kv_offload
