#include "kv_offload/messages/offload_key.hpp"

#include "kv_offload/messages/ids.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <set>
#include <unordered_set>

using namespace kv_offload;

namespace {

std::vector<std::byte> hash_of(std::size_t size, unsigned fill = 7) {
  return std::vector<std::byte>(size, static_cast<std::byte>(fill));
}
OffloadKey key_of(std::initializer_list<unsigned> raw) {
  std::vector<std::byte> bytes;
  for (const unsigned b : raw) bytes.push_back(static_cast<std::byte>(b));
  return *OffloadKey::from_bytes(bytes);
}

}  // namespace

TEST_CASE("the group follows the hash as four bytes, big end first", "[messages][unit]") {
  const auto key = OffloadKey::make(hash_of(3, 0xab), 0x01020304);
  REQUIRE(key);
  CHECK(to_hex(key->bytes()) == "ababab01020304");
  CHECK(to_hex(key->content_hash()) == "ababab");
  CHECK(key->group_idx() == 0x01020304);
  CHECK(to_string(*key) == "ababab/g16909060");
}

TEST_CASE("raw bytes and parts make the same key", "[messages][unit]") {
  const std::size_t size = GENERATE(1U, 8U, 20U, 32U, 63U, 64U);
  const std::uint32_t group = GENERATE(0U, 1U, 255U, 0xffffffffU);
  const auto made = OffloadKey::make(hash_of(size), group);
  REQUIRE(made);
  const auto adopted = OffloadKey::from_bytes(made->bytes());
  REQUIRE(adopted);
  CHECK(*adopted == *made);
  CHECK(adopted->hash() == made->hash());
  CHECK(adopted->group_idx() == group);
  CHECK(adopted->content_hash().size() == size);
}

TEST_CASE("hashes of 1 to 64 bytes are keys, others are not", "[messages][unit]") {
  CHECK_FALSE(OffloadKey::make(hash_of(0), 1));
  CHECK(OffloadKey::make(hash_of(1), 1));
  CHECK(OffloadKey::make(hash_of(64), 1));
  CHECK_FALSE(OffloadKey::make(hash_of(65), 1));
  CHECK_FALSE(OffloadKey::from_bytes(hash_of(0)));
  CHECK_FALSE(OffloadKey::from_bytes(hash_of(4)));  // a group without a hash
  CHECK(OffloadKey::from_bytes(hash_of(5)));
  CHECK(OffloadKey::from_bytes(hash_of(68)));
  CHECK_FALSE(OffloadKey::from_bytes(hash_of(69)));
}

TEST_CASE("a default key is empty and harmless", "[messages][unit]") {
  const OffloadKey empty;
  CHECK(empty.empty());
  CHECK(empty.content_hash().empty());
  CHECK(empty.group_idx() == 0);
  CHECK(empty == OffloadKey());
  CHECK_FALSE(empty == *OffloadKey::make(hash_of(1), 0));
}

TEST_CASE("keys differ if any byte, the length or the group differs", "[messages][unit]") {
  const auto base = hash_of(32);
  const auto key = *OffloadKey::make(base, 5);
  for (std::size_t i = 0; i < base.size(); ++i) {
    auto other = base;
    other[i] ^= std::byte{1};
    CHECK_FALSE(*OffloadKey::make(other, 5) == key);
    CHECK(OffloadKey::make(other, 5)->hash() != key.hash());
  }
  CHECK_FALSE(*OffloadKey::make(base, 6) == key);
  CHECK(OffloadKey::make(base, 6)->hash() != key.hash());
  CHECK_FALSE(*OffloadKey::make(hash_of(31), 5) == key);
}

TEST_CASE("order is by bytes, a prefix comes first", "[messages][unit]") {
  const auto a = key_of({1, 0, 0, 0, 0});
  const auto b = key_of({1, 0, 0, 0, 0, 0});
  const auto c = key_of({1, 0, 0, 0, 1});
  const auto d = key_of({200, 0, 0, 0, 0});  // unsigned comparison
  std::vector<OffloadKey> keys = {d, c, b, a};
  std::sort(keys.begin(), keys.end());
  CHECK(keys == std::vector<OffloadKey>{a, b, c, d});
  CHECK((a <=> a) == std::strong_ordering::equal);
}

TEST_CASE("the hash is the same in every process", "[messages][unit]") {
  // home(key) is decided by it: a change would move keys between domains that share memory.
  CHECK(OffloadKey::make(hash_of(32, 0), 0)->hash() == OffloadKey::make(hash_of(32, 0), 0)->hash());
  CHECK(key_of({1, 2, 3, 4, 5, 6, 7, 8, 9}).hash() == 0x1652c2d41625f454ULL);
}

TEST_CASE("the hash spreads keys evenly over domains", "[messages][unit]") {
  constexpr DomainId kDomains = 8;
  std::array<int, kDomains> count{};
  std::unordered_set<std::uint64_t> hashes;
  for (std::uint32_t i = 0; i < 8000; ++i) {
    auto hash = hash_of(32, 0);  // keys that differ in two bytes only
    hash[0] = static_cast<std::byte>(i & 255U);
    hash[1] = static_cast<std::byte>(i >> 8);
    const auto key = *OffloadKey::make(hash, 0);
    hashes.insert(key.hash());
    ++count[home(key.hash(), kDomains)];
  }
  CHECK(hashes.size() == 8000);
  for (const int n : count) CHECK(std::abs(n - 1000) < 150);  // five standard deviations
}

TEST_CASE("keys work in ordered and unordered containers", "[messages][unit]") {
  std::set<OffloadKey> ordered;
  std::unordered_set<OffloadKey> unordered;
  for (unsigned i = 0; i < 100; ++i) {
    const auto key = *OffloadKey::make(hash_of(16, i % 50), i % 2);
    ordered.insert(key);
    unordered.insert(key);
  }
  CHECK(ordered.size() == 50);
  CHECK(unordered.size() == 50);
}
