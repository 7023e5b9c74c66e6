#include "kv_offload/tests/config/config_lines.hpp"

#include <catch2/catch.hpp>

#include <filesystem>
#include <map>
#include <string>

using namespace kv_offload;

TEST_CASE("every shipped configuration is valid, and no unexpected warning goes with it",
          "[config]") {
  const auto folder =
      std::filesystem::path(__FILE__).parent_path().parent_path().parent_path() / "bench/configs";
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    INFO(entry.path().string());
    ++found;
    const auto config = EngineConfig::load_file(entry.path().string());
    REQUIRE(config.has_value());
    const auto error = config->validate();
    INFO((error ? error->detail : ""));
    CHECK_FALSE(error);
    CHECK(config->notes.empty());
    for (const auto& line : config->warnings()) {
      INFO(line);
      CHECK((line.find("the directory grows") != std::string::npos ||
             line.find("of memory here") != std::string::npos));
    }
  }
  CHECK(found >= 3);
}

TEST_CASE("the admission configuration of the public proposal loads unchanged", "[config]") {
  const EngineConfig config = good_config(document(R"("admission_policy":
{"type": "composite", "policies": [
{"type": "cascade_backpressure", "high_water_s": 1.0, "low_water_s": 0.5},
{"type": "promotion_concurrency", "max_inflight_promotions": 256}
]}, "secondary_tiers": [{"type": "fs", "root_dir": "/x"}])"));
  CHECK_FALSE(config.validate());
  std::map<std::string, std::string> shown;
  for (const auto& row : config.effective()) shown[row.key] = row.value + " " + row.unit;
  CHECK(shown.at("admission_policy.type") == "composite ");
  CHECK(shown.at("admission_policy.policies[0].high_water_s") == "1 s");
  CHECK(shown.at("admission_policy.policies[1].max_inflight_promotions") == "256 chunks");
}
