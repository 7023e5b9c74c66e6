#include "kv_offload/tests/support/virtual_engine.hpp"

#include <algorithm>

// What admission hands out to be kept over a restart, and what it does with what was kept.
using namespace kv_offload;
using namespace kv_offload::test;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t kMib = 1 << 20;
// 24 MiB a day with a peak of 12 MiB: half a MiB an hour comes back.
constexpr const char* kBudget =
    R"({"type": "write_budget", "bytes_per_day": 25165824, "peak_bytes": 12582912})";
constexpr std::int64_t kHourMs = 3'600'000;

/// A life after another: the state goes from one engine to the next, the time of day goes on.
struct Lives {
  std::int64_t unix_ms = 1'800'000'000'000;
  std::string kept;
  int num_kept = 0;

  VirtualEngine::Options next(Duration every = 5s) {
    VirtualEngine::Options options;
    options.chunks = 64;
    options.admission = kBudget;
    options.keeping = {[this] { return unix_ms; },
                       [this](std::string text) {
                         kept = std::move(text);
                         ++num_kept;
                       },
                       kept, every};
    return options;
  }
};

/// Bytes that the budget still has, as it says itself.
double bytes_left(VirtualEngine& e) {
  const auto stats = e.stats();
  for (const auto& gate : stats.admission.gates)
    if (gate.gate == "write_budget") return std::stod(gate.text);
  FAIL("no budget");
  return 0;
}
void write(VirtualEngine& e, const std::string& name, std::size_t chunks) {
  const auto r = e.request(name);
  e.store(r, keys(name, chunks));
  REQUIRE(e.finish(r));
}
std::size_t warnings_about_state(const VirtualEngine& e) {
  return static_cast<std::size_t>(std::count_if(e.log.begin(), e.log.end(), [](const auto& line) {
    return line.starts_with("warn: admission_state_file: ");
  }));
}

}  // namespace

TEST_CASE("a restart within the day does not refill the write budget", "[actor][state]") {
  Lives lives;
  {
    VirtualEngine e(lives.next());
    CHECK(bytes_left(e) == 12 * kMib);
    write(e, "a", 16);
    CHECK(bytes_left(e) == Approx(12 * kMib - 16 * 4096).margin(64));
  }
  VirtualEngine again(lives.next());
  CHECK(bytes_left(again) == Approx(12 * kMib - 16 * 4096).margin(64));
  CHECK(warnings_about_state(again) == 0);
  write(again, "b", 16);
  lives.unix_ms += kHourMs / 16;  // 32 KiB come back in that time
  CHECK(bytes_left(again) == Approx(12 * kMib - 32 * 4096).margin(64));  // not before a restart
}

TEST_CASE("what refilled while the engine was down is there", "[actor][state]") {
  Lives lives;
  {
    VirtualEngine e(lives.next());
    write(e, "a", 16);
    write(e, "b", 16);
  }
  lives.unix_ms += kHourMs / 16;
  VirtualEngine again(lives.next());
  CHECK(bytes_left(again) == Approx(12 * kMib - 32 * 4096 + 32 * 1024).margin(64));
}

TEST_CASE("a clock that was set back gives nothing", "[actor][state]") {
  Lives lives;
  {
    VirtualEngine e(lives.next());
    write(e, "a", 16);
    write(e, "b", 16);
  }
  lives.unix_ms -= 100 * kHourMs;
  VirtualEngine again(lives.next());
  CHECK(bytes_left(again) == Approx(12 * kMib - 32 * 4096).margin(64));
}

TEST_CASE("a damaged state is one warning, the budget starts empty and the engine runs",
          "[actor][state]") {
  for (const std::string& damage :
       {std::string("empty"), std::string("kv_offload admission 2\n"),
        std::string("kv_offload admission 1\nwrite_budget 1 5\ntier "), std::string(64, '\0')}) {
    Lives lives;
    lives.kept = damage;
    auto options = lives.next();
    options.keeping.keep_aside = [] { return std::string("state.damaged"); };
    VirtualEngine e(options);
    CHECK(std::any_of(e.log.begin(), e.log.end(), [](const auto& line) {
      return line.find("it is kept as state.damaged when it is replaced") != std::string::npos;
    }));
    CHECK(bytes_left(e) == Approx(0).margin(64));
    CHECK(warnings_about_state(e) == 1);
    write(e, "a", 1);
    CHECK(e.tier().submitted.empty());
    CHECK(e.stats()
              .admission.tiers[0]
              .cascades.refused[static_cast<std::size_t>(RefusalReason::write_budget)]
              .jobs == 1);
    e.require_promises();
  }
}

TEST_CASE("the state is handed out when it changed, not more often than it should, and at the end",
          "[actor][state]") {
  Lives lives;
  {
    VirtualEngine e(lives.next(5s));
    e.advance(20s);
    CHECK(lives.num_kept == 0);  // nothing was admitted: nothing to keep
    write(e, "a", 1);
    e.advance(1s);
    CHECK(lives.num_kept == 1);
    write(e, "b", 1);
    e.advance(2s);
    CHECK(lives.num_kept == 1);
    e.advance(3s);
    CHECK(lives.num_kept == 2);
    e.advance(60s);
    CHECK(lives.num_kept == 2);
    write(e, "c", 1);
  }
  CHECK(lives.num_kept == 3);
  CHECK(lives.kept.starts_with("kv_offload admission 1\n"));
}

TEST_CASE("a policy without state hands out nothing", "[actor][state]") {
  Lives lives;
  {
    auto options = lives.next();
    options.admission.clear();
    VirtualEngine e(options);
    write(e, "a", 1);
    e.advance(20s);
  }
  CHECK(lives.num_kept == 0);
}

TEST_CASE("every refusal is explained by who refused, with numbers", "[actor][state]") {
  VirtualEngine::Options options;
  options.pin_share = 0.15;  // two of sixteen
  options.admission = R"({"type": "promotion_concurrency", "max_inflight_promotions": 1})";
  VirtualEngine e(options);
  e.tier().automatic = false;
  const auto r = e.request();
  e.store(r, keys("a", 2));
  e.store(r, keys("b", 2));  // over the tier's pin share
  const auto a = e.stats().admission;
  REQUIRE(a.decisions.size() == 2);
  CHECK(a.decisions[0].admitted);
  CHECK(a.decisions[0].in_flight_chunks == 2);
  CHECK(a.decisions[0].numbers == nullptr);
  CHECK_FALSE(a.decisions[1].admitted);
  CHECK(a.decisions[1].in_flight_chunks == 2);
  REQUIRE(a.decisions[1].numbers != nullptr);
  CHECK(*a.decisions[1].numbers == "2 of 2 chunks in flight");
  REQUIRE(a.refusers.size() == 1);
  CHECK(a.refusers[0].policy == "pin_share");
  CHECK(a.refusers[0].chunks == 2);
  CHECK(a.tiers[0].cascades.offered.jobs == 2);
  CHECK(a.tiers[0].cascades.offered.chunks == 4);
  CHECK(a.tiers[0].cascades.in_flight.jobs == 1);
  CHECK(a.tiers[0].pin_share_chunks == 2);

  e.tier().finish(0);
  e.run();
  e.tier().present = {keys("p", 1)[0], keys("q", 1)[0]};
  const auto p = e.request("p"), q = e.request("q");
  const auto first = e.lookup(p, keys("p", 1));   // its load waits for finish()
  const auto second = e.lookup(q, keys("q", 1));  // the cap is one
  const auto b = e.stats().admission;
  REQUIRE(b.decisions.size() == 4);
  CHECK(b.decisions[2].is_promotion);
  CHECK(b.decisions[2].admitted);
  CHECK(b.decisions[3].refuser == "promotion_concurrency");
  REQUIRE(b.decisions[3].numbers != nullptr);
  CHECK(*b.decisions[3].numbers == "1 of 1 chunks in flight to the primary tier");
  CHECK(*b.decisions[1].numbers == "2 of 2 chunks in flight");  // as they were then
  REQUIRE(b.refusers.size() == 2);
  CHECK(b.refusers[1].policy == "promotion_concurrency");
  CHECK(b.refusers[1].is_promotion);
  e.tier().finish(0);
  e.run();
}
