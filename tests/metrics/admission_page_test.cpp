#include "kv_offload/actors/admission_page.hpp"

#include "kv_offload/messages/load_verdict.hpp"
#include "kv_offload/tests/metrics/known_stats.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <sstream>
#include <string>

namespace kv_offload::test {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::json;

const MonotonicTime kNow{1000s};

AdmissionDecision refusal(Duration ago, std::uint32_t chunks, const std::string& numbers) {
  return {kNow - ago,
          0,
          false,
          chunks,
          false,
          RefusalReason::backpressure,
          "backpressure[1:fs]",
          7,
          std::make_shared<const std::string>(numbers)};
}

/// Two tiers; everything that the first did differs from everything else.
EngineStats stats_with_decisions() {
  EngineStats stats = known_stats();
  AdmissionActorTotals& a = stats.admission;
  AdmissionFlow& c = a.tiers[0].cascades;
  c.offered = {20, 1000};
  c.admitted = {12, 600};
  c.completed = {9, 450};
  c.withdrawn = {1, 50};
  c.erased = {1, 30};
  c.in_flight = {1, 70};
  c.refused[static_cast<std::size_t>(RefusalReason::backpressure)] = {8, 400};
  a.tiers[0].promotions.offered = {5, 55};
  a.tiers[0].promotions.refused[static_cast<std::size_t>(RefusalReason::pin_share)] = {1, 2};
  a.tiers[0].pin_share_chunks = 99;
  a.tiers[1].disabled = true;
  a.refusers = {{"backpressure[1:fs]", 0, false, 8, 400}, {"pin_share", 0, true, 2, 2}};
  a.gates = {{"payoff", "1:fs", GateMode::enforce, GateStatus::nothing_to_refuse, "payoff 0.5", 0},
             {"lookup_gate", "1:fs", GateMode::enforce, GateStatus::unreachable,
              "no lookup can be skipped: the smallest gap in 900 was 26900 tokens, the floor is "
              "8192, and this is a long line that must be broken somewhere before column 120",
              0},
             {"payoff", "2:example", GateMode::observe, GateStatus::refusing, "payoff 0.01", 0},
             {"lookup_gate", "2:example", GateMode::off, GateStatus::off, "0 lookups", 0}};
  a.cadences = {{"payoff", "warmup", 64}, {"lookup_gate", "probe_every", 32}};
  const auto sample = [&](const std::string& name, double value) {
    a.policy_samples.push_back({name, {{"tier", "1:fs"}}, value});
  };
  sample("kv_offload_payoff", 0.5);
  sample("kv_offload_payoff_verdicts_per_second", 4);
  sample("kv_offload_payoff_save_share", 1);
  sample("kv_offload_lookup_gate_actionable_rate", 0.25);
  sample("kv_offload_lookup_gate_lookups_total", 31);
  sample("kv_offload_lookup_gate_lookup_seconds_total", 1.5);
  sample("kv_offload_lookup_gate_skips_total", 6);
  sample("kv_offload_lookup_gate_avoided_tokens_total", 60000);
  a.policy_samples.push_back(
      {"kv_offload_payoff_verdicts_total", {{"tier", "1:fs"}, {"verdict", "too_small"}}, 17});
  a.decisions = {{kNow - 9s, 0, true, 3, true, RefusalReason::none, "", 3, nullptr},
                 refusal(5s, 30, "store latency 0.02"),
                 refusal(4s, 20, "store latency 0.03"),
                 {kNow - 1s, 1, false, 6, true, RefusalReason::none, "", 6, nullptr}};
  return stats;
}

TEST_CASE("the document has the flows of each tier, in jobs and in chunks, by reason and policy",
          "[metrics][unit]") {
  const Json page = Json::parse(admission_page_json(stats_with_decisions(), kNow));
  const Json& c = page["tiers"]["1:fs"]["cascades"];
  CHECK(c["offered"] == Json({{"jobs", 20}, {"chunks", 1000}}));
  CHECK(c["admitted"] == Json({{"jobs", 12}, {"chunks", 600}}));
  CHECK(c["completed"] == Json({{"jobs", 9}, {"chunks", 450}}));
  CHECK(c["withdrawn"] == Json({{"jobs", 1}, {"chunks", 50}}));
  CHECK(c["erased"] == Json({{"jobs", 1}, {"chunks", 30}}));
  CHECK(c["in_flight"] == Json({{"jobs", 1}, {"chunks", 70}}));
  CHECK(c["refused"] == Json({{"backpressure", {{"jobs", 8}, {"chunks", 400}}}}));
  const Json& p = page["tiers"]["1:fs"]["promotions"];
  CHECK(p["offered"]["chunks"] == 55);
  CHECK(p["refused"] == Json({{"pin_share", {{"jobs", 1}, {"chunks", 2}}}}));
  CHECK(page["tiers"]["1:fs"]["pin_share_chunks"] == 99);
  CHECK(page["tiers"]["1:fs"]["disabled"] == false);
  CHECK(page["tiers"]["2:example"]["disabled"] == true);
  CHECK(page["refused"][0] == Json({{"policy", "backpressure[1:fs]"},
                                    {"tier", "1:fs"},
                                    {"direction", "cascade"},
                                    {"decisions", 8},
                                    {"chunks", 400}}));
  CHECK(page["refused"][1]["direction"] == "promotion");
  CHECK(page["balance_violation"] == "tier 1:fs: admitted 5, accounted for 4");
}

TEST_CASE("the document tells nothing to refuse from unreachable, with numbers",
          "[metrics][unit]") {
  const Json page = Json::parse(admission_page_json(stats_with_decisions(), kNow));
  REQUIRE(page["gates"].size() == 4);
  CHECK(page["gates"][0]["meaning"] == "enabled, nothing to refuse");
  CHECK(page["gates"][1]["status"] == "unreachable");
  CHECK(page["gates"][1]["meaning"] == "enabled, structurally unreachable");
  CHECK(page["gates"][1]["text"].get<std::string>().find("26900 tokens") != std::string::npos);
  CHECK(page["gates"][2]["meaning"] == "enabled, would refuse");
  CHECK(page["gates"][3]["meaning"] == "measures, refuses nothing");
}

TEST_CASE("what the gates measure is in the document, seconds only where there is a rate",
          "[metrics][unit]") {
  const Json page = Json::parse(admission_page_json(stats_with_decisions(), kNow));
  const Json& t = page["tiers"]["1:fs"];
  CHECK(t["verdicts"].size() == kNumLoadVerdicts);
  CHECK(t["verdicts"]["too_small"] == 17);
  CHECK(t["verdicts"]["aligned_large_hit"] == 0);
  CHECK(t["payoff"]["payoff"] == 0.5);
  CHECK(t["payoff"]["save_share"] == 1);
  CHECK(t["lookups"]["actionable_rate"] == 0.25);
  CHECK(t["lookups"]["lookups"] == 31);
  CHECK(t["lookups"]["lookup_seconds"] == 1.5);
  CHECK(t["lookups"]["skips"] == 6);
  CHECK(t["lookups"]["avoided_tokens"] == 60000);
  CHECK(t["cadence"]["payoff"]["events_per_second"] == 4);
  CHECK(t["cadence"]["payoff"]["warmup"] == Json({{"events", 64}, {"seconds", 16}}));
  CHECK(t["cadence"]["lookup_gate"]["probe_every"] == Json({{"events", 32}, {"seconds", nullptr}}));
  REQUIRE(page["notes"].size() == 3);
  CHECK(page["notes"][0].get<std::string>().starts_with("save_share is the realised share"));
}

TEST_CASE("each decision is in the document with its age and the numbers behind it",
          "[metrics][unit]") {
  const Json page = Json::parse(admission_page_json(stats_with_decisions(), kNow));
  REQUIRE(page["decisions"].size() == 4);
  CHECK(page["decisions"][1] == Json({{"age_seconds", 5.0},
                                      {"tier", "1:fs"},
                                      {"direction", "cascade"},
                                      {"chunks", 30},
                                      {"admitted", false},
                                      {"reason", "backpressure"},
                                      {"policy", "backpressure[1:fs]"},
                                      {"in_flight_chunks", 7},
                                      {"numbers", "store latency 0.02"}}));
  CHECK(page["decisions"][3]["admitted"] == true);
  CHECK_FALSE(page["decisions"][3].contains("reason"));
}

TEST_CASE("the text says the same within 120 columns and folds what repeats", "[metrics][unit]") {
  const std::string text = admission_page_text(stats_with_decisions(), kNow);
  INFO(text);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    CHECK(line.size() <= 120);
    CHECK((line.empty() || line.back() != ' '));
  }
  const auto has = [&](const std::string& part) {
    INFO(part);
    CHECK(text.find(part) != std::string::npos);
  };
  has("1000/20");
  has("2x  1:fs cascade, 50 chunks: refused by backpressure[1:fs] (backpressure), then 7 chunks");
  has("store latency 0.03");
  CHECK(text.find("store latency 0.02") == std::string::npos);
  has("1:fs lookup_gate, mode enforce: enabled, structurally unreachable");
  has("2:example is disabled");
  has("BALANCE BROKEN: tier 1:fs");
  has("too_small");
  has("- save_share is the realised share");
}

TEST_CASE("an engine that decided nothing yet has both pages, too", "[metrics][unit]") {
  const Json page = Json::parse(admission_page_json(unpublished_stats(), kNow));
  CHECK(page["tiers"].empty());
  CHECK(page["decisions"].empty());
  CHECK(page["notes"].size() == 3);
  const std::string text = admission_page_text(unpublished_stats(), kNow);
  CHECK(text.find("nothing to admit") != std::string::npos);
}

}  // namespace
}  // namespace kv_offload::test
