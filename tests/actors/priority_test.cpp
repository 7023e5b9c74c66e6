#include "kv_offload/tests/support/virtual_engine.hpp"

// NewRequest::priority: who is served first where slots are short, and who is not kept waiting for it.
using namespace kv_offload;
using namespace kv_offload::test;
using namespace std::chrono_literals;

namespace {

constexpr Duration kPatience = 30s;  // half of the default deadlines.lookup

/// Sixteen slots, of which promotions that were not read yet may take four; a holder has all four. Sixteen may be
/// admitted at a time: four calls in line.
struct Full {
  Full() : e(options()), holder(e.request("holder")) {
    put("h", 4);
    REQUIRE(e.lookup(holder, keys("h", 4)).get()->promoted == 4);
  }
  static VirtualEngine::Options options() {
    VirtualEngine::Options o;
    o.primary = PrimaryConfig{0.0, 0.25, 0.25};
    o.pin_share = 1;
    return o;
  }
  void put(const std::string& name, std::size_t n) {
    const auto k = keys(name, n);
    e.tier().present.insert(k.begin(), k.end());
  }
  /// A request of this priority and name that stands in line for `n` slots.
  VirtualEngine::Call<LookupAnswer> in_line(const std::string& name, std::int32_t priority, std::size_t n) {
    put(name, n);
    requests[name] = e.request(NewRequest{.req_id = name, .priority = priority});
    return e.lookup(requests[name], keys(name, n));
  }
  void end(const std::string& name) { REQUIRE(e.finish(requests.at(name))); }

  VirtualEngine e;
  RequestHandle holder;
  std::map<std::string, RequestHandle> requests;
};

}  // namespace

TEST_CASE("slots that come free go to the highest priority, and to the first of several", "[actor][grants]") {
  Full f;
  const auto low = f.in_line("low", -1, 4);
  const auto plain = f.in_line("plain", 0, 4);
  const auto high = f.in_line("high", 5, 4);
  const auto high_too = f.in_line("high too", 5, 4);
  REQUIRE(f.e.finish(f.holder));
  CHECK(high.answered());
  CHECK_FALSE(high_too.answered());
  f.end("high");
  CHECK(high_too.answered());
  CHECK_FALSE(plain.answered());
  f.end("high too");
  CHECK(plain.answered());
  CHECK_FALSE(low.answered());
  f.end("plain");
  REQUIRE(low.answered());
  CHECK(low.get()->leading_hits == 4);
  f.end("low");
  f.e.require_promises();
}

TEST_CASE("who outranks the line and fits does not stand in it, others do", "[actor][grants]") {
  Full f;
  const auto some = f.e.prepare_load(f.holder, keys("h", 2));
  REQUIRE(some);
  const auto big = f.in_line("big", 0, 3);
  CHECK_FALSE(big.answered());
  const auto equal = f.in_line("equal", 0, 1);  // would fit into the two that are free
  CHECK_FALSE(equal.answered());
  const auto higher = f.in_line("higher", 1, 1);
  REQUIRE(higher.answered());
  CHECK(higher.get()->leading_hits == 1);
  REQUIRE(f.e.complete_load(some->lease));
  REQUIRE(f.e.finish(f.holder));
  CHECK(big.answered());
  CHECK_FALSE(equal.answered());
  f.end("higher");
  CHECK(equal.answered());
  f.end("big");
  f.end("equal");
  f.e.require_promises();
}

TEST_CASE("who has waited for half of its patience goes before higher ones that have not", "[actor][grants]") {
  Full f;
  const auto low = f.in_line("low", 0, 4);
  SECTION("a little earlier it does not") {
    f.e.advance(kPatience / 2 - 500ms);
    const auto high = f.in_line("high", 9, 4);
    REQUIRE(f.e.finish(f.holder));
    CHECK(high.answered());
    CHECK_FALSE(low.answered());
    f.end("high");
    CHECK(low.answered());
    f.end("low");
  }
  SECTION("then it does, also before those that come later and would fit") {
    f.e.advance(kPatience / 2 + 500ms);
    const auto high = f.in_line("high", 9, 4);
    const auto some = f.e.prepare_load(f.holder, keys("h", 2));
    REQUIRE(some);
    const auto small = f.in_line("small", 9, 1);
    CHECK_FALSE(small.answered());
    REQUIRE(f.e.complete_load(some->lease));
    REQUIRE(f.e.finish(f.holder));
    CHECK(low.answered());
    CHECK_FALSE(high.answered());
    f.end("low");
    CHECK(high.answered());
    f.end("high");
    f.end("small");
  }
  f.e.require_promises();
}

TEST_CASE("among those that have gained, whoever runs out of patience first goes first", "[actor][grants]") {
  Full f;
  const auto slow = f.in_line("slow", 9, 4);
  f.put("hasty", 4);
  const auto r = f.e.request("hasty");
  const auto hasty = f.e.lookup(r, keys("hasty", 4), {.give_up = 50s});
  f.e.advance(kPatience / 2 + 500ms);
  REQUIRE(f.e.finish(f.holder));
  CHECK(hasty.answered());
  CHECK_FALSE(slow.answered());
  REQUIRE(f.e.finish(r));
  CHECK(slow.answered());
  f.end("slow");
  f.e.require_promises();
}

TEST_CASE("a step's loads are submitted with the highest priority first, and else as they were asked for", "[actor]") {
  VirtualEngine::Options o;
  o.pin_share = 1;
  VirtualEngine e(o);
  e.tier().automatic = false;
  LookupOptions polled;
  polled.wait = LookupWait::polled;
  std::vector<RequestHandle> requests;
  for (const auto& [name, priority] : {std::pair{"a", 0}, {"b", 1}, {"c", 0}, {"d", 1}}) {
    e.tier().present.insert(keys(name, 1)[0]);
    requests.push_back(e.request(NewRequest{.req_id = name, .priority = priority}));
    e.lookup(requests.back(), keys(name, 1), polled);
    CHECK(e.lookup(requests.back(), keys(name, 1), polled).get()->leading_hits == 1);
  }
  e.step_end();
  std::string order;
  for (const auto& job : e.tier().submitted) order += job.request->request.req_id;
  CHECK(order == "bdac");
  while (!e.tier().jobs.empty()) e.tier().finish(0);
  e.run();
  for (const auto r : requests) REQUIRE(e.finish(r));
  e.require_promises();
}
