#include "kv_offload/bench/cascade_window.hpp"
#include "kv_offload/bench/device.hpp"
#include "kv_offload/bench/latency.hpp"
#include "kv_offload/bench/progress.hpp"
#include "kv_offload/bench/stress_events.hpp"
#include "kv_offload/bench/stress_faults.hpp"
#include "kv_offload/bench/text_table.hpp"
#include "kv_offload/bench/work_dir.hpp"
#include "kv_offload/tests/bench/child_process.hpp"

#include <catch2/catch.hpp>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

using namespace kv_offload;
using namespace kv_offload::bench;
using std::chrono::microseconds;

TEST_CASE("latency quantiles are within 3 percent of the real ones", "[bench][unit]") {
  LatencyRecorder recorder;
  for (int us = 1; us <= 10000; ++us) recorder.record(microseconds(us));
  CHECK(recorder.count() == 10000);
  CHECK(recorder.quantile_us(0.50) == Approx(5000).epsilon(0.035));
  CHECK(recorder.quantile_us(0.99) == Approx(9900).epsilon(0.035));
  CHECK(recorder.quantile_us(1.0) == 10000);
  CHECK(recorder.max_us() == 10000);
}

TEST_CASE("an empty latency recorder answers 0 and one sample is every quantile", "[bench][unit]") {
  LatencyRecorder recorder;
  CHECK(recorder.quantile_us(0.99) == 0);
  recorder.record(microseconds(40));
  CHECK(recorder.quantile_us(0.01) == Approx(40).epsilon(0.035));
  CHECK(recorder.quantile_us(0.99) == Approx(40).epsilon(0.035));
}

TEST_CASE("merged latencies count as if recorded together", "[bench][unit]") {
  LatencyRecorder fast, slow;
  for (int i = 0; i < 99; ++i) fast.record(microseconds(10));
  slow.record(std::chrono::seconds(1));
  fast.merge(slow);
  CHECK(fast.count() == 100);
  CHECK(fast.quantile_us(0.5) == Approx(10).epsilon(0.035));
  CHECK(fast.quantile_us(0.995) == Approx(1e6).epsilon(0.035));
}

namespace {

struct OpenStore {
  std::shared_ptr<CompletionSlot<StoreOutcome>> slot =
      std::make_shared<CompletionSlot<StoreOutcome>>(0);
  Pending<StoreOutcome> pending() { return Pending<StoreOutcome>(slot); }
};

constexpr auto kNoWait = std::chrono::milliseconds(1);

}  // namespace

TEST_CASE("the cascade window lets in what fits and waits for the rest", "[bench][unit]") {
  CascadeWindow window(10);
  OpenStore first;
  REQUIRE(window.acquire(8, kNoWait));
  window.follow(first.pending(), 8);
  CHECK(window.acquire(2, kNoWait));
  CHECK_FALSE(window.acquire(1, kNoWait));
  window.release(3);
  first.slot->deliver(StoreOutcome{.published = 8, .chunks_stored = 16, .chunks_failed = 1});
  CHECK(window.wait_idle(kNoWait));
  CHECK(window.totals().stored == 16);
  CHECK(window.totals().failed == 1);
}

TEST_CASE("a store larger than the cascade window goes alone", "[bench][unit]") {
  CascadeWindow window(4);
  CHECK(window.acquire(9, kNoWait));
  CHECK_FALSE(window.acquire(1, kNoWait));
}

TEST_CASE("a completion that answers an error still leaves the cascade window", "[bench][unit]") {
  CascadeWindow window(4);
  OpenStore store;
  REQUIRE(window.acquire(4, kNoWait));
  window.follow(store.pending(), 4);
  store.slot->deliver(OffloadError{OffloadErrc::engine_failed, "gone"});
  CHECK(window.wait_idle(kNoWait));
  CHECK(window.totals().errors == 1);
  CHECK(window.totals().first_error == "gone");
}

namespace {

OffloadingEvent event(bool removed, std::uint64_t chunk, ChunkId slot) {
  OffloadingEvent e;
  e.keys = {chunk_key(chunk)};
  e.removed = removed;
  e.chunk_ids = {slot};
  return e;
}

}  // namespace

TEST_CASE("removed before stored is the right order for a slot", "[bench][unit]") {
  SlotWatch watch;
  watch.see({event(false, 1, 0), event(false, 2, 1), event(true, 1, 0), event(false, 3, 0)});
  watch.see({event(true, 3, 0), event(false, 1, 0)});
  CHECK(watch.violations() == 0);
  CHECK(watch.stored() == 4);
  CHECK(watch.removed() == 2);
}

TEST_CASE("a slot stored before its occupant was removed is a violation", "[bench][unit]") {
  SlotWatch watch;
  watch.see({event(false, 1, 5), event(false, 2, 5), event(true, 1, 5)});
  CHECK(watch.violations() == 2);
  CHECK(watch.first_violation().find("slot 5") == 0);
}

TEST_CASE("events of secondary tiers, which name no slots, are passed over", "[bench][unit]") {
  SlotWatch watch;
  auto e = event(false, 1, 0);
  e.chunk_ids.clear();
  watch.see({e, e});
  CHECK(watch.violations() == 0);
}

TEST_CASE("faults are parsed by tier number or label", "[bench][unit]") {
  std::vector<SecondaryTierConfig> tiers(2);
  tiers[0].type = tiers[1].type = "fs";
  const auto slow = parse_fault("2:slow:20", tiers), named = parse_fault("2:fs:slow:20", tiers);
  REQUIRE(slow);
  REQUIRE(named);
  CHECK(slow->tier == 1);
  CHECK(slow->kind == FaultKind::slow);
  CHECK(slow->arg == 20);
  CHECK(named->tier == 1);
  CHECK(named->arg == 20);
  REQUIRE(parse_fault("1:kill", tiers));
  CHECK(parse_fault("1:kill", tiers)->is_late());
  CHECK_FALSE(parse_fault("1:full", tiers)->is_late());
  for (const auto* bad :
       {"", "kill", "0:kill", "3:kill", "1.5:kill", "1:slow", "1:slow:", "1:slow:x", "1:slow:0.5",
        "1:kill:3", "1:obj:kill", "1:fs", "1:eio:0", "1:nothing"}) {
    CAPTURE(bad);
    const auto fault = parse_fault(bad, tiers);
    REQUIRE_FALSE(fault);
    CHECK(to_string(fault.error()).find("--fault: ") == 0);
    CHECK(to_string(fault.error()).find('\n') == std::string::npos);
  }
}

TEST_CASE("faults switch on what they name and clear to nothing", "[bench][unit]") {
  EngineConfig config;
  config.secondary_tiers.resize(2);
  FaultPanel panel(config);
  panel.apply({1, FaultKind::eio, 7});
  panel.apply({1, FaultKind::delay, 1500});
  panel.apply({1, FaultKind::hang, 0});
  const TierFaults& second = *config.secondary_tiers[1].faults;
  CHECK(second.store_error_every == 7);
  CHECK(second.load_error_every == 7);
  CHECK(second.delay_us == 1500);
  CHECK(second.hang);
  CHECK(config.secondary_tiers[0].faults->store_error_every == 0);
  panel.clear();
  CHECK(second.store_error_every == 0);
  CHECK(second.delay_us == 0);
  CHECK_FALSE(second.hang);
}

TEST_CASE("a temporary work directory goes with its owner, a named one stays", "[bench][unit]") {
  std::filesystem::path temporary, named;
  {
    const auto dir = WorkDir::open(std::nullopt);
    REQUIRE(dir);
    temporary = dir->path();
    const auto tier = dir->subdirectory("1:fs");
    REQUIRE(tier);
    CHECK(tier->filename() == "1-fs");
    std::ofstream(*tier / "file") << "x";
    const auto kept = WorkDir::open((dir->path() / "kept").string());
    REQUIRE(kept);
    named = kept->path();
    CHECK(std::filesystem::is_directory(named));
    CHECK_FALSE(WorkDir::open((dir->path() / "no" / "parent").string()));
    CHECK_FALSE(WorkDir::open((*tier / "file").string()));
  }
  CHECK_FALSE(std::filesystem::exists(temporary));
}

TEST_CASE("the first interrupt is noticed, the second one ends the run and says what stays",
          "[bench][unit]") {
  const int signal = GENERATE(SIGINT, SIGTERM, SIGHUP);
  const auto dir = WorkDir::open(std::nullopt);
  REQUIRE(dir);
  const auto [status, text] = in_a_process([&] {
    std::signal(SIGHUP, SIG_DFL);  // also where the tests run under nohup
    watch_interrupts();
    ::raise(signal);
    if (!interrupted()) ::_exit(98);
    ::raise(signal);
  });
  CAPTURE(signal, status, text);
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == signal);
  CHECK(text ==
        "kv-offload-bench: ended at once; what is left stays in " + dir->path().string() + "\n");
}

TEST_CASE("a directory that is gone, or that the user named, is not said to stay",
          "[bench][unit]") {
  { const auto gone = WorkDir::open(std::nullopt); }
  const auto parent = WorkDir::open(std::nullopt);
  const auto named = WorkDir::open((parent->path() / "named").string());
  const auto [status, text] = in_a_process([] { tell_temporary_directories(); });
  CHECK(WEXITSTATUS(status) == 99);
  CHECK(text ==
        "kv-offload-bench: ended at once; what is left stays in " + parent->path().string() + "\n");
}

TEST_CASE("who ignores a hang-up goes on ignoring it", "[bench][unit]") {
  const auto [status, text] = in_a_process([] {
    std::signal(SIGHUP, SIG_IGN);
    watch_interrupts();
    ::raise(SIGHUP);
    ::_exit(interrupted() ? 98 : 0);
  });
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(text.empty());
}

TEST_CASE("tables align and numbers read well", "[bench][unit]") {
  TextTable table;
  table.row({"a", "1", "22"});
  table.row({"long", "333", ""});
  std::ostringstream out;
  table.print(out);
  CHECK(out.str() == "a       1  22\nlong  333\n");
  CHECK(with_commas(0) == "0");
  CHECK(with_commas(1234567) == "1,234,567");
  CHECK(human_bytes(1536) == "1.5 KiB");
  CHECK(human_us(1500) == "1.50 ms");
  CHECK(share_text(1, 3) == "0.3333");
  CHECK(share_text(1, 0) == "0.0000");
}
