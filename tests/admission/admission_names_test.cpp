#include "kv_offload/admission/admission_ledger.hpp"
#include "kv_offload/admission/admission_registry.hpp"
#include "kv_offload/tests/admission/admission_fixture.hpp"

#include <catch2/catch.hpp>

namespace kv_offload::test {
namespace {

TEST_CASE("a tier's own detector is no policy that can be named", "[admission][unit]") {
  for (const char* type : {"backpressure", "backpressure[1:fs]", "Backpressure"}) {
    const auto node = parse(std::string(R"({"type": ")") + type + "\"}");
    const auto made = admission_policies().make(node, "admission_policy", two_tiers());
    REQUIRE_FALSE(made);
    CHECK(made.error().code == OffloadErrc::invalid_config);
    CHECK(made.error().detail.find("admission_policy.type") != std::string::npos);
    CHECK(made.error().detail.find("always_admit") != std::string::npos);
  }
}

TEST_CASE("every registered name builds with its defaults", "[admission][unit]") {
  for (const std::string& name : admission_policies().names()) {
    INFO(name);
    const std::string members = name == "composite" ? R"(, "policies": [])" : "";
    const auto node = parse(R"({"type": ")" + name + "\"" + members + "}");
    const auto made = admission_policies().make(node, "admission_policy", two_tiers());
    REQUIRE(made);
    REQUIRE(*made != nullptr);
    CHECK_FALSE((*made)->name().empty());
  }
}

TEST_CASE("a policy from outside decides, counts and reports inside a composite",
          "[admission][unit]") {
  AdmissionRegistry registry;
  register_builtin_policies(registry);
  ScriptedPolicy* mine = nullptr;
  REQUIRE(registry.register_policy("mine", [&](ConfigReader&, const AdmissionBuild&) {
    auto policy = std::make_unique<ScriptedPolicy>("mine");
    mine = policy.get();
    return policy;
  }));
  auto policy = registry.make(
      parse(R"({"type": "composite", "policies": [{"type": "always_admit"}, {"type": "mine"}]})"),
      "admission_policy", two_tiers());
  REQUIRE(policy);
  REQUIRE(mine != nullptr);
  AdmissionLedger ledger(std::move(*policy), {100, 100});

  const auto list = keys(3);
  const auto admitted = ledger.decide_cascade(0, list, 3 << 20, nullptr, at(0));
  REQUIRE(admitted.admitted);
  CHECK(mine->admitted_ == 1);
  CHECK(mine->last_keys_ == 3);
  mine->reason_ = RefusalReason::custom;
  const auto refused = ledger.decide_cascade(0, list, 3 << 20, nullptr, at(1));
  CHECK_FALSE(refused.admitted);
  CHECK(refused.reason == RefusalReason::custom);
  CHECK(refused.refuser == "mine");
  CHECK(sample_of(ledger.stats(at(1)), "scripted_refused_total", "1:fs") == 1);
  ledger.complete(admitted.ticket, 3, ended(0, 2), at(2));
  CHECK(mine->completed_ == 1);
  std::string why;
  CHECK(ledger.check_idle(&why));
  CHECK(why.empty());
}

}  // namespace
}  // namespace kv_offload::test
