#include "kv_offload/admission/gate_config.hpp"

#include "kv_offload/admission/admission_registry.hpp"
#include "kv_offload/admission/backlog.hpp"
#include "kv_offload/admission/circuit_breaker.hpp"
#include "kv_offload/admission/composite.hpp"
#include "kv_offload/admission/demand.hpp"
#include "kv_offload/admission/load_worth.hpp"
#include "kv_offload/admission/lookup_gates.hpp"
#include "kv_offload/admission/payoff.hpp"
#include "kv_offload/admission/write_budget.hpp"
#include "kv_offload/tests/admission/admission_fixture.hpp"

#include <catch2/catch.hpp>

using namespace kv_offload;
using namespace kv_offload::test;

namespace {

Expected<std::unique_ptr<AdmissionPolicy>> make(const std::string& json) {
  return admission_policies().make(parse(json), "admission_policy", two_tiers());
}
template <class Policy>
const Policy& as(const Expected<std::unique_ptr<AdmissionPolicy>>& made) {
  REQUIRE(made);
  const auto* policy = dynamic_cast<const Policy*>(made.value().get());
  REQUIRE(policy != nullptr);
  return *policy;
}

}  // namespace

TEST_CASE("every key of the gates is read", "[admission][unit]") {
  const auto payoff = make(R"({"type": "payoff", "mode": "observe", "target": 0.2, "floor": 0,
    "alpha": 1, "warmup": 0, "report_every": 1})");
  const PayoffOptions& p = as<Payoff>(payoff).options();
  CHECK(p.mode == GateMode::observe);
  CHECK(p.target == 0.2);
  CHECK(p.floor == 0);
  CHECK(p.alpha == 1);
  CHECK(p.warmup == 0);
  CHECK(p.report_every == 1);

  const auto demand = make(R"({"type": "demand", "mode": "observe", "target": 0.5,
    "grace_bytes": "1 MiB", "horizon_chunks": 2, "memory_chunks": 2048, "spend_share": 0.5})");
  const DemandOptions& d = as<Demand>(demand).options();
  CHECK(d.mode == GateMode::observe);
  CHECK(d.target == 0.5);
  CHECK(d.grace_bytes == 1ULL << 20);
  CHECK(d.horizon_chunks == 2);
  CHECK(d.memory_chunks == 2048);
  CHECK(d.spend_share == 0.5);

  const auto worth =
      make(R"({"type": "load_worth", "mode": "observe", "device_share": 0.5, "wait_share": 0,
    "probe_every": 2, "probe_chunks": 3, "memory_chunks": 2048})");
  const LoadWorthOptions& o = as<LoadWorth>(worth).options();
  CHECK(o.mode == GateMode::observe);
  CHECK(o.device_share == 0.5);
  CHECK(o.wait_share == 0);
  CHECK(o.probe_every == 2);
  CHECK(o.probe_chunks == 3);
  CHECK(o.memory_chunks == 2048);

  const auto backlog =
      make(R"({"type": "backlog", "mode": "off", "max_queued_s": 2.5, "half_life_s": 3})");
  CHECK(as<Backlog>(backlog).options().mode == GateMode::off);
  CHECK(as<Backlog>(backlog).options().max_queued_s == 2.5);
  CHECK(as<Backlog>(backlog).options().half_life_s == 3);

  const auto gate = make(R"({"type": "lookup_gate", "mode": "off", "min_load_tokens": 1, "cut": 1,
    "min_issued": 2, "probe_every": 3, "alpha": 0.5, "report_every": 4})");
  const LookupGateOptions& l = as<LookupGates>(gate).options();
  CHECK(l.mode == GateMode::off);
  CHECK(l.min_load_tokens == 1);
  CHECK(l.cut == 1);
  CHECK(l.min_issued == 2);
  CHECK(l.probe_every == 3);
  CHECK(l.alpha == 0.5);
  CHECK(l.report_every == 4);

  const auto budget = make(R"({"type": "write_budget", "bytes_per_day": "240 GiB",
    "peak_bytes": "1 GiB", "tiers": ["2:obj"]})");
  const WriteBudgetOptions& w = as<WriteBudget>(budget).options();
  CHECK(w.mode == GateMode::enforce);
  CHECK(w.bytes_per_day == 240ULL << 30);
  CHECK(w.peak_bytes == 1ULL << 30);
  CHECK(w.tiers == std::vector<bool>{false, true});

  const auto breaker = make(R"({"type": "circuit_breaker", "error_rate": 1, "window": 7,
    "min_completions": 7, "open_s": 3, "max_open_cascades_s": 4, "max_open_promotions_s": 5,
    "half_open_jobs": 6, "close_after": 8})");
  const CircuitBreakerOptions& c = as<CircuitBreaker>(breaker).options();
  CHECK(c.cascades.error_rate == 1);
  CHECK(c.cascades.window == 7);
  CHECK(c.cascades.min_completions == 7);
  CHECK(c.cascades.open_s == 3);
  CHECK(c.cascades.max_open_s == 4);
  CHECK(c.promotions.max_open_s == 5);
  CHECK(c.promotions.half_open_jobs == 6);
  CHECK(c.promotions.close_after == 8);
}

TEST_CASE("a written gate enforces, with its defaults", "[admission][unit]") {
  CHECK(as<Payoff>(make(R"({"type": "payoff"})")).options().mode == GateMode::enforce);
  CHECK(as<LookupGates>(make(R"({"type": "lookup_gate"})")).options().min_load_tokens == 8192);
  const auto budget = make(R"({"type": "write_budget", "bytes_per_day": 2400})");
  CHECK(as<WriteBudget>(budget).options().peak_bytes == 100);
  const auto breaker = make(R"({"type": "circuit_breaker", "open_s": 100})");
  CHECK(as<CircuitBreaker>(breaker).options().cascades.max_open_s == 100);
}

TEST_CASE("impossible gates are refused with path, value and what is allowed",
          "[admission][unit]") {
  struct Row {
    const char* json;
    const char* line;
  };
  const Row row = GENERATE(
      Row{R"({"type": "payoff", "alpha": 0})",
          "admission_policy.alpha: 0 is not allowed; expected a number in [0.0001, 1]"},
      Row{R"({"type": "payoff", "floor": 1.1})",
          "admission_policy.floor: 1.1 is not allowed; expected a number in [0, 1]"},
      Row{R"({"type": "payoff", "target": -0.1})",
          "admission_policy.target: -0.1 is not allowed; expected a number in [0, 1]"},
      Row{R"({"type": "payoff", "warmup": -1})",
          "admission_policy.warmup: -1 is not allowed; expected an integer in [0, 1000000]"},
      Row{R"({"type": "payoff", "report_every": 0})",
          "admission_policy.report_every: 0 is not allowed; expected an integer in [1, 1000000]"},
      Row{R"({"type": "payoff", "mode": "on"})",
          "admission_policy.mode: \"on\" is not allowed; expected one of: off, observe, enforce"},
      Row{R"({"type": "payoff", "signal": "ema"})",
          "admission_policy.signal: unknown key; known here: alpha, floor, mode, report_every, "
          "target, type, warmup"},
      Row{R"({"type": "demand", "target": 1.5})",
          "admission_policy.target: 1.5 is not allowed; expected a number in [0, 1]"},
      Row{R"({"type": "demand", "memory_chunks": 1})",
          "admission_policy.memory_chunks: 1 is not allowed; expected an integer in [1024, "
          "268435456]"},
      Row{R"({"type": "demand", "grace": 1})",
          "admission_policy.grace: unknown key; known here: grace_bytes, horizon_chunks, "
          "memory_chunks, mode, spend_share, target, type"},
      Row{R"({"type": "demand", "spend_share": 1.5})",
          "admission_policy.spend_share: 1.5 is not allowed; expected a number in [0, 1]"},
      Row{R"({"type": "load_worth", "device_share": 0})",
          "admission_policy.device_share: 0 is not allowed; expected a number in (0, 1]"},
      Row{R"({"type": "load_worth", "probe_chunks": 0})",
          "admission_policy.probe_chunks: 0 is not allowed; expected an integer in [1, 1000000]"},
      Row{R"({"type": "backlog", "max_queued_s": 0})",
          "admission_policy.max_queued_s: 0 is not allowed; expected a number in (0, 3600]"},
      Row{R"({"type": "composite", "policies": [{"type": "demand"}, {"type": "demand"}]})",
          "admission_policy.policies: composite: demand is there twice; expected once"},
      Row{R"({"type": "composite", "policies": [{"type": "payoff"}, {"type": "composite", "policies": [{"type": "payoff"}]}]})",
          "admission_policy.policies: composite: payoff is there twice; expected once"},
      Row{R"({"type": "composite", "policies": [{"type": "adaptive"}, {"type": "backlog"}]})",
          "admission_policy.policies: composite: backlog is there twice; expected once"},
      Row{R"({"type": "lookup_gate", "cut": 0})",
          "admission_policy.cut: 0 is not allowed; expected a number in (0, 1]"},
      Row{R"({"type": "lookup_gate", "probe_every": 0})",
          "admission_policy.probe_every: 0 is not allowed; expected an integer in [1, 1000000]"},
      Row{R"({"type": "lookup_gate", "min_load_tokens": "many"})",
          "admission_policy.min_load_tokens: \"many\" is not allowed; expected an integer in [0, "
          "1000000000]"},
      Row{R"({"type": "write_budget", "bytes_per_day": "1 KiB", "peak_bytes": "1 KiB"})",
          "admission_policy.peak_bytes: 1 KiB is not allowed; expected below bytes_per_day (1 "
          "KiB)"},
      Row{R"({"type": "write_budget", "tiers": ["3:none"]})",
          "admission_policy.tiers: \"3:none\" is not allowed; expected a list of some of: 1:fs, "
          "2:obj"},
      Row{R"({"type": "write_budget", "tiers": []})",
          "admission_policy.tiers: a list of 0 is not allowed; expected a list of some of: 1:fs, "
          "2:obj"},
      Row{R"({"type": "circuit_breaker", "error_rate": 0})",
          "admission_policy.error_rate: 0 is not allowed; expected a number in (0, 1]"},
      Row{R"({"type": "circuit_breaker", "window": 4})",
          "admission_policy.min_completions: 5 is not allowed; expected at most window (4)"},
      Row{R"({"type": "circuit_breaker", "max_open_cascades_s": 0.5})",
          "admission_policy.max_open_cascades_s: 0.5 is not allowed; expected at least open_s "
          "(1.0)"},
      Row{R"({"type": "circuit_breaker", "half_open_jobs": 0})",
          "admission_policy.half_open_jobs: 0 is not allowed; expected an integer in [1, 1000]"},
      Row{R"({"type": "composite", "policies": [{"type": "payoff"}, {"type": "payoff"}]})",
          "admission_policy.policies: composite: payoff is there twice; expected once"},
      Row{R"({"type": "composite", "policies": [{"type": "lookup_gate"}, {"type": "lookup_gate"}]})",
          "admission_policy.policies: composite: lookup_gate is there twice; expected once"},
      Row{R"({"type": "adaptive", "payoff": {"alpha": 0}})",
          "admission_policy.payoff.alpha: 0 is not allowed; expected a number in [0.0001, 1]"},
      Row{R"({"type": "adaptive", "backpressure": {"high_water_s": 0.001}})",
          "admission_policy.backpressure.low_water_s: 0.002 is not allowed; expected at most "
          "high_water_s (0.001)"},
      Row{R"({"type": "adaptive", "backpressure": {"remote_high_water_s": 0.01}})",
          "admission_policy.backpressure.remote_low_water_s: 0.02 is not allowed; expected at most "
          "remote_high_water_s (0.01)"},
      Row{R"({"type": "cascade_backpressure", "signal": "per_mib", "remote_low_water_s": 0})",
          "admission_policy.remote_low_water_s: 0 is not allowed; expected a number in (0, 3600]"},
      Row{R"({"type": "adaptive", "backpressure": {"signal": "wall_clock"}})",
          "admission_policy.backpressure.signal: \"wall_clock\" is not allowed; expected no such "
          "key, "
          "the preset fixes it"},
      Row{R"({"type": "adaptive", "payoff": {"type": "always_admit"}})",
          "admission_policy.payoff.type: \"always_admit\" is not allowed; expected no such key, "
          "the "
          "preset fixes it"},
      Row{R"({"type": "adaptive", "payoff": null})",
          "admission_policy.payoff: null is not allowed; expected an object"},
      Row{R"({"type": "adaptive", "alpha": 0.5})",
          "admission_policy.alpha: unknown key; known here: backlog, backpressure, "
          "circuit_breaker, "
          "demand, load_worth, lookup_gate, payoff, promotion_concurrency, type, write_budget"});
  const auto made = make(row.json);
  REQUIRE_FALSE(made);
  CHECK(made.error().code == OffloadErrc::invalid_config);
  CHECK(made.error().detail == row.line);
}

TEST_CASE("adaptive counts as a composite where nesting ends", "[admission][unit]") {
  const auto nested = [](int depth) {
    std::string json = R"({"type": "adaptive"})";
    for (int i = 0; i < depth; ++i) json = R"({"type": "composite", "policies": [)" + json + "]}";
    return json;
  };
  CHECK(make(nested(3)));
  CHECK_FALSE(make(nested(4)));
}

TEST_CASE("every gate names each of its settings", "[admission][unit]") {
  for (const char* type : {"payoff", "lookup_gate", "write_budget", "circuit_breaker"}) {
    const auto made = make(std::string(R"({"type": ")") + type + "\"}");
    REQUIRE(made);
    const auto settings = made.value()->settings();
    INFO(type);
    REQUIRE(settings.size() >= 4);
    for (const PolicySetting& s : settings) {
      CHECK_FALSE(s.key.empty());
      CHECK_FALSE(s.value.empty());
    }
  }
}

TEST_CASE("a budget that one chunk exceeds is refused: nothing would ever pass",
          "[admission][unit]") {
  auto environment = two_tiers();
  environment.chunk_bytes = 2 << 20;
  const auto line = [&](const char* json) {
    const auto made = admission_policies().make(parse(json), "admission_policy", environment);
    return made ? std::string("valid") : made.error().detail;
  };
  CHECK(line(R"({"type": "write_budget", "bytes_per_day": "1 GiB", "peak_bytes": "1 MiB"})") ==
        "admission_policy.peak_bytes: 1 MiB is not allowed; expected at least one chunk (2 MiB)");
  CHECK(line(R"({"type": "write_budget", "bytes_per_day": "24 MiB"})") ==
        "admission_policy.bytes_per_day: 24 MiB is not allowed; expected at least 24 chunks (48 "
        "MiB), or peak_bytes");
  CHECK(line(R"({"type": "write_budget", "bytes_per_day": "48 MiB"})") == "valid");
  CHECK(line(R"({"type": "write_budget", "bytes_per_day": "24 MiB", "peak_bytes": "2 MiB"})") ==
        "valid");
}
