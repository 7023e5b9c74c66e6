#include "kv_offload/admission/adaptive.hpp"
#include "kv_offload/admission/admission_registry.hpp"
#include "kv_offload/admission/always_admit.hpp"
#include "kv_offload/admission/backpressure_config.hpp"
#include "kv_offload/admission/composite.hpp"
#include "kv_offload/admission/gate_config.hpp"
#include "kv_offload/admission/promotion_concurrency.hpp"

#include <string>
#include <utility>

namespace kv_offload {
namespace {

// More chunks than any primary tier has slots for would be no cap at all.
constexpr std::int64_t kMaxInflightLimit = 1 << 30;

std::unique_ptr<AdmissionPolicy> make_promotion_concurrency(ConfigReader& reader) {
  const auto cap = reader.integer("max_inflight_promotions",
                                  PromotionConcurrency::kDefaultMaxInflight, 1, kMaxInflightLimit);
  return std::make_unique<PromotionConcurrency>(static_cast<std::uint32_t>(cap));
}

std::unique_ptr<AdmissionPolicy> make_composite(ConfigReader& reader, const AdmissionBuild& build) {
  const std::string path = reader.path_of("policies");
  if (build.composite_depth >= Composite::kMaxDepth) {
    reader.fail(reader.path_of("type") + ": \"composite\" is not allowed here; expected at most " +
                std::to_string(Composite::kMaxDepth) + " composites inside each other");
    return nullptr;
  }
  const ConfigNode* list = reader.child("policies");
  if (list == nullptr) {
    reader.fail(path + ": missing; expected a list of policies");
    return nullptr;
  }
  if (list->list() == nullptr) {
    reader.fail("policies", *list, "a list of policies");
    return nullptr;
  }
  const AdmissionBuild inner{build.registry, build.environment, build.composite_depth + 1};
  Composite::Members members;
  for (const ConfigNode& node : *list->list()) {
    auto member =
        build.registry.make_member(node, path + "[" + std::to_string(members.size()) + "]", inner);
    if (!member) {
      reader.fail(member.error().detail);
      return nullptr;
    }
    members.push_back(std::move(*member));
  }
  auto composite = Composite::make(std::move(members));
  if (!composite) {
    reader.fail(path + ": " + composite.error().detail);
    return nullptr;
  }
  return std::move(*composite);
}

}  // namespace

void register_builtin_policies(AdmissionRegistry& registry) {
  // The names are distinct, so none of these can fail.
  (void)registry.register_policy("always_admit", [](ConfigReader&, const AdmissionBuild&) {
    return std::make_unique<AlwaysAdmit>();
  });
  (void)registry.register_policy("cascade_backpressure",
                                 [](ConfigReader& reader, const AdmissionBuild& build) {
                                   return make_cascade_backpressure(reader, build.environment);
                                 });
  (void)registry.register_policy("promotion_concurrency",
                                 [](ConfigReader& reader, const AdmissionBuild&) {
                                   return make_promotion_concurrency(reader);
                                 });
  (void)registry.register_policy("composite", make_composite);
  (void)registry.register_policy("adaptive", make_adaptive);
  using MakeGate = std::unique_ptr<AdmissionPolicy>(ConfigReader&, const AdmissionEnvironment&);
  const auto add_gate = [&](const char* name, MakeGate* make) {
    (void)registry.register_policy(name, [make](ConfigReader& reader, const AdmissionBuild& build) {
      return make(reader, build.environment);
    });
  };
  add_gate("demand", make_demand);
  add_gate("load_worth", make_load_worth);
  add_gate("backlog", make_backlog);
  add_gate("payoff", make_payoff);
  add_gate("lookup_gate", make_lookup_gate);
  add_gate("write_budget", make_write_budget);
  add_gate("circuit_breaker", make_circuit_breaker);
}

}  // namespace kv_offload
