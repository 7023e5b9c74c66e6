#include "kv_offload/tests/support/tier_directory.hpp"
#include "kv_offload/tests/support/tier_memory.hpp"
#include "kv_offload/tests/support/tier_sink.hpp"
#include "kv_offload/tiers/example/example_tier.hpp"
#include "kv_offload/tiers/secondary_tier_registry.hpp"

#include <catch2/catch.hpp>

#include <cerrno>
#include <numeric>

namespace kv_offload {
namespace {

using test::tier_key;
using test::tier_keys;

TierConfig config(const std::string& type, ConfigNode::Object object = {}) {
  TierConfig tier;
  tier.type = type;
  object.emplace("type", ConfigNode(type));
  tier.node = ConfigNode(std::move(object));
  tier.path = "secondary_tiers[0]";
  return tier;
}
ConfigNode::Object rooted(const std::string& path) {
  ConfigNode::Object object;
  object.emplace("root_dir", ConfigNode(path));
  return object;
}

TEST_CASE("the built-in tiers are there", "[fs][registry]") {
  CHECK(secondary_tiers().types() == std::vector<std::string>{"example", "extent", "fs", "obj"});
}

TEST_CASE("an unknown or missing type is an error that lists the known ones", "[fs][registry]") {
  const auto unknown = secondary_tiers().validate(config("fs_python"));
  REQUIRE(unknown);
  CHECK(unknown->code == OffloadErrc::invalid_config);
  CHECK(
      unknown->detail ==
      "secondary_tiers[0].type: \"fs_python\" is not a tier type; known: example, extent, fs, obj");
  CHECK(secondary_tiers().validate(config(""))->detail ==
        "secondary_tiers[0].type: required, one of: example, extent, fs, obj");
  CHECK_FALSE(secondary_tiers().make(config("fs_python"), {}));
}

TEST_CASE("validation finds wrong parameters and leaves the disk alone", "[fs][registry]") {
  const test::TierDirectory directory;
  CHECK_FALSE(secondary_tiers().validate(config("fs", rooted(directory.path()))));
  CHECK_FALSE(secondary_tiers().validate(config("fs", rooted(directory.path() + "/missing"))));
  CHECK(directory.is_empty());
  CHECK(secondary_tiers().validate(config("fs"))->detail.find("root_dir") != std::string::npos);
  ConfigNode::Object wrong;
  wrong.emplace("nonsense", ConfigNode(true));
  CHECK(secondary_tiers().validate(config("example", wrong))->detail.find("nonsense") !=
        std::string::npos);
  TierConfig bad_identity = config("fs", rooted(directory.path()));
  bad_identity.identity.model_name = "\xff";
  CHECK(secondary_tiers().validate(bad_identity));
}

TEST_CASE("an fs tier is made by name", "[fs][registry]") {
  const test::TierDirectory directory;
  test::TierMemory memory(2, 4096);
  TierEnvironment environment;
  environment.label = "1:fs";
  environment.primary = memory.view();
  auto object = rooted(directory.path());
  object.emplace("locality", ConfigNode(std::string("local")));
  const auto tier = secondary_tiers().make(config("fs", object), environment);
  REQUIRE(tier);
  CHECK((*tier)->traits().type == "fs");
  CHECK((*tier)->traits().medium == Medium::storage);
  CHECK((*tier)->traits().locality == Locality::local);
  CHECK(directory.is_empty());
}

TEST_CASE("a tier from outside the library is registered once", "[fs][registry]") {
  SecondaryTierRegistry registry;
  TierType type;
  type.make = [](const TierConfig&,
                 TierEnvironment environment) -> Expected<std::unique_ptr<SecondaryTier>> {
    return std::unique_ptr<SecondaryTier>(
        std::make_unique<ExampleTier>(ExampleConfig{}, std::move(environment)));
  };
  REQUIRE(registry.register_tier("mine", type));
  const auto again = registry.register_tier("mine", type);
  REQUIRE_FALSE(again);
  CHECK(again.error().detail.find("\"mine\" is registered already") != std::string::npos);
  CHECK_FALSE(registry.register_tier("", type));
  CHECK_FALSE(registry.register_tier("empty", {}));
  CHECK_FALSE(registry.validate(config("mine")));
  CHECK(registry.make(config("mine"), {}));
}

// --- the example tier -----------------------------------------------------------------------------

struct ExampleFixture {
  test::TierMemory memory{8, 4096};
  test::TierTestSink sink;
  std::shared_ptr<TierFaults> faults = std::make_shared<TierFaults>();
  std::unique_ptr<ExampleTier> tier;
  std::uint64_t next_job = 1;

  explicit ExampleFixture(std::uint32_t chunks_max = 100) {
    TierEnvironment environment;
    environment.primary = memory.view();
    environment.sink = &sink;
    environment.now = [] { return std::chrono::steady_clock::now(); };
    tier = std::make_unique<ExampleTier>(ExampleConfig{"", chunks_max}, environment, faults);
    REQUIRE(tier->start());
  }
  JobResult run(bool is_load, KeyList keys, ChunkId first = 0) {
    TransferJob job;
    job.job_id = {0, next_job++};
    job.is_promotion = is_load;
    job.chunk_ids.resize(keys.size());
    std::iota(job.chunk_ids.begin(), job.chunk_ids.end(), first);
    job.keys = std::move(keys);
    tier->submit({job});
    REQUIRE(sink.has_ended(job.job_id));  // inside the call
    return *sink.wait(job.job_id);
  }
};

TEST_CASE("the example tier answers inside the call and keeps bytes", "[fs][example]") {
  ExampleFixture f;
  for (ChunkId i = 0; i < 3; ++i) f.memory.fill(i, i);
  CHECK(f.run(false, tier_keys(0, 3)).success);
  CHECK(f.run(false, tier_keys(2, 1)).fates == std::vector{KeyFate::already_present});
  CHECK(f.tier->probe(1, tier_keys(1, 3)));
  CHECK(f.sink.wait_probe(1) ==
        std::vector{LookupResult::hit, LookupResult::hit, LookupResult::miss});
  CHECK(f.run(true, tier_keys(0, 3), 4).success);
  for (ChunkId i = 0; i < 3; ++i) CHECK(f.memory.holds(4 + i, i));
  CHECK(f.sink.violations().empty());
  CHECK(f.memory.uses() == 0);
}

TEST_CASE("a load with an absent key fails as a whole", "[fs][example]") {
  ExampleFixture f;
  CHECK(f.run(false, tier_keys(0, 2)).success);
  const JobResult result = f.run(true, tier_keys(0, 3), 4);
  CHECK(result.fates == std::vector(3, KeyFate::failed));
  CHECK(result.failure == TransferFailure::not_found);
}

TEST_CASE("the example tier verifies, is bounded and checks slots", "[fs][example]") {
  ExampleFixture f(2);
  f.faults->corrupt_every = 2;
  const JobResult stored = f.run(false, tier_keys(0, 3));
  CHECK(stored.fates == std::vector{KeyFate::done, KeyFate::done, KeyFate::failed});
  CHECK(stored.failure == TransferFailure::no_space);
  const JobResult loaded = f.run(true, tier_keys(0, 2), 4);
  CHECK(loaded.fates == std::vector{KeyFate::done, KeyFate::failed});
  CHECK(loaded.failure == TransferFailure::corrupt);
  CHECK(f.tier->stats().corrupt_chunks == 1);
  CHECK(f.tier->size() == 1);
  CHECK(f.run(false, tier_keys(5, 1), 8).failure == TransferFailure::io_error);
  f.tier->stop({});
  CHECK(f.run(false, tier_keys(6, 1)).failure == TransferFailure::cancelled);
}

}  // namespace
}  // namespace kv_offload
