#include "kv_offload/bench/sim_random.hpp"

#include "kv_offload/bench/report.hpp"
#include "kv_offload/bench/sim_draw.hpp"
#include "kv_offload/bench/sim_scenario.hpp"
#include "kv_offload/bench/simulate.hpp"
#include "kv_offload/bench/work_dir.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

using namespace kv_offload;
using namespace kv_offload::bench;

namespace {

struct Run {
  int status = -1;
  std::string out, err;
  Json document;
};

struct Fixture {
  Fixture() { options.output.json_file = (dir.path() / "out.json").string(); }
  Run run() const {
    Run run;
    std::ostringstream out, err;
    run.status = run_simulate(options, out, err);
    run.out = out.str();
    run.err = err.str();
    run.document = Json::parse(std::ifstream(*options.output.json_file));
    return run;
  }
  WorkDir dir = WorkDir::open(std::nullopt).value();
  SimulateOptions options;
};

}  // namespace

TEST_CASE("a seed draws the same scenario every time, and another one another", "[bench][unit]") {
  std::set<std::string> all;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const auto once = draw_scenario(seed), again = draw_scenario(seed);
    REQUIRE(once.document == again.document);
    all.insert(once.document["device"].dump() + once.document["workload"].dump());
  }
  CHECK(all.size() == 200);
}

TEST_CASE("every drawn scenario can be run, and the ranges are used to their ends", "[bench][unit]") {
  std::set<std::string> kinds, look_ups, localities;
  std::set<std::size_t> tiers;
  std::size_t stalls = 0, bounded = 0;
  double slowest_read = 1e99, fastest_read = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    CAPTURE(seed);
    const auto draw = draw_scenario(seed);
    const auto scenario = parse_scenario(draw.document, "random");
    REQUIRE(scenario);
    REQUIRE(scenario->policies.size() == 2);
    REQUIRE(scenario->expectations.size() == 2);
    for (const auto& policy : scenario->policies) {
      const auto setup = build_setup(scenario->document, policy);
      if (!setup) FAIL(to_string(setup.error()));
      CHECK(setup->engine.num_chunks() >= 64);
    }
    const Json& d = draw.document;
    kinds.insert(d["workload"]["kind"].get<std::string>());
    look_ups.insert(d["serving"]["look_up"].get<std::string>());
    tiers.insert(d["tiers"].size());
    for (const auto& tier : d["tiers"]) {
      localities.insert(tier.value("locality", ""));
      stalls += tier.contains("stall_per_probe") ? 1 : 0;
      bounded += tier["capacity_bytes"] != 0 ? 1 : 0;
      slowest_read = std::min(slowest_read, tier["read_bytes_s"].get<double>());
      fastest_read = std::max(fastest_read, tier["read_bytes_s"].get<double>());
    }
  }
  CHECK(kinds == std::set<std::string>{"multi_turn", "no_reuse", "round_robin", "storm"});
  CHECK(look_ups.size() == 2);
  CHECK(tiers == std::set<std::size_t>{1, 2});
  CHECK(localities.size() == 3);
  CHECK(stalls > 200);
  CHECK(bounded > 200);
  CHECK(slowest_read < 0.15e9);
  CHECK(fastest_read > 7e9);
}

TEST_CASE("a drawn scenario can be repeated alone, also as a file", "[bench][engine]") {
  Fixture f;
  f.options.output.quiet = true;
  f.options.random = 3;
  f.options.requests_max = 60;
  f.options.seed = 11;
  const auto three = f.run();
  REQUIRE(three.document["scenarios"].size() == 3);
  f.options.random = 1;
  f.options.seed = 13;
  const auto one = f.run();
  REQUIRE(one.document["scenarios"].size() == 1);
  const Json& last = three.document["scenarios"][2];
  CHECK(one.document["scenarios"][0] == last);
  CHECK(last["seed"] == 13);
  CHECK(last["again"]["policy"] == "off");
  CHECK(last["again"]["ttft_p99_s"] != last["runs"][0]["ttft_p99_s"]);  // other requests

  const auto file = f.dir.path() / "scenario.json";
  std::ofstream(file) << last["scenario"].dump();
  f.options.random = 0;
  f.options.requests_max = 0;
  f.options.scenario_file = file.string();
  CHECK(f.run().document["runs"] == last["runs"]);
}

TEST_CASE("several seeds of a drawn scenario are judged by their means", "[bench][engine]") {
  Fixture f;
  f.options.output.quiet = true;
  f.options.random = 1;
  f.options.requests_max = 60;
  f.options.seed = 11;
  const auto one = f.run().document["scenarios"][0];
  f.options.seeds = 3;
  const auto three = f.run().document["scenarios"][0];
  CHECK(three["scenario"] == one["scenario"]);  // what is drawn is the same
  CHECK(three["runs"][0]["ttft_p99_s"] != one["runs"][0]["ttft_p99_s"]);
  CHECK(three["again"]["ttft_p99_s"] != one["again"]["ttft_p99_s"]);
  CHECK(three["runs"][1]["policy"] == "adaptive");
  for (const auto& [figure, ratio] :
       {std::pair{"throughput_tokens_s", "throughput_ratio"}, {"ttft_p99_s", "ttft_p99_ratio"}})
    CHECK(three[ratio].get<double>() ==
          Approx(three["runs"][1][figure].get<double>() / three["runs"][0][figure].get<double>()));
  REQUIRE(three["expect"].size() == 2);
  CHECK(three["expect"][0]["left"].get<double>() ==
        Approx(three["runs"][1]["throughput_tokens_s"].get<double>()));
}

TEST_CASE("a broken bound is named with its seed and gives status 1", "[bench][engine]") {
  Fixture f;
  f.options.random = 12;
  f.options.requests_max = 60;  // a start is most of such a run: some of them do break a bound
  const auto run = f.run();
  std::size_t beyond = 0;
  for (const auto& scenario : run.document["scenarios"]) {
    bool held = true;
    for (const auto& expectation : scenario["expect"]) held = held && expectation["held"].get<bool>();
    CHECK(held == (scenario["throughput_ratio"].get<double>() >= 0.98 && scenario["ttft_p99_ratio"].get<double>() <= 1.05));
    const std::string name = "seed " + std::to_string(scenario["seed"].get<std::uint64_t>()) + ": ";
    CHECK((run.err.find(name) != std::string::npos) == !held);
    beyond += held ? 0 : 1;
  }
  INFO(run.out << run.err);
  CHECK(beyond > 0);
  CHECK(beyond < 12);
  CHECK(run.document["broken_bounds"] == beyond);
  CHECK(run.status == kCheckFailed);
  CHECK(run.out.find("worst tokens/s") != std::string::npos);
  CHECK(run.out.find("worst ttft p99") != std::string::npos);
  CHECK(run.out.find("12 scenarios") != std::string::npos);
}
