#include "kv_offload/admission/admission_registry.hpp"

#include "kv_offload/admission/cascade_backpressure.hpp"
#include "kv_offload/admission/composite.hpp"
#include "kv_offload/admission/promotion_concurrency.hpp"
#include "kv_offload/tests/admission/admission_fixture.hpp"

#include <catch2/catch.hpp>

using namespace kv_offload;
using namespace kv_offload::test;

namespace {

Expected<std::unique_ptr<AdmissionPolicy>> make(const std::string& json) {
  return admission_policies().make(parse(json), "admission_policy", two_tiers());
}
std::string error_of(const std::string& json) {
  const auto made = make(json);
  if (made) return "built";
  CHECK(made.error().code == OffloadErrc::invalid_config);
  return made.error().detail;
}

}  // namespace

TEST_CASE("nothing configured means always_admit", "[admission][unit]") {
  CHECK(make("null").value()->name() == "always_admit");
  CHECK(admission_policies().make(nullptr, "admission_policy", two_tiers()).value()->name() ==
        "always_admit");
  CHECK(make(R"({"type": "always_admit"})").value()->name() == "always_admit");
}

TEST_CASE("the composite example of the proposal loads unchanged", "[admission][unit]") {
  const auto made = make(R"({"type": "composite", "policies": [
    {"type": "cascade_backpressure", "high_water_s": 1.0, "low_water_s": 0.5},
    {"type": "promotion_concurrency", "max_inflight_promotions": 256}
  ]})");
  REQUIRE(made);
  const auto* composite = dynamic_cast<const Composite*>(made.value().get());
  REQUIRE(composite != nullptr);
  REQUIRE(composite->members().size() == 2);
  const auto* pressure = dynamic_cast<const CascadeBackpressure*>(composite->members()[0].get());
  REQUIRE(pressure != nullptr);
  CHECK(pressure->signal() == LatencySignal::wall_clock);
  for (const TierIndex tier : {TierIndex{0}, TierIndex{1}}) {
    REQUIRE(pressure->detector(tier) != nullptr);
    const auto& options = pressure->detector(tier)->options();
    CHECK(options.high_water == 1.0);
    CHECK(options.low_water == 0.5);
    CHECK(options.alpha == 0.3);
    CHECK(options.warmup_completions == 3);
    CHECK(options.decay_half_life_s == 2.0);
  }
  const auto* cap = dynamic_cast<const PromotionConcurrency*>(composite->members()[1].get());
  REQUIRE(cap != nullptr);
  CHECK(cap->max_inflight_promotions() == 256);
}

TEST_CASE("defaults hold where nothing is said", "[admission][unit]") {
  const auto cap = make(R"({"type": "promotion_concurrency"})");
  CHECK(dynamic_cast<const PromotionConcurrency&>(*cap.value()).max_inflight_promotions() == 512);
  const auto made = make(R"({"type": "cascade_backpressure", "signal": "per_mib"})");
  const auto& pressure = dynamic_cast<const CascadeBackpressure&>(*made.value());
  CHECK(pressure.signal() == LatencySignal::per_mib);
  CHECK(pressure.detector(0)->options().high_water == 0.010);  // local disk
  CHECK(pressure.detector(1)->options().high_water == 0.050);  // object store
  CHECK(pressure.detector(1)->options().response == PressureResponse::throttled);
}

TEST_CASE("every field of per_mib is read", "[admission][unit]") {
  const auto made = make(R"({"type": "cascade_backpressure", "signal": "per_mib",
    "high_water_s": 0.5, "low_water_s": 0.25, "alpha": 1, "warmup_completions": 0,
    "decay_half_life_s": -1, "cooldown_s": 3, "policy": {"type": "throttled", "ramp_factor": 4}})");
  REQUIRE(made);
  const auto& o = dynamic_cast<const CascadeBackpressure&>(*made.value()).detector(1)->options();
  CHECK(o.high_water == 0.5);
  CHECK(o.low_water == 0.25);
  CHECK(o.alpha == 1);
  CHECK(o.warmup_completions == 0);
  CHECK(o.decay_half_life_s == -1);
  CHECK(o.cooldown_s == 3);
  CHECK(o.ramp_factor == 4);
}

TEST_CASE("a bad configuration is refused in one line with path, value and what is allowed",
          "[admission][unit]") {
  struct Row {
    const char* json;
    const char* line;
  };
  const std::string known =
      "expected one of: adaptive, always_admit, backlog, cascade_backpressure, circuit_breaker, "
      "composite, demand, "
      "load_worth, lookup_gate, payoff, promotion_concurrency, write_budget";
  CHECK(error_of("{}") == "admission_policy.type: missing; " + known);
  CHECK(error_of(R"({"type": "always"})") ==
        "admission_policy.type: \"always\" is not allowed; " + known);
  CHECK(error_of(R"({"type": 3})") == "admission_policy.type: 3 is not allowed; " + known);

  const Row row = GENERATE(
      Row{R"("always_admit")",
          "admission_policy: \"always_admit\" is not allowed; expected an object"},
      Row{R"({"type": "always_admit", "x": 1})",
          "admission_policy.x: unknown key; known here: type"},
      Row{R"({"type": "promotion_concurrency", "max_inflight_promotions": 0})",
          "admission_policy.max_inflight_promotions: 0 is not allowed; expected an integer in [1, "
          "1073741824]"},
      Row{R"({"type": "promotion_concurrency", "max_inflight_promotions": 2.5})",
          "admission_policy.max_inflight_promotions: 2.5 is not allowed; expected an integer in "
          "[1, 1073741824]"},
      Row{R"({"type": "promotion_concurrency", "max_inflight": 2})",
          "admission_policy.max_inflight: unknown key; known here: max_inflight_promotions, type"},
      Row{R"({"type": "cascade_backpressure", "alpha": 0})",
          "admission_policy.alpha: 0 is not allowed; expected a number in (0, 1]"},
      Row{R"({"type": "cascade_backpressure", "alpha": 1.5})",
          "admission_policy.alpha: 1.5 is not allowed; expected a number in (0, 1]"},
      Row{R"({"type": "cascade_backpressure", "alpha": "0.3"})",
          "admission_policy.alpha: \"0.3\" is not allowed; expected a number in (0, 1]"},
      Row{R"({"type": "cascade_backpressure", "low_water_s": 2})",
          "admission_policy.low_water_s: 2 is not allowed; expected at most high_water_s (1)"},
      Row{R"({"type": "cascade_backpressure", "low_water_s": 0})",
          "admission_policy.low_water_s: 0 is not allowed; expected a number in (0, 3600]"},
      Row{R"({"type": "cascade_backpressure", "high_water_s": -1})",
          "admission_policy.high_water_s: -1 is not allowed; expected a number in (0, 3600]"},
      Row{R"({"type": "cascade_backpressure", "warmup_completions": -1})",
          "admission_policy.warmup_completions: -1 is not allowed; expected an integer in [0, "
          "1000000]"},
      Row{R"({"type": "cascade_backpressure", "decay_half_life_s": 1e9})",
          "admission_policy.decay_half_life_s: 1000000000.0 is not allowed; expected a number in "
          "[-1, 86400]"},
      Row{R"({"type": "cascade_backpressure", "signal": "ema"})",
          "admission_policy.signal: \"ema\" is not allowed; expected one of: wall_clock, per_mib"},
      Row{R"({"type": "cascade_backpressure", "cooldown_s": 1})",
          "admission_policy.cooldown_s: unknown key; known here: alpha, decay_half_life_s, "
          "high_water_s, low_water_s, signal, type, warmup_completions"},
      Row{R"({"type": "cascade_backpressure", "signal": "per_mib", "policy": {"type": "block"}})",
          "admission_policy.policy.type: \"block\" is not allowed; expected one of: drop, "
          "throttled"},
      Row{R"({"type": "cascade_backpressure", "signal": "per_mib", "policy": {"ramp_factor": 0}})",
          "admission_policy.policy.ramp_factor: 0 is not allowed; expected a number in (0, 1000]"},
      Row{R"({"type": "cascade_backpressure", "signal": "per_mib",
              "policy": {"type": "drop", "ramp_factor": 2}})",
          "admission_policy.policy.ramp_factor: unknown key; known here: type"},
      Row{R"({"type": "cascade_backpressure", "signal": "per_mib", "high_water_s": 0.005})",
          "admission_policy.low_water_s: 0.01 is not allowed; expected at most high_water_s "
          "(0.005)"},  // the object store's default low mark
      Row{R"({"type": "composite"})",
          "admission_policy.policies: missing; expected a list of policies"},
      Row{R"({"type": "composite", "policies": {}})",
          "admission_policy.policies: an object is not allowed; expected a list of policies"},
      Row{R"({"type": "composite", "policies": [{"type": "always_admit"},
              {"type": "cascade_backpressure", "alpha": 2}]})",
          "admission_policy.policies[1].alpha: 2 is not allowed; expected a number in (0, 1]"},
      Row{R"({"type": "composite", "policies": [null]})",
          "admission_policy.policies[0]: null is not allowed; expected an object"},
      Row{R"({"type": "composite", "policies": [], "mode": "any"})",
          "admission_policy.mode: unknown key; known here: policies, type"});
  CHECK(error_of(row.json) == row.line);
}

TEST_CASE("fields are checked even without tiers", "[admission][unit]") {
  const auto made = admission_policies().make(
      parse(R"({"type": "cascade_backpressure", "alpha": 7})"), "admission_policy", {});
  CHECK_FALSE(made);
}

TEST_CASE("composites nest four deep and no deeper", "[admission][unit]") {
  const auto nested = [](int depth) {
    std::string json = R"({"type": "always_admit"})";
    for (int i = 0; i < depth; ++i) json = R"({"type": "composite", "policies": [)" + json + "]}";
    return json;
  };
  CHECK(make(nested(4)));
  CHECK(error_of(nested(5)) ==
        "admission_policy.policies[0].policies[0].policies[0].policies[0].type: \"composite\" is "
        "not allowed here; expected at most 4 composites inside each other");
}

TEST_CASE("an empty list of policies admits", "[admission][unit]") {
  const auto made = make(R"({"type": "composite", "policies": []})");
  REQUIRE(made);
  CHECK(made.value()->should_admit(cascade(1), at(0)) == RefusalReason::none);
}

TEST_CASE("a policy from outside is built by name, with its own checks", "[admission][unit]") {
  AdmissionRegistry registry;
  register_builtin_policies(registry);
  REQUIRE(registry.register_policy("mine", [](ConfigReader& reader, const AdmissionBuild& build) {
    const auto limit = reader.integer("limit", 1, 1, 10);
    CHECK(build.environment.tiers.size() == 2);
    return std::make_unique<ScriptedPolicy>("mine:" + std::to_string(limit));
  }));
  const auto build = [&](const std::string& json) {
    return registry.make(parse(json), "admission_policy", two_tiers());
  };
  CHECK(build(R"({"type": "mine", "limit": 4})").value()->name() == "mine:4");
  CHECK(build(R"({"type": "mine", "limit": 11})").error().detail ==
        "admission_policy.limit: 11 is not allowed; expected an integer in [1, 10]");
  CHECK(build(R"({"type": "mine", "limits": 4})").error().detail ==
        "admission_policy.limits: unknown key; known here: limit, type");
  CHECK(build(R"({"type": "composite", "policies": [{"type": "mine"}]})"));
}

TEST_CASE("a name is registered once, and a factory answers or says why", "[admission][unit]") {
  AdmissionRegistry registry;
  register_builtin_policies(registry);
  const auto null_factory = [](ConfigReader&, const AdmissionBuild&) {
    return std::unique_ptr<AdmissionPolicy>();
  };
  const auto twice = registry.register_policy("composite", null_factory);
  REQUIRE_FALSE(twice);
  CHECK(twice.error().code == OffloadErrc::invalid_argument);
  CHECK(twice.error().detail == "admission policy \"composite\" is registered already");
  CHECK_FALSE(registry.register_policy("", null_factory));
  CHECK_FALSE(registry.register_policy("x", nullptr));
  REQUIRE(registry.register_policy("nothing", null_factory));
  const auto made = registry.make(parse(R"({"type": "nothing"})"), "p", two_tiers());
  REQUIRE_FALSE(made);
  CHECK(made.error().detail == "p: the factory of \"nothing\" returned nothing and named no error");
}
