#include "kv_offload/tiers/workers/order_table.hpp"

#include <catch2/catch.hpp>

#include <chrono>

namespace kv_offload::test {
namespace {

using namespace std::chrono_literals;

constexpr MonotonicTime kNow{};

ReportMessage good(std::uint64_t id, std::uint64_t bytes = 10, Duration time = 5ms) {
  return {id, false, true, bytes, time, ""};
}
ReportMessage bad(std::uint64_t id) { return {id, false, false, 0, 1ms, "the device is gone"}; }

/// "o1+" success of 1, "o1-" failure, "q1" quiesced.
std::string said(OrderTable& table) {
  std::string text;
  for (const auto& event : table.take_events()) {
    if (const auto* o = std::get_if<OrderOutcome>(&event))
      text += "o" + std::to_string(o->id) + (o->success ? "+ " : "- ");
    else
      text += "q" + std::to_string(std::get<OrderTable::Quiesced>(event).id) + " ";
  }
  return text;
}

struct Table : OrderTable {
  Table() : OrderTable(3, 4) {}
  void add_one(std::uint64_t id, Duration patience = 10s, bool told = false) {
    add({id, kNow + patience, told, {}});
  }
};

TEST_CASE("an order succeeds and quiesces with its last report", "[workers]") {
  Table table;
  table.add_one(1);
  CHECK(table.report(0, good(1, 10, 5ms)) == OrderTable::Counted::counted);
  CHECK(table.report(2, good(1, 20, 9ms)) == OrderTable::Counted::counted);
  CHECK(said(table) == "");
  CHECK(table.report(0, good(1)) == OrderTable::Counted::dropped);  // twice
  CHECK(said(table) == "");
  table.report(1, good(1, 30, 1ms));
  const auto events = table.take_events();
  REQUIRE(events.size() == 2);
  const auto& outcome = std::get<OrderOutcome>(events[0]);
  CHECK(outcome.success);
  CHECK(outcome.bytes == 60);
  CHECK(outcome.time == 9ms);
  CHECK(std::get<OrderTable::Quiesced>(events[1]).id == 1);
  CHECK(table.size() == 0);
  CHECK_FALSE(table.next_deadline());
}

TEST_CASE("the first failure is the outcome, the last report the end", "[workers]") {
  Table table;
  table.add_one(1);
  table.report(1, bad(1));
  auto events = table.take_events();
  REQUIRE(events.size() == 1);
  CHECK(std::get<OrderOutcome>(events[0]).errc == OffloadErrc::io_error);
  CHECK(std::get<OrderOutcome>(events[0]).error == "rank 1: the device is gone");
  table.report(0, bad(1));
  CHECK(said(table) == "");
  table.report(2, good(1));
  CHECK(said(table) == "q1 ");
}

TEST_CASE("a deadline is an outcome and no end", "[workers]") {
  Table table;
  table.add_one(1, 5s);
  table.add_one(2, 3s);
  CHECK(table.next_deadline() == kNow + 3s);
  table.report(1, good(1));
  table.expire(kNow + 3s - 1ns);
  CHECK(said(table) == "");
  table.expire(kNow + 5s);
  const auto events = table.take_events();
  REQUIRE(events.size() == 2);
  CHECK(std::get<OrderOutcome>(events[0]).id == 2);
  CHECK(std::get<OrderOutcome>(events[1]).errc == OffloadErrc::deadline);
  CHECK(std::get<OrderOutcome>(events[1]).error == "no report in time from rank 0, 2");
  CHECK(table.deadlines() == 2);
  table.report(0, good(1));  // late
  CHECK(said(table) == "");
  table.report(2, good(1));
  CHECK(said(table) == "q1 ");
  CHECK(table.size() == 1);
}

TEST_CASE("a dead rank fails what is out at once, and quiesces what the others have reported",
          "[workers]") {
  Table table;
  for (std::uint64_t id : {1, 2, 3}) table.add_one(id);
  table.report(0, good(1));
  table.report(2, good(1));
  table.report(1, good(3));
  table.rank_over(1, OffloadErrc::io_error, "rank 1 died");
  CHECK(said(table) == "o1- q1 o2- ");  // of 3, rank 1 had its part
  table.report(0, good(2));
  table.report(2, good(2));
  CHECK(said(table) == "q2 ");
  // Whoever takes the rank has no part in what is past.
  CHECK(table.report(1, good(3)) == OrderTable::Counted::dropped);
  table.report(0, good(3));
  table.report(2, good(3));
  CHECK(said(table) == "o3+ q3 ");
}

TEST_CASE("a rank that says no more fails orders and quiesces none", "[workers]") {
  Table table;
  table.add_one(1);
  table.report(0, good(1));
  table.report(2, good(1));
  table.rank_silent(1, "rank 1 closed");
  CHECK(said(table) == "o1- ");
  table.rank_silent(1, "rank 1 closed");
  CHECK(said(table) == "");
  table.rank_over(1, OffloadErrc::io_error, "rank 1 died");
  CHECK(said(table) == "q1 ");
}

TEST_CASE("an order that cannot go to a rank fails, and waits for those that it went to",
          "[workers]") {
  Table table;
  table.add({1, kNow + 1s, false, {{1, {"rank 1 died", true}}}});
  CHECK(said(table) == "o1- ");
  table.report(0, good(1));
  table.report(2, good(1));
  CHECK(said(table) == "q1 ");
  table.add({2, kNow + 1s, true, {{1, {"rank 1 closed", false}}}});  // it may have been told
  CHECK(said(table) == "o2- ");
  table.report(0, good(2));
  table.report(2, good(2));
  CHECK(said(table) == "");
  table.rank_over(1, OffloadErrc::io_error, "rank 1 died");
  CHECK(said(table) == "q2 ");
}

TEST_CASE("reports may come before an order that the embedder has told", "[workers]") {
  Table table;
  CHECK(table.report(0, good(7, 1)) == OrderTable::Counted::early);
  CHECK(table.report(2, bad(7)) == OrderTable::Counted::early);
  CHECK(table.report(2, good(7)) == OrderTable::Counted::dropped);
  table.add_one(7, 10s, true);
  CHECK(said(table) == "o7- ");
  table.report(1, good(7, 2));
  CHECK(said(table) == "q7 ");
  for (std::uint32_t rank : {0, 1, 2}) table.report(rank, good(8));
  table.add_one(8, 10s, true);
  CHECK(said(table) == "o8+ q8 ");
}

TEST_CASE("an order of the hub's own has nothing of an early report with its id", "[workers]") {
  Table table;
  table.report(0, good(7));
  table.add_one(7);
  table.report(1, good(7));
  table.report(2, good(7));
  CHECK(said(table) == "");
  CHECK(table.report(0, good(7)) == OrderTable::Counted::counted);
  CHECK(said(table) == "o7+ q7 ");
}

TEST_CASE("early reports are bounded per rank, the oldest is forgotten and counted", "[workers]") {
  Table table;
  for (std::uint64_t id = 0; id < 6; ++id) table.report(1, good(id));
  CHECK(table.forgotten() == 2);
  table.report(0, good(0));
  CHECK(table.forgotten() == 2);  // each rank has its own
  for (std::uint64_t id : {1, 2}) {
    table.add_one(id, 10s, true);
    table.report(0, good(id));
    table.report(2, good(id));
  }
  CHECK(said(table) == "o2+ q2 ");  // 1 waits for what was forgotten
  table.expire(kNow + 10s);
  CHECK(said(table) == "o1- ");
  table.rank_over(1, OffloadErrc::io_error, "rank 1 died");
  CHECK(said(table) == "q1 ");
}

TEST_CASE("at the end every order without an outcome gets one, and no end", "[workers]") {
  Table table;
  table.add_one(1);
  table.add_one(2);
  table.report(0, bad(2));
  CHECK(said(table) == "o2- ");
  table.fail_all(OffloadErrc::shutting_down, "the engine ends");
  const auto events = table.take_events();
  REQUIRE(events.size() == 1);
  CHECK(std::get<OrderOutcome>(events[0]).id == 1);
  CHECK(std::get<OrderOutcome>(events[0]).errc == OffloadErrc::shutting_down);
}

TEST_CASE("what an embedder told must be what the order is for", "[workers]") {
  const auto outcome_of = [](bool told, bool is_load, std::uint64_t rows) {
    OrderTable table(1, 4);
    OrderTable::NewOrder order{1, MonotonicTime::max(), told, {}, false, 7};
    table.add(order);
    ReportMessage report{1, is_load, true, 1, Duration(1), "", rows};
    table.report(0, report);
    const auto events = table.take_events();
    REQUIRE(events.size() == 2);
    return std::get<OrderOutcome>(events[0]);
  };
  CHECK(outcome_of(true, false, 7).success);
  CHECK_FALSE(outcome_of(true, true, 7).success);
  CHECK(outcome_of(true, true, 7).error == "rank 0: was told to load, the order is a store");
  CHECK_FALSE(outcome_of(true, false, 8).success);
  CHECK(outcome_of(false, false, 8).success);  // the hub's own order: it told
}

}  // namespace
}  // namespace kv_offload::test
