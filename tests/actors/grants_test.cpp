#include "kv_offload/tests/support/virtual_engine.hpp"

#include <utility>

// Slots for promotions: who waits in line for them, for how long, and who does not.
using namespace kv_offload;
using namespace kv_offload::test;
using namespace std::chrono_literals;

namespace {

constexpr Duration kPatience = 30s;  // half of the default deadlines.lookup

/// Sixteen slots, of which promotions that were not read yet may take eight.
VirtualEngine::Options options() {
  VirtualEngine::Options o;
  o.chunks = 16;
  o.primary = PrimaryConfig{0.0, 0.5, 0.5};
  o.pin_share = 1;
  return o;
}
KeyList operator+(KeyList a, const KeyList& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
void put(VirtualEngine& e, const KeyList& keys) { e.tier().present.insert(keys.begin(), keys.end()); }

/// Eight landed chunks that `r` has not read: nothing is left to promote into.
struct Held {
  explicit Held(VirtualEngine& e) : r(e.request("holder")) {
    put(e, keys("h", 8));
    REQUIRE(e.lookup(r, keys("h", 8)).get()->promoted == 8);
  }
  RequestHandle r;
};
std::uint64_t no_space(VirtualEngine& e) { return e.stats().scheduler.promotion_allocation_failures; }

}  // namespace

TEST_CASE("a lookup that finds too few slots waits until a holder begins to read", "[actor][grants]") {
  VirtualEngine e(options());
  const Held holder(e);
  put(e, keys("k", 4));
  const auto r = e.request();
  const auto call = e.lookup(r, keys("k", 4));
  CHECK_FALSE(call.answered());
  CHECK(e.tier().submitted.size() == 1);  // the holder's
  const auto plan = e.prepare_load(holder.r, keys("h", 4));
  REQUIRE(plan);
  REQUIRE(call.answered());
  const auto answer = call.get();
  REQUIRE(answer);
  CHECK(answer->leading_hits == 4);
  CHECK(answer->promoted == 4);
  CHECK(answer->truncated == 0);
  CHECK(no_space(e) == 0);
  REQUIRE(e.complete_load(plan->lease));
  REQUIRE(e.finish(r));
  REQUIRE(e.finish(holder.r));
  e.require_promises();
}

TEST_CASE("a waiting lookup is answered when pinned slots come free with complete_load", "[actor][grants]") {
  auto o = options();
  o.chunks = 8;
  o.primary = PrimaryConfig{0.0, 0.0, 1.0};  // everything may be unread: only pins are in the way
  VirtualEngine e(o);
  const Held holder(e);
  const auto plan = e.prepare_load(holder.r, keys("h", 8));
  REQUIRE(plan);
  REQUIRE(plan->chunk_ids.size() == 8);
  put(e, keys("k", 8));
  const auto r = e.request();
  const auto call = e.lookup(r, keys("k", 8));
  CHECK_FALSE(call.answered());
  REQUIRE(e.complete_load(plan->lease));
  REQUIRE(call.answered());
  CHECK(call.get()->leading_hits == 8);
  REQUIRE(e.finish(r));
  REQUIRE(e.finish(holder.r));
  e.require_promises();
}

TEST_CASE("the end of a holder's request serves those in line, in the order of arrival", "[actor][grants]") {
  VirtualEngine e(options());
  const Held holder(e);
  put(e, keys("a", 6) + keys("b", 6) + keys("c", 2));
  const auto a = e.request("a"), b = e.request("b"), c = e.request("c");
  const auto call_a = e.lookup(a, keys("a", 6));
  const auto call_b = e.lookup(b, keys("b", 6));
  const auto call_c = e.lookup(c, keys("c", 2));
  CHECK_FALSE(call_a.answered());
  REQUIRE(e.finish(holder.r));
  REQUIRE(call_a.answered());
  CHECK(call_a.get()->leading_hits == 6);
  CHECK_FALSE(call_b.answered());
  CHECK_FALSE(call_c.answered());  // its two would fit, and it came after b
  REQUIRE(e.finish(a));
  REQUIRE(call_b.answered());
  CHECK(call_b.get()->leading_hits == 6);
  REQUIRE(call_c.answered());  // six and two fit beside each other
  CHECK(call_c.get()->leading_hits == 2);
  REQUIRE(e.finish(b));
  REQUIRE(e.finish(c));
  CHECK(no_space(e) == 0);
  e.require_promises();
}

TEST_CASE("who has waited for half of its deadline gets what there is", "[actor][grants]") {
  VirtualEngine e(options());
  const Held holder(e);
  const auto some = e.prepare_load(holder.r, keys("h", 3));  // three of the eight are being read
  REQUIRE(some);
  put(e, keys("k", 5));
  const auto r = e.request();
  const auto call = e.lookup(r, keys("k", 5));
  e.advance(kPatience - 500ms);
  CHECK_FALSE(call.answered());
  e.advance(1s);
  REQUIRE(call.answered());
  const auto answer = call.get();
  REQUIRE(answer);
  CHECK(answer->leading_hits == 3);
  CHECK(answer->truncated == 2);
  CHECK(no_space(e) == 1);
  REQUIRE(e.complete_load(some->lease));
  REQUIRE(e.finish(r));
  REQUIRE(e.finish(holder.r));
  e.require_promises();
}

TEST_CASE("a lookup whose own deadline comes first does not wait beyond it", "[actor][grants]") {
  auto o = options();
  o.tiers = 8;  // each asked in turn, and silent until its probe is given up after five seconds
  VirtualEngine e(o);
  for (std::size_t t = 0; t < 7; ++t) e.tier(t).answers_probes = false;
  const auto holder = e.request("holder", TierFilter{});
  const auto list = keys("h", 8);
  e.tier(7).present.insert(list.begin(), list.end());
  auto first = e.lookup(holder, list);
  e.advance(36s);
  REQUIRE(first.answered());
  REQUIRE(first.get()->promoted == 8);
  e.tier(7).present.insert(keys("k", 1)[0]);
  const auto r = e.request();
  const auto call = e.lookup(r, keys("k", 1));
  e.advance(36s);                // seven probes later it is in line, and its patience would last until 66 s
  CHECK_FALSE(call.answered());
  e.advance(23s);
  CHECK_FALSE(call.answered());
  e.advance(1500ms);             // its call's deadline was at 60 s
  REQUIRE(call.answered());
  CHECK(call.get()->leading_hits == 0);
  REQUIRE(e.finish(r));
  REQUIRE(e.finish(holder));
  e.require_promises();
}

TEST_CASE("lookups that do not wait for landing take what there is at once", "[actor][grants]") {
  const auto wait = GENERATE(LookupWait::resolved, LookupWait::polled);
  VirtualEngine e(options());
  const Held holder(e);
  const auto some = e.prepare_load(holder.r, keys("h", 3));
  REQUIRE(some);
  put(e, keys("k", 5));
  const auto r = e.request();
  LookupOptions how;
  how.wait = wait;
  if (wait == LookupWait::polled) {
    REQUIRE(e.lookup(r, keys("k", 5), how).get()->results.front() == LookupResult::retry);  // the probe runs
  }
  const auto call = e.lookup(r, keys("k", 5), how);
  REQUIRE(call.answered());
  const auto answer = call.get();
  REQUIRE(answer);
  CHECK(answer->leading_hits == 3);
  CHECK(answer->truncated == 2);
  CHECK(answer->results.front() == LookupResult::hit_pending);
  e.step_end();
  REQUIRE(e.complete_load(some->lease));
  REQUIRE(e.finish(r));
  REQUIRE(e.finish(holder.r));
  e.require_promises();
}

TEST_CASE("a lookup that does not wait takes nothing from the line's places", "[actor][grants]") {
  VirtualEngine e(options());
  const Held holder(e);
  put(e, keys("k", 4) + keys("q", 2));
  const auto r = e.request("r"), quick = e.request("quick");
  const auto call = e.lookup(r, keys("k", 4));
  LookupOptions how;
  how.wait = LookupWait::resolved;
  CHECK(e.lookup(quick, keys("q", 2), how).get()->leading_hits == 0);
  CHECK_FALSE(call.answered());
  REQUIRE(e.finish(holder.r));
  REQUIRE(call.answered());
  CHECK(call.get()->leading_hits == 4);
  REQUIRE(e.finish(r));
  REQUIRE(e.finish(quick));
  e.require_promises();
}

TEST_CASE("a refused lookup is answered although others stand in line", "[actor][grants]") {
  auto o = options();
  o.admission = R"({"type": "promotion_concurrency", "max_inflight_promotions": 8})";
  VirtualEngine e(o);
  const Held holder(e);
  put(e, keys("k", 8) + keys("y", 1));
  const auto r = e.request("r"), y = e.request("y");
  const auto call = e.lookup(r, keys("k", 8));  // its eight admissions are in flight while it waits
  CHECK_FALSE(call.answered());
  const auto refused = e.lookup(y, keys("y", 1));
  REQUIRE(refused.answered());
  CHECK(refused.get()->refused == 1);
  REQUIRE(e.finish(holder.r));
  CHECK(call.get()->leading_hits == 8);
  REQUIRE(e.finish(r));
  REQUIRE(e.finish(y));
  e.require_promises();
}

TEST_CASE("a request does not wait for slots that only it holds", "[actor][grants]") {
  VirtualEngine e(options());
  put(e, keys("k", 12));
  const auto r = e.request();
  REQUIRE(e.lookup(r, keys("k", 6)).get()->promoted == 6);
  const auto call = e.lookup(r, keys("k", 6) + keys("k", 6, 6));
  REQUIRE(call.answered());  // two more fit beside its own six
  const auto answer = call.get();
  CHECK(answer->leading_hits == 8);
  CHECK(answer->truncated == 4);
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("a prefix larger than an idle primary tier would give does not wait for more", "[actor][grants]") {
  auto o = options();
  o.primary = PrimaryConfig{0.5, 0.5, 1.0};  // half is kept for stores
  VirtualEngine e(o);
  put(e, keys("k", 12));
  const auto r = e.request();
  const auto call = e.lookup(r, keys("k", 12));
  REQUIRE(call.answered());
  CHECK(call.get()->leading_hits == 8);
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("abort and end of request answer who stands in line, and nothing is loaded for it", "[actor][grants]") {
  const bool aborts = GENERATE(true, false);
  VirtualEngine e(options());
  const Held holder(e);
  put(e, keys("k", 4) + keys("n", 4));
  const auto r = e.request("r"), next = e.request("next");
  const auto call = e.lookup(r, keys("k", 4));
  const auto behind = e.lookup(next, keys("n", 4));
  CHECK_FALSE(call.answered());
  if (aborts) REQUIRE(e.abort(r));
  else REQUIRE(e.finish(r));
  REQUIRE(call.answered());
  CHECK(call.get().error().code == OffloadErrc::aborted);
  CHECK_FALSE(behind.answered());
  REQUIRE(e.finish(holder.r));
  REQUIRE(behind.answered());
  CHECK(behind.get()->leading_hits == 4);
  CHECK(e.tier().submitted.size() == 2);  // the holder's and the next one's
  if (aborts) REQUIRE(e.finish(r));
  REQUIRE(e.finish(next));
  CHECK(no_space(e) == 0);
  e.require_promises();
}

TEST_CASE("who joined a load that never got a slot loads it instead", "[actor][grants]") {
  VirtualEngine e(options());
  const Held holder(e);
  put(e, keys("k", 4));
  const auto first = e.request("first"), second = e.request("second");
  const auto claims = e.lookup(first, keys("k", 4));
  const auto joins = e.lookup(second, keys("k", 4));
  REQUIRE(e.abort(first));
  CHECK(claims.get().error().code == OffloadErrc::aborted);
  CHECK_FALSE(joins.answered());
  REQUIRE(e.finish(holder.r));
  REQUIRE(joins.answered());
  CHECK(joins.get()->leading_hits == 4);
  REQUIRE(e.finish(first));
  REQUIRE(e.finish(second));
  e.require_promises();
}

TEST_CASE("who joined at its claim a load that never got a slot loads it instead", "[actor][grants]") {
  VirtualEngine e(options());
  const Held holder(e);
  put(e, keys("k", 4));
  e.tier().answers_probes = false;
  const auto first = e.request("first"), second = e.request("second");
  const auto claims = e.lookup(first, keys("k", 4));
  const auto joins = e.lookup(second, keys("k", 4));  // asks the tier, too: nobody has claimed anything yet
  REQUIRE(e.tier().probes.size() >= 1);
  e.tier().answers_probes = true;
  for (const auto& [id, list] : std::exchange(e.tier().probes, {})) e.tier().answer_probe(id, list);
  e.run();
  CHECK_FALSE(claims.answered());
  REQUIRE(e.abort(first));
  CHECK_FALSE(joins.answered());
  REQUIRE(e.finish(holder.r));
  REQUIRE(joins.answered());
  const auto answer = joins.get();
  CHECK(answer->leading_hits == 4);
  CHECK(answer->promoted == 4);
  REQUIRE(e.finish(first));
  REQUIRE(e.finish(second));
  e.require_promises();
}

TEST_CASE("a reset answers who stands in line at once, and does not wait for its patience", "[actor][grants]") {
  VirtualEngine e(options());
  const Held holder(e);
  put(e, keys("k", 4));
  const auto r = e.request();
  const auto call = e.lookup(r, keys("k", 4));
  const auto before = e.scheduler().clock().now();
  REQUIRE(e.reset());  // answered without any time passing
  CHECK(e.scheduler().clock().now() == before);
  REQUIRE(call.answered());
  CHECK(call.get().error().code == OffloadErrc::resetting);
  CHECK(e.lookup(r, keys("k", 4)).get()->leading_hits == 4);  // the holds are gone
  REQUIRE(e.finish(r));
  REQUIRE(e.finish(holder.r));
  e.require_promises();
}

TEST_CASE("a drain does not wait for those in line", "[actor][grants]") {
  VirtualEngine e(options());
  const Held holder(e);
  put(e, keys("k", 4));
  const auto r = e.request();
  const auto call = e.lookup(r, keys("k", 4));
  const auto drained = e.start<Ok>([](Reply<Ok> reply) { return DrainCall{false, std::nullopt, std::move(reply)}; });
  REQUIRE(drained.answered());
  REQUIRE(drained.get());
  CHECK_FALSE(call.answered());
  REQUIRE(e.finish(holder.r));
  CHECK(call.get()->leading_hits == 4);
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("two requests that each hold half and want the other's half both end", "[actor][grants]") {
  VirtualEngine e(options());
  put(e, keys("a", 8) + keys("b", 8));
  const auto a = e.request("a"), b = e.request("b");
  REQUIRE(e.lookup(a, keys("a", 4)).get()->promoted == 4);
  REQUIRE(e.lookup(b, keys("b", 4)).get()->promoted == 4);
  const auto more_a = e.lookup(a, keys("a", 8));
  const auto more_b = e.lookup(b, keys("b", 8));
  CHECK_FALSE(more_a.answered());
  CHECK_FALSE(more_b.answered());
  e.advance(kPatience + 1s);
  REQUIRE(more_a.answered());
  REQUIRE(more_b.answered());
  CHECK(more_a.get()->leading_hits == 4);  // what each held is still there
  CHECK(more_b.get()->leading_hits == 4);
  REQUIRE(e.finish(a));
  REQUIRE(e.finish(b));
  e.require_promises();
}

TEST_CASE("an engine that ends answers those in line", "[actor][grants]") {
  std::optional<VirtualEngine::Call<LookupAnswer>> call;
  {
    VirtualEngine e(options());
    const Held holder(e);
    put(e, keys("k", 4));
    call = e.lookup(e.request(), keys("k", 4));
    CHECK_FALSE(call->answered());
  }
  REQUIRE(call->answered());
  CHECK(call->get().error().code == OffloadErrc::shutting_down);
}
