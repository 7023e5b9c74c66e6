#include "kv_offload/admission/admission_setup.hpp"

#include "kv_offload/admission/admission_settings.hpp"
#include "kv_offload/admission/cascade_backpressure.hpp"
#include "kv_offload/admission/composite.hpp"
#include "kv_offload/tests/admission/admission_fixture.hpp"

#include <catch2/catch.hpp>

using namespace kv_offload;
using namespace kv_offload::test;

namespace {

/// "" stands for an absent key.
struct Texts {
  std::string policy, common, tier0, tier1;
};

Expected<AdmissionSetup> set_up(const Texts& texts) {
  std::vector<std::unique_ptr<ConfigNode>> nodes;
  const auto node = [&](const std::string& text) -> const ConfigNode* {
    if (text.empty()) return nullptr;
    nodes.push_back(std::make_unique<ConfigNode>(parse(text)));
    return nodes.back().get();
  };
  AdmissionConfig config;
  config.policy = node(texts.policy);
  config.backpressure = node(texts.common);
  config.tier_backpressure = {node(texts.tier0), node(texts.tier1)};
  return set_up_admission(config, two_tiers());
}

/// Names of the implicit members, in order.
std::vector<std::string> implicit_members(const AdmissionPolicy& policy) {
  std::vector<std::string> names;
  if (const auto* composite = dynamic_cast<const Composite*>(&policy))
    for (const auto& member : composite->members())
      if (member->name().starts_with("backpressure[")) names.emplace_back(member->name());
  return names;
}

const LatencyDetectorOptions& options_of(const AdmissionPolicy& policy, TierIndex tier) {
  const auto& composite = dynamic_cast<const Composite&>(policy);
  for (const auto& member : composite.members())
    if (const auto* p = dynamic_cast<const CascadeBackpressure*>(member.get()))
      if (p->is_implicit() && p->detector(tier) != nullptr) return p->detector(tier)->options();
  throw std::runtime_error("no detector");
}

}  // namespace

TEST_CASE("a tier has a detector unless its key is absent and the common one says nothing",
          "[admission][unit]") {
  const std::string common = GENERATE("", "{}", R"({"alpha": 0.5})");
  const std::string tier = GENERATE("", "null", "{}", R"({"alpha": 0.25})");
  CAPTURE(common, tier);
  const auto setup = set_up({"", common, tier, ""});
  REQUIRE(setup);
  const bool fields_for_all = common == R"({"alpha": 0.5})";
  std::vector<std::string> expected;
  if (!tier.empty() || fields_for_all) expected.emplace_back("backpressure[1:fs]");
  if (fields_for_all) expected.emplace_back("backpressure[2:obj]");
  CHECK(implicit_members(*setup.value().policy) == expected);
  if (expected.empty()) {
    CHECK(setup.value().policy->name() == "always_admit");
    return;
  }
  const double own = tier == R"({"alpha": 0.25})" ? 0.25 : fields_for_all ? 0.5 : 0.15;
  CHECK(options_of(*setup.value().policy, 0).alpha == own);
}

TEST_CASE("fields of the tier win one by one over the common ones", "[admission][unit]") {
  const auto setup = set_up({"", R"({"alpha": 0.5, "cooldown_s": 9, "high_water_s": 0.2})",
                             R"({"high_water_s": 0.1, "policy": {"type": "drop"}})", ""});
  REQUIRE(setup);
  const auto& fs = options_of(*setup.value().policy, 0);
  CHECK(fs.alpha == 0.5);
  CHECK(fs.cooldown_s == 9);
  CHECK(fs.high_water == 0.1);
  CHECK(fs.low_water == 0.002);
  CHECK(fs.response == PressureResponse::drop);
  const auto& obj = options_of(*setup.value().policy, 1);
  CHECK(obj.high_water == 0.2);
  CHECK(obj.low_water == 0.010);
  CHECK(obj.response == PressureResponse::throttled);
}

TEST_CASE("public class names are understood, short and dotted", "[admission][unit]") {
  const auto setup = set_up({"", "", R"({"backpressure_cls": "EMABackpressureDetector",
                          "policy_cls": "vllm.v1.kv_offload.backpressure.DropStorePolicy"})",
                             R"({"policy_cls": "ThrottledDropPolicy"})"});
  REQUIRE(setup);
  CHECK(options_of(*setup.value().policy, 0).response == PressureResponse::drop);
  CHECK(options_of(*setup.value().policy, 1).response == PressureResponse::throttled);
  // A class name stands for the whole policy: it brings no parameter, and takes over none.
  const auto ramp = set_up({"", R"({"policy": {"type": "throttled", "ramp_factor": 5}})",
                            R"({"policy_cls": "ThrottledDropPolicy"})", "{}"});
  REQUIRE(ramp);
  CHECK(options_of(*ramp.value().policy, 0).ramp_factor == 2);
  CHECK(options_of(*ramp.value().policy, 1).ramp_factor == 5);
}

TEST_CASE("an error in backpressure names the object that has it", "[admission][unit]") {
  struct Row {
    Texts texts;
    const char* line;
  };
  const Row row = GENERATE(
      Row{{"", R"({"alpha": 2})", "", ""},
          "backpressure.alpha: 2 is not allowed; expected a number in (0, 1]"},
      Row{{"", "", "", R"({"alpha": 2})"},
          "secondary_tiers[1].backpressure.alpha: 2 is not allowed; expected a number in (0, 1]"},
      Row{{"", "", R"({"low_water_s": 0.02})", ""},
          "secondary_tiers[0].backpressure.low_water_s: 0.02 is not allowed; expected at most "
          "high_water_s (0.01)"},
      Row{{"", R"({"high_water_s": 0.001})", "{}", ""},
          "backpressure.low_water_s: 0.002 is not allowed; expected at most high_water_s (0.001)"},
      Row{{"", "", "7", ""},
          "secondary_tiers[0].backpressure: 7 is not allowed; expected an object"},
      Row{{"", "", R"({"backpressure_cls": "x.Other"})", ""},
          "secondary_tiers[0].backpressure.backpressure_cls: \"x.Other\" is not allowed; expected "
          "one of: EMABackpressureDetector"},
      Row{{"", "", R"({"policy_cls": "DropStorePolicy", "policy": {"type": "drop"}})", ""},
          "secondary_tiers[0].backpressure.policy_cls: \"DropStorePolicy\" is not allowed beside "
          "policy; expected one of the two"});
  const auto setup = set_up(row.texts);
  REQUIRE_FALSE(setup);
  CHECK(setup.error().detail == row.line);
}

TEST_CASE("an unknown policy is refused with the names that are known", "[admission][unit]") {
  std::string names;
  for (const auto& name : admission_policies().names()) names += (names.empty() ? "" : ", ") + name;
  const auto setup = set_up({R"({"type": "nobody"})", "", "{}", ""});
  REQUIRE_FALSE(setup);
  CHECK(setup.error().detail ==
        "admission_policy.type: \"nobody\" is not allowed; expected one of: " + names);
}

TEST_CASE("a misspelt backpressure field is an error", "[admission][unit]") {
  const auto setup = set_up({"", R"({"hihg_water_s": 1})", "", ""});
  REQUIRE_FALSE(setup);
  CHECK(setup.error().detail.starts_with("backpressure.hihg_water_s: unknown key; known here: "));
}

TEST_CASE("implicit members come after the configured policy", "[admission][unit]") {
  const auto setup = set_up({R"({"type": "promotion_concurrency"})", "", "{}", "{}"});
  const auto& members = dynamic_cast<const Composite&>(*setup.value().policy).members();
  REQUIRE(members.size() == 3);
  CHECK(members[0]->name() == "promotion_concurrency");
  CHECK(members[1]->name() == "backpressure[1:fs]");
  CHECK(members[2]->name() == "backpressure[2:obj]");
}

TEST_CASE("harmful but possible settings are warned about", "[admission][unit]") {
  CHECK(set_up({"", "", "{}", ""}).value().warnings.empty());
  const auto empty =
      set_up({R"({"type": "composite", "policies": [{"type": "composite", "policies": []}]})", "",
              "", ""});
  CHECK(empty.value().warnings ==
        std::vector<std::string>{"admission_policy.policies[0].policies: an empty list admits "
                                 "everything"});
  const auto twice = set_up({R"({"type": "cascade_backpressure"})", "", "{}", ""});
  REQUIRE(twice.value().warnings.size() == 1);
  CHECK(twice.value().warnings[0].starts_with(
      "secondary_tiers[0]: 2 backpressure gates on one tier, admission_policy and "
      "secondary_tiers[0].backpressure: "));
  const auto latched =
      set_up({R"({"type": "cascade_backpressure", "decay_half_life_s": 0})", "", "", ""});
  REQUIRE(latched.value().warnings.size() == 1);
  CHECK(latched.value().warnings[0].starts_with("admission_policy.decay_half_life_s: "));
  const auto own = set_up({"", "", "", R"({"decay_half_life_s": -1})"});
  REQUIRE(own.value().warnings.size() == 1);
  CHECK(own.value().warnings[0].starts_with("secondary_tiers[1].backpressure.decay_half_life_s: "));
  const auto pair = set_up({R"({"type": "composite", "policies": [
      {"type": "cascade_backpressure"}, {"type": "cascade_backpressure", "signal": "per_mib"}]})",
                            "", "", ""});
  REQUIRE(pair.value().warnings.size() == 2);  // one for each tier
  CHECK(pair.value().warnings[1].starts_with("secondary_tiers[1]: 2 backpressure gates"));
}

TEST_CASE("settings are shown resolved, with unit, preset and what can have set them",
          "[admission][unit]") {
  const auto setup = set_up({R"({"type": "composite", "policies": [
      {"type": "cascade_backpressure"}, {"type": "promotion_concurrency"}]})",
                             "", "{}", ""});
  std::vector<std::string> lines;
  for (const auto& row : admission_settings(*setup.value().policy))
    lines.push_back(row.path + " = " + row.value + " " + row.unit + "; " + row.preset + "; " +
                    row.sources.front());
  const auto at = [](const std::string& path, const std::string& rest) {
    return path + " = " + rest + path;
  };
  const std::string first = "admission_policy.policies[0].";
  const std::string own = "secondary_tiers[0].backpressure.";
  CHECK(lines ==
        std::vector<std::string>{
            at(first + "signal", "wall_clock ; ; "), at(first + "high_water_s", "1 s; ; "),
            at(first + "low_water_s", "0.5 s; ; "), at(first + "alpha", "0.3 ; ; "),
            at(first + "warmup_completions", "3 completions; ; "),
            at(first + "decay_half_life_s", "2 s; ; "),
            at("admission_policy.policies[1].max_inflight_promotions", "512 chunks; ; "),
            at(own + "backpressure_cls", "EMABackpressureDetector ; ; "),
            at(own + "high_water_s", "0.01 s/MiB; local; "),
            at(own + "low_water_s", "0.002 s/MiB; local; "), at(own + "alpha", "0.15 ; ; "),
            at(own + "warmup_completions", "10 completions; ; "),
            at(own + "decay_half_life_s", "2 s; ; "), at(own + "cooldown_s", "1 s; ; "),
            at(own + "policy.type", "throttled ; ; "),
            at(own + "policy.ramp_factor", "2 x high_water_s; ; ")});
}

TEST_CASE("a policy and a tier's own detector never share a gauge", "[admission][unit]") {
  const auto setup = set_up({R"({"type": "cascade_backpressure"})", "", "{}", ""});
  const auto& policy = *setup.value().policy;
  std::vector<std::string> names;
  for (const auto& d : policy.metric_definitions()) names.push_back(d.name);
  const std::vector<std::string> expected = {
      "vllm:kv_offload_tiering_backpressure_active", "vllm:kv_offload_tiering_store_latency_ema",
      "vllm:kv_offload_tiering_backpressure_store_latency_ema",
      "vllm:kv_offload_tiering_backpressure_stores_dropped_total",
      "vllm:kv_offload_tiering_backpressure_blocks_dropped_total"};
  CHECK(names == expected);
  for (const auto& sample : policy.stats(at(0)))
    CHECK(std::count(names.begin(), names.end(), sample.name) == 1);
}
