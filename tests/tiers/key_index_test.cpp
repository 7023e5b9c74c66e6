#include "kv_offload/tiers/eviction/key_index.hpp"

#include "kv_offload/tests/support/tier_memory.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <vector>

namespace kv_offload {
namespace {

using test::tier_key;

OffloadKey key_of_length(std::uint64_t number, std::size_t length) {
  std::vector<std::byte> hash(length);
  std::memcpy(hash.data(), &number, std::min<std::size_t>(sizeof number, length));
  return *OffloadKey::make(hash, 0);
}

std::vector<ChunkId> find_all(const KeyIndex& index, const KeyList& keys) {
  std::vector<ChunkId> found(keys.size(), kNoChunk - 1);
  index.find_all(
      keys, [](ChunkId) {}, [&](std::size_t i, ChunkId chunk) { found[i] = chunk; });
  return found;
}

TEST_CASE("an index full of keys finds each and no other, in batches of any length",
          "[eviction][unit]") {
  constexpr ChunkId kSlots = 1000;
  KeyIndex index(kSlots);
  for (ChunkId slot = 0; slot < kSlots; ++slot) index.insert(tier_key(slot), slot);
  REQUIRE(index.size() == kSlots);
  for (const std::size_t count : {0, 1, 7, 8, 9, 15, 16, 17, 33, 1000}) {
    KeyList keys;
    std::vector<ChunkId> expected;
    for (std::size_t i = 0; i < count; ++i) {
      const bool is_there = i % 3 != 0;
      keys.push_back(tier_key(is_there ? i : 1'000'000 + i));
      expected.push_back(is_there ? static_cast<ChunkId>(i) : kNoChunk);
    }
    CAPTURE(count);
    CHECK(find_all(index, keys) == expected);
    for (std::size_t i = 0; i < count; ++i) CHECK(index.find(keys[i]) == expected[i]);
  }
}

TEST_CASE("an index agrees with a map through a long life of keys of every length",
          "[eviction][unit]") {
  const auto seed = GENERATE(1U, 2U, 3U);
  CAPTURE(seed);
  constexpr ChunkId kSlots = 64;  // full most of the time
  std::mt19937_64 random(seed);
  KeyIndex index(kSlots);
  std::map<OffloadKey, ChunkId> model;
  std::vector<ChunkId> free_slots;
  for (ChunkId slot = kSlots; slot > 0; --slot) free_slots.push_back(slot - 1);
  const auto random_key = [&] {
    const std::uint64_t number = random() % 200;
    return key_of_length(number, 1 + number % OffloadKey::kMaxHashBytes);
  };
  for (int step = 0; step < 50'000; ++step) {
    const OffloadKey key = random_key();
    const auto known = model.find(key);
    REQUIRE(index.find(key) == (known == model.end() ? kNoChunk : known->second));
    if (known != model.end()) {
      if (random() % 2 != 0) continue;
      REQUIRE(index.key_of(known->second) == key);
      index.erase(known->second);
      free_slots.push_back(known->second);
      model.erase(known);
    } else if (!free_slots.empty()) {
      index.insert(key, free_slots.back());
      model.emplace(key, free_slots.back());
      free_slots.pop_back();
    }
    REQUIRE(index.size() == model.size());
    if (step % 10'000 != 9'999) continue;
    index.clear();
    for (const auto& [gone, slot] : model) {
      REQUIRE_FALSE(index.contains(gone));
      free_slots.push_back(slot);
    }
    model.clear();
  }
}

TEST_CASE("a table whose tags collide probes on, around its end, and closes its gaps",
          "[eviction][unit]") {
  const std::uint32_t tag = GENERATE(0U, 0x80000000U, 0xffffffffU);  // the last begins at the end
  constexpr ChunkId kSlots = 40;
  SlotTable table(kSlots);
  const auto find = [&](ChunkId wanted) {
    return table.find(tag, [&](ChunkId slot) { return slot == wanted; });
  };
  for (ChunkId slot = 0; slot < kSlots; ++slot) table.insert(tag, slot);
  for (ChunkId slot = 0; slot < kSlots; ++slot) CHECK(find(slot) == slot);
  CHECK(find(kSlots) == kNoChunk);
  for (ChunkId slot = 0; slot < kSlots; slot += 2) CHECK(table.erase(tag, slot));
  CHECK_FALSE(table.erase(tag, 0));
  for (ChunkId slot = 0; slot < kSlots; ++slot)
    CHECK(find(slot) == (slot % 2 == 0 ? kNoChunk : slot));
  CHECK(table.size() == kSlots / 2);
}

TEST_CASE("keys of neighbouring homes stay reachable whichever goes first", "[eviction][unit]") {
  constexpr ChunkId kSlots = 24;
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    SlotTable table(kSlots);
    std::vector<std::uint32_t> tags(kSlots);
    for (ChunkId slot = 0; slot < kSlots; ++slot) {
      tags[slot] = 0xf0000000U + random() % 0x10000000U;  // crowded about the end of the table
      table.insert(tags[slot], slot);
    }
    std::vector<ChunkId> order(kSlots);
    for (ChunkId slot = 0; slot < kSlots; ++slot) order[slot] = slot;
    std::shuffle(order.begin(), order.end(), random);
    for (std::size_t gone = 0; gone < order.size(); ++gone) {
      REQUIRE(table.erase(tags[order[gone]], order[gone]));
      for (std::size_t i = 0; i < order.size(); ++i) {
        const ChunkId slot = order[i];
        const auto found = table.find(tags[slot], [&](ChunkId s) { return s == slot; });
        REQUIRE(found == (i <= gone ? kNoChunk : slot));
      }
    }
  }
}

}  // namespace
}  // namespace kv_offload
