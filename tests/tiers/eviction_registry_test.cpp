#include "kv_offload/tiers/eviction/eviction_registry.hpp"

#include "kv_offload/tiers/eviction/lru_policy.hpp"

#include <catch2/catch.hpp>

#include <stdexcept>

namespace kv_offload::test {
namespace {

EvictionPolicyRegistry::Factory lru_factory() {
  return
      [](ChunkId n) -> std::unique_ptr<EvictionPolicy> { return std::make_unique<LruPolicy>(n); };
}

TEST_CASE("built-in eviction policies are found by name", "[eviction][unit]") {
  const EvictionPolicyRegistry registry;
  CHECK(registry.names() == std::vector<std::string>{"arc", "lru", "s3fifo"});
  for (const auto& name : registry.names()) {
    auto policy = registry.make(name, 4);
    REQUIRE(policy.has_value());
    CHECK((*policy)->name() == name);
  }
}

TEST_CASE("an unknown eviction policy is an error that lists the known ones", "[eviction][unit]") {
  const EvictionPolicyRegistry registry;
  const auto got = registry.make("fifo", 4);
  REQUIRE_FALSE(got.has_value());
  CHECK(got.error().code == OffloadErrc::invalid_config);
  CHECK(got.error().detail ==
        "eviction_policy: \"fifo\" is not known; expected one of: arc, lru, s3fifo");
}

TEST_CASE("an eviction policy from outside is registered once", "[eviction][unit]") {
  EvictionPolicyRegistry registry;
  REQUIRE(registry.register_policy("mine", lru_factory()).has_value());
  CHECK(registry.make("mine", 4).has_value());
  const auto again = registry.register_policy("mine", lru_factory());
  REQUIRE_FALSE(again.has_value());
  CHECK(again.error().detail == "eviction_policy: \"mine\" is registered already");
  CHECK_FALSE(registry.register_policy("lru", lru_factory()).has_value());
  CHECK_FALSE(registry.register_policy("", lru_factory()).has_value());
  CHECK_FALSE(registry.register_policy("empty", {}).has_value());
  CHECK(registry.names().size() == 4);
}

TEST_CASE("a factory that throws or returns nothing is an error, not a crash", "[eviction][unit]") {
  EvictionPolicyRegistry registry;
  REQUIRE(registry.register_policy("throws", [](ChunkId) -> std::unique_ptr<EvictionPolicy> {
    throw std::runtime_error("no memory for me");
  }));
  REQUIRE(
      registry.register_policy("odd", [](ChunkId) -> std::unique_ptr<EvictionPolicy> { throw 1; }));
  REQUIRE(registry.register_policy(
      "null", [](ChunkId) -> std::unique_ptr<EvictionPolicy> { return nullptr; }));
  CHECK(registry.make("throws", 1).error().detail.find("no memory for me") != std::string::npos);
  CHECK_FALSE(registry.make("odd", 1).has_value());
  CHECK_FALSE(registry.make("null", 1).has_value());
}

TEST_CASE("the process has one registry of eviction policies", "[eviction][unit]") {
  CHECK(&eviction_policies() == &eviction_policies());
  CHECK(eviction_policies().make("lru", 1).has_value());
}

}  // namespace
}  // namespace kv_offload::test
