#include "kv_offload/tiers/extent/extent_index.hpp"

#include "kv_offload/tests/support/tier_memory.hpp"

#include <catch2/catch.hpp>

#include <map>
#include <random>

namespace kv_offload {
namespace {

using test::tier_key;

ChunkDigest digest_of(std::uint64_t n) {
  ChunkDigest digest;
  digest.value.fill(static_cast<std::byte>(n));
  return digest;
}

TEST_CASE("the index agrees with a plain map through random changes, also when it is full",
          "[extent]") {
  const auto seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  constexpr std::uint32_t kSlots = 97;
  ExtentIndex index(kSlots);
  std::map<std::uint64_t, std::uint32_t> model;  // name -> slot
  std::map<std::uint32_t, std::uint64_t> by_slot;
  const auto free_slot = [&]() -> std::optional<std::uint32_t> {
    for (std::uint32_t i = 0, at = static_cast<std::uint32_t>(random() % kSlots); i < kSlots; ++i)
      if (const std::uint32_t slot = (at + i) % kSlots; !by_slot.contains(slot)) return slot;
    return std::nullopt;
  };
  for (int step = 0; step < 20'000; ++step) {
    const std::uint64_t name = random() % 150;
    const KeyHash hash = key_hash(1, tier_key(name));
    switch (random() % 5) {
      case 0:
      case 1:
      case 2:
        if (const auto slot = free_slot()) {
          const bool is_new = !model.contains(name);
          REQUIRE(index.insert(hash, digest_of(name), *slot) == is_new);
          if (is_new) model[name] = *slot, by_slot[*slot] = name;
        }
        break;
      case 3: {
        const auto slot = static_cast<std::uint32_t>(random() % kSlots);
        REQUIRE(index.erase(slot) == by_slot.contains(slot));
        if (by_slot.contains(slot)) model.erase(by_slot[slot]), by_slot.erase(slot);
        break;
      }
      default:
        if (const auto to = free_slot(); to && model.contains(name)) {
          const std::uint32_t from = model[name];
          index.count_use(from);
          index.move(from, *to);
          REQUIRE(index.uses(*to) == 0);
          by_slot.erase(from);
          model[name] = *to;
          by_slot[*to] = name;
        }
    }
    REQUIRE(index.size() == model.size());
    const auto found = index.find(hash);
    REQUIRE(found.has_value() == model.contains(name));
    if (found) REQUIRE(*found == model[name]);
    if (found) REQUIRE(index.digest(*found) == digest_of(name));
  }
  for (const auto& [name, slot] : model) CHECK(index.find(key_hash(1, tier_key(name))) == slot);
  CHECK_FALSE(index.find(key_hash(2, tier_key(model.begin()->first))));  // another namespace
}

TEST_CASE("uses are counted up to their bound", "[extent]") {
  ExtentIndex index(4);
  REQUIRE(index.insert(key_hash(1, tier_key(0)), digest_of(0), 2));
  for (int i = 0; i < 10; ++i) index.count_use(2);
  CHECK(index.uses(2) == ExtentIndex::kUsesMax);
  CHECK(index.is_used(2));
  CHECK_FALSE(index.is_used(1));
}

TEST_CASE("a chunk costs less than 96 bytes of memory, whatever its key", "[extent]") {
  const ExtentIndex index(100'000);
  CHECK(static_cast<double>(index.bytes()) / 100'000 <= 39);
}

}  // namespace
}  // namespace kv_offload
