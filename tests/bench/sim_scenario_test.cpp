#include "kv_offload/bench/sim_scenario.hpp"

#include <catch2/catch.hpp>

#include <filesystem>
#include <string>

using namespace kv_offload;
using namespace kv_offload::bench;
namespace fs = std::filesystem;

namespace {

const fs::path kScenarios =
    fs::path(__FILE__).parent_path().parent_path().parent_path() / "bench" / "scenarios";

}  // namespace

TEST_CASE("a policy's settings change its own run only", "[bench][unit]") {
  auto scenario = parse_scenario(Json::parse(R"({"device": {"hbm_chunks": 10},
      "policies": ["off", {"name": "small", "policy": "always_admit", "set": {"/device/hbm_chunks": 5}},
                   {"name": "nowhere", "set": {"/device/hbm_chunks/0/x": 5}}]})"),
                                 "test");
  REQUIRE(scenario);
  REQUIRE(scenario->policies.size() == 3);
  CHECK_FALSE(scenario->policies[0].offload);
  CHECK((*scenario->with(scenario->policies[1]))["device"]["hbm_chunks"] == 5);
  CHECK((*scenario->with(scenario->policies[0]))["device"]["hbm_chunks"] == 10);
  CHECK_FALSE(scenario->with(scenario->policies[2]));
}

TEST_CASE("what is no scenario is refused in one line, before anything runs", "[bench][unit]") {
  const auto line = [](const char* text) {
    const auto scenario = parse_scenario(Json::parse(text), "test");
    return scenario ? std::string() : scenario.error().detail;
  };
  CHECK(line(R"({"policies": "off"})") == "policies: expected a list");
  CHECK(line(R"({"expect": {"a": 1}})") == "expect: expected a list");
  CHECK(line(R"({"grid": 5})") == "grid: expected a list");
  CHECK(line(R"({"expect": [{"name": 5, "that": "1 <= 2"}]})").find("expect[0]: expected an object") == 0);
  CHECK(line(R"({"policies": ["off"], "expect": [{"that": "off.ttft_p99_s = 1"}]})").find("no comparison") !=
        std::string::npos);
  CHECK(line(R"({"policies": ["off"], "expect": [{"that": "of.ttft_p99_s <= 1"}]})").find("there is no policy of") !=
        std::string::npos);
  CHECK(line(R"({"policies": ["off", {"name": "off", "policy": "adaptive"}]})") ==
        "policies[1].name: \"off\" is not allowed; expected a name that no other policy has");
  CHECK(line(R"({"policies": [{"name": "a", "set": {"/tier/0/depth": 4}}]})")
            .find("policies[0].set: \"/tier/0/depth\" is not allowed; expected a pointer into "
                  "engine, tiers") == 0);
  CHECK(line(R"({"device": {"hbm_chunks": 1}, "grid": ["/device/hbm_chunk"]})") ==
        "grid: /device/hbm_chunk is no number of the scenario");
  const std::string deep = R"({"expect": [{"that": ")" + std::string(50000, '(') + R"(1 <= 1"}]})";
  CHECK(line(deep.c_str()).find("nested deeper") != std::string::npos);
  CHECK(line(R"x({"policies": ["off"], "expect": [{"that": "off.a / off.b <= min(1, -(2))"}]})x").empty());
}

TEST_CASE("models that cannot be run are refused in one line", "[bench][unit]") {
  const auto line = [](const char* keys) {
    const auto document =
        Json::parse(std::string(R"({"engine": {"chunk_bytes": 4096, "cpu_bytes_to_use": 409600,
        "tokens_per_chunk": 16}, "device": {"hbm_chunks": 100}, )") +
                    keys + "}");
    const auto setup = build_setup(document, SimPolicy{});
    return setup ? std::string() : setup.error().detail;
  };
  CHECK(line(R"("measure": {"from_s": 10, "to_s": 10})")
            .find("measure.to_s: 10.0 is not allowed; expected 0") == 0);
  CHECK(line(R"("workload": {"kind": "multi_turn"})")
            .find("workload.requests: 0 is not allowed without measure.to_s") == 0);
  CHECK(line(R"("workload": {"kind": "multi_turn"}, "measure": {"to_s": 10})").empty());
  CHECK(line(R"("tiers": [5])") == "tiers[0]: expected an object, a tier model");
  CHECK(line(R"("tiers": [{"engine": 5}])") ==
        "tiers[0].engine: expected an object, the tier's own keys");
}

TEST_CASE("a parameter is scaled, and what is no number is refused", "[bench][unit]") {
  Json document = Json::parse(R"({"a": {"whole": 10, "real": 0.5, "text": "x"}})");
  REQUIRE(scale(document, "/a/whole", 1.25));
  REQUIRE(scale(document, "/a/real", 0.8));
  CHECK(document["a"]["whole"] == 13);
  CHECK(document["a"]["real"] == Approx(0.4));
  for (const char* pointer : {"/a/text", "/a/none", "nothing"})
    CHECK_FALSE(scale(document, pointer, 2));
}

TEST_CASE("every number of a shipped scenario says where it comes from", "[bench][unit]") {
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator(kScenarios)) {
    if (entry.path().extension() != ".json") continue;
    ++files;
    INFO(entry.path());
    const auto scenario = load_scenario(entry.path().string());
    REQUIRE(scenario);
    for (const auto& policy : scenario->policies) {
      const auto document = scenario->with(policy);
      REQUIRE(document);
      const auto setup = build_setup(*document, policy);
      INFO(policy.name << ": " << (setup ? "" : setup.error().detail));
      CHECK(setup);
    }
    const Json& origins = scenario->document["origins"];
    const Json flat = scenario->document.flatten();
    for (const auto& [pointer, value] : flat.items()) {
      const std::string section = pointer.substr(1, pointer.find('/', 1) - 1);
      if (!value.is_number() || section == "expect" || section == "policies") continue;
      bool said = false;
      for (const auto& [known, why] : origins.items())
        said = said || pointer == known || pointer.rfind(known + "/", 0) == 0;
      INFO(pointer);
      CHECK(said);
    }
  }
  CHECK(files >= 7);
}
