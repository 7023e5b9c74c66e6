#include "kv_offload/tiers/extent/extent_config.hpp"

#include "kv_offload/tiers/secondary_tier_registry.hpp"

#include <catch2/catch.hpp>

#include <string>

namespace kv_offload {
namespace {

using Object = ConfigNode::Object;

Expected<ExtentConfig> parse(Object object) {
  object.emplace("type", ConfigNode(std::string("extent")));
  return parse_extent_config(ConfigNode(object), "secondary_tiers[1]");
}
Object with(const std::string& key, const ConfigNode& value) {
  Object object;
  object.emplace("path", ConfigNode(std::string("/data/chunks")));
  object.emplace("capacity_bytes", ConfigNode(std::string("1 GiB")));
  object[key] = value;
  return object;
}
std::string error_of(const Object& object) {
  const auto config = parse(object);
  REQUIRE_FALSE(config);
  CHECK(config.error().code == OffloadErrc::invalid_config);
  return config.error().detail;
}

TEST_CASE("an extent tier needs a path and a capacity, everything else has its default",
          "[extent]") {
  const auto config = parse(with("label", ConfigNode(std::string("x"))));
  REQUIRE(config);
  CHECK(config->path == "/data/chunks");
  CHECK(config->capacity_bytes == 1U << 30);
  CHECK(config->segment_bytes == 0);
  CHECK(config->segment_eviction == SegmentEviction::fifo);
  CHECK(config->rewrite_share == 0.25);
  CHECK(config->durability == Durability::none);
  CHECK_FALSE(config->enable_kv_events);
  CHECK(error_of({}).find("secondary_tiers[1].path: required") == 0);
  Object only_path;
  only_path.emplace("path", ConfigNode(std::string("/x")));
  CHECK(error_of(only_path).find("secondary_tiers[1].capacity_bytes: required") == 0);
}

TEST_CASE("parameters of an extent tier are read", "[extent]") {
  CHECK(parse(with("segment_eviction", ConfigNode(std::string("lru"))))->segment_eviction ==
        SegmentEviction::lru);
  CHECK(parse(with("rewrite_share", ConfigNode(0.5)))->rewrite_share == 0.5);
  CHECK(parse(with("rewrite_share", ConfigNode(std::int64_t{0})))->rewrite_share == 0);
  CHECK(parse(with("segment_bytes", ConfigNode(std::string("8 MiB"))))->segment_bytes == 8U << 20);
  CHECK(parse(with("durability", ConfigNode(std::string("data"))))->durability == Durability::data);
  CHECK(parse(with("locality", ConfigNode(std::string("local"))))->locality == Locality::local);
  CHECK(parse(with("max_inflight_bytes", ConfigNode(std::string("1 MiB"))))->inflight_bytes_max ==
        1U << 20);
}

TEST_CASE("an extent tier may have an io of its own", "[extent]") {
  CHECK_FALSE(parse(with("locality", ConfigNode(std::string("local"))))->io.has_value());
  CHECK(parse(with("io", ConfigNode(std::string("threads"))))->io == IoMode::threads);
  CHECK(error_of(with("io", ConfigNode(std::string("aio")))) ==
        "secondary_tiers[1].io: \"aio\" is not allowed; expected one of: auto, uring, threads");
}

TEST_CASE("what is wrong with an extent tier is named with path, value and range", "[extent]") {
  CHECK(error_of(with("rewrite_share", ConfigNode(0.6)))
            .find("secondary_tiers[1].rewrite_share: 0.6") == 0);
  CHECK(error_of(with("segment_eviction", ConfigNode(std::string("arc")))).find("fifo, lru") !=
        std::string::npos);
  CHECK(error_of(with("capacity_bytes", ConfigNode(std::string("1 GB"))))
            .find("secondary_tiers[1].capacity_bytes: \"1 GB\"") == 0);
  CHECK(error_of(with("durability", ConfigNode(true))).find("none, data, full") !=
        std::string::npos);
  CHECK(error_of(with("checksum", ConfigNode(std::string("maybe")))) ==
        "secondary_tiers[1].checksum: \"maybe\" is not allowed; expected one of: on, off, true, "
        "false");
  CHECK_FALSE(parse(with("checksum", ConfigNode(std::string("off"))))->checksum);
  CHECK(error_of(with("path", ConfigNode(std::string(""))))
            .find("secondary_tiers[1].path: required") == 0);
}

TEST_CASE("an extent tier is made by name and validated without touching the disk", "[extent]") {
  TierConfig tier;
  tier.type = "extent";
  tier.path = "secondary_tiers[0]";
  tier.node = ConfigNode(with("path", ConfigNode(std::string("/nowhere/at/all"))));
  CHECK_FALSE(secondary_tiers().validate(tier));
  TierEnvironment environment;
  environment.label = "1:extent";
  environment.primary.row_bytes = 4096;
  environment.primary.payload_bytes = 4096;
  const auto made = secondary_tiers().make(tier, environment);
  REQUIRE(made);
  CHECK((*made)->traits().type == "extent");
  CHECK((*made)->traits().medium == Medium::storage);
  CHECK((*made)->metric_definitions().size() == 13);
  environment.primary.row_bytes = 512U << 20;
  const auto too_large = secondary_tiers().make(tier, environment);
  REQUIRE_FALSE(too_large);
  CHECK(too_large.error().detail.find(
            "1:extent: capacity_bytes: 1 GiB is not allowed; expected ") == 0);
}

}  // namespace
}  // namespace kv_offload
