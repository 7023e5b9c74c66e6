// What an obj tier remembers: verdicts and objects.
#include "kv_offload/tests/support/tier_memory.hpp"
#include "kv_offload/tiers/obj/object_index.hpp"
#include "kv_offload/tiers/obj/verdict_cache.hpp"

#include <catch2/catch.hpp>

#include <random>

namespace kv_offload {
namespace {

using namespace std::chrono_literals;
using test::tier_key;
using test::tier_keys;

TEST_CASE("a verdict holds for the time of its kind", "[obj]") {
  VerdictCache cache(10, 10s, 2s);
  const MonotonicTime t0{};
  CHECK_FALSE(cache.find(tier_key(1), t0).has_value());
  cache.put(tier_key(1), true, t0);
  cache.put(tier_key(2), false, t0);
  CHECK(cache.find(tier_key(1), t0 + 9s) == true);
  CHECK(cache.find(tier_key(2), t0 + 1s) == false);
  CHECK_FALSE(cache.find(tier_key(2), t0 + 2s).has_value());
  CHECK_FALSE(cache.find(tier_key(1), t0 + 10s).has_value());
  cache.put(tier_key(1), false, t0 + 5s);  // the latest counts
  CHECK(cache.find(tier_key(1), t0 + 5s) == false);
  cache.erase(tier_key(1));
  CHECK_FALSE(cache.find(tier_key(1), t0 + 5s).has_value());
  cache.put(tier_key(3), true, t0);
  cache.clear();
  CHECK(cache.size() == 0);
  VerdictCache forgetful(10, 10s, 0s);
  forgetful.put(tier_key(1), false, t0);
  CHECK_FALSE(forgetful.find(tier_key(1), t0).has_value());
}

TEST_CASE("verdicts are bounded, and what was seen again stays longest", "[obj]") {
  VerdictCache cache(3, 1h, 1h);
  const MonotonicTime t0{};
  for (std::uint64_t name = 0; name < 3; ++name) cache.put(tier_key(name), true, t0);
  cache.put(tier_key(0), true, t0);
  cache.put(tier_key(3), true, t0);
  CHECK(cache.size() == 3);
  CHECK(cache.find(tier_key(0), t0).has_value());
  CHECK_FALSE(cache.find(tier_key(1), t0).has_value());
}

TEST_CASE("verdicts of few keys, put again and again, do not fill the memory with order", "[obj]") {
  const std::uint64_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  VerdictCache cache(8, 1h, 1h);
  for (int i = 0; i < 20'000; ++i) {
    const std::uint64_t name = random() % 12;
    if (random() % 5 == 0) cache.erase(tier_key(name));
    cache.put(tier_key(name), i % 2 == 0, {});
    REQUIRE(cache.size() <= 8);
    // The one that was put last is always known.
    REQUIRE(cache.find(tier_key(name), {}) == (i % 2 == 0));
  }
}

std::vector<OffloadKey> coldest(const ObjectIndex& index, std::uint64_t bytes,
                                std::size_t keys_max = 100) {
  return index.coldest(bytes, keys_max, [](const OffloadKey&) { return true; });
}

TEST_CASE("objects are known with their bytes, in the order of their use", "[obj]") {
  ObjectIndex index(100);
  for (std::uint64_t name = 1; name <= 3; ++name) index.put(tier_key(name), 10 * name, 1);
  index.put_coldest(tier_key(9), 5, 1);
  index.touch(tier_key(1));
  index.touch(tier_key(77));  // nobody
  CHECK(index.size() == 4);
  CHECK(index.bytes() == 65);
  CHECK(index.bytes_of(tier_key(3)) == 30);
  CHECK(index.bytes_of(tier_key(77)) == 0);
  CHECK(coldest(index, 1000) == std::vector{tier_key(9), tier_key(2), tier_key(3), tier_key(1)});
  // As many as it takes, and no more.
  CHECK(coldest(index, 5) == std::vector{tier_key(9)});
  CHECK(coldest(index, 6) == std::vector{tier_key(9), tier_key(2)});
  CHECK(coldest(index, 1000, 1) == std::vector{tier_key(9)});
  CHECK(coldest(index, 0).empty());
  CHECK(index.coldest(1, 100, [](const OffloadKey& key) { return key == tier_key(3); }) ==
        std::vector{tier_key(3)});
  index.put(tier_key(2), 7, 1);  // another length, and used
  CHECK(index.bytes() == 52);
  CHECK(coldest(index, 1000).back() == tier_key(2));
  index.put_coldest(tier_key(2), 8, 1);  // known: stays where it is
  CHECK(index.bytes() == 53);
  CHECK(coldest(index, 1000).back() == tier_key(2));
  index.erase(tier_key(2));
  index.erase(tier_key(2));
  CHECK(index.bytes() == 45);
  CHECK_FALSE(index.contains(tier_key(2)));
  index.clear();
  CHECK(index.size() == 0);
  CHECK(index.bytes() == 0);
}

TEST_CASE("the index of objects is bounded: the coldest is not known any more", "[obj]") {
  ObjectIndex index(2);
  index.put(tier_key(1), 1, 1);
  index.put(tier_key(2), 1, 1);
  index.put(tier_key(3), 1, 1);
  CHECK_FALSE(index.contains(tier_key(1)));
  index.put_coldest(tier_key(4), 1, 1);
  CHECK_FALSE(index.contains(tier_key(4)));
  CHECK(index.dropped() == 2);
  CHECK(index.size() == 2);
  CHECK(index.bytes() == 2);
}

TEST_CASE("what a listing did not bring is forgotten, what came meanwhile is not", "[obj]") {
  ObjectIndex index(100);
  index.put(tier_key(1), 1, 1);
  index.put(tier_key(2), 1, 1);
  index.put(tier_key(3), 1, 2);          // stored while the second listing ran
  index.put_coldest(tier_key(1), 1, 2);  // listed
  CHECK(index.keep_since(2) == 1);
  CHECK_FALSE(index.contains(tier_key(2)));
  CHECK(index.contains(tier_key(1)));
  CHECK(index.contains(tier_key(3)));
  CHECK(index.bytes() == 2);
}

}  // namespace
}  // namespace kv_offload
