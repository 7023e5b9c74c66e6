#include "kv_offload/bench/stress_run.hpp"
#include "kv_offload/bench/text_table.hpp"

#include <algorithm>
#include <optional>
#include <utility>

// What the harness knows beyond the engine's own numbers, promise by promise.
namespace kv_offload::bench {
namespace {

/// Collects what speaks against one promise.
class Evidence {
 public:
  void add(std::uint64_t count, const std::string& what) {
    if (count > 0) add(with_commas(count) + " " + what);
  }
  void add(const std::string& what) {
    if (!what.empty()) text_ += (text_.empty() ? "" : "; ") + what;
  }
  void into(PromiseCheck& check) const {
    if (text_.empty()) return;
    check.held = false;
    check.why += (check.why.empty() ? "" : "; ") + text_;
  }

 private:
  std::string text_;
};

Evidence verified_bytes(const StressFindings& f) {
  Evidence e;
  e.add(f.callers.mismatches,
        "chunks read were not their key's, first: " + f.callers.first_mismatch);
  e.add(f.canary_mismatches, "chunks of the canary differ");
  return e;
}

Evidence ended_waits(const StressFindings& f) {
  Evidence e;
  e.add(f.callers.unanswered, "calls had no answer");
  e.add(f.completions_open, "complete_store calls had no answer");
  // Every caller has ended its requests and leases by now.
  e.add(f.stats.scheduler.requests_live, "requests are still live");
  e.add(f.stats.scheduler.leases_open, "leases are still open");
  e.add(f.stats.scheduler.calls_open, "calls are still open");
  return e;
}

Evidence untouched_slots(const StressFindings& f) {
  Evidence e;
  e.add(f.callers.changed_under_lease,
        "chunks changed while leased, first: " + f.callers.first_change);
  e.add(f.canary_lost, "rounds in which a leased chunk was gone");
  return e;
}

Evidence ordered_events(const StressFindings& f) {
  Evidence e;
  e.add(f.slots.violations(), "events out of order, first: " + f.slots.first_violation());
  return e;
}

Evidence no_strangers(const StressFindings& f) {
  // A round changes threads about ten times, and each change may cost what a sleep oversleeps: that is
  // the machine's doing. Few rounds have no 99th of 100.
  constexpr double kThreadChanges = 10;
  const double share = f.canary_latency.count() >= 500 ? 0.99 : 0.9;
  const double limit_us =
      to_seconds(canary_limit()) * 1e6 + kThreadChanges * f.canary_overslept.quantile_us(share);
  const double took_us = f.canary_latency.quantile_us(share);
  Evidence e;
  if (took_us > limit_us)
    e.add("a caller of resident chunks waited " + human_us(took_us) + " (p" +
          fixed(share * 100, 0) + " of " + with_commas(f.canary_latency.count()) + "), allowed " +
          human_us(limit_us));
  e.add(f.canary_rounds_unanswered, "of its lookups had no answer");
  return e;
}

}  // namespace

std::vector<PromiseCheck> judge(const StressFindings& found) {
  std::vector<PromiseCheck> checks = check_promises(found.stats, /*idle=*/true);
  checks.push_back({1, "every byte read was verified and is its key's", true, ""});
  checks.push_back({7, "removed events precede the stored event that reuses the slot", true, ""});
  checks.push_back({8, "no request waits for another request's step", true, ""});
  std::sort(checks.begin(), checks.end(),
            [](const auto& a, const auto& b) { return a.number < b.number; });
  const auto judge_one = [&](int number, const Evidence& evidence) {
    for (auto& check : checks)
      if (check.number == number) evidence.into(check);
  };
  for (const auto& seen : found.seen_while_running) {
    for (auto& check : checks) {
      if (check.number != seen.number || !check.held) continue;  // one reason is enough
      check.held = false;
      check.why = "while running: " + seen.why;
    }
  }
  judge_one(1, verified_bytes(found));
  judge_one(4, ended_waits(found));
  judge_one(6, untouched_slots(found));
  // Events that were dropped unread leave gaps in which every order looks possible.
  if (found.stats.primary.events_dropped == 0) judge_one(7, ordered_events(found));
  judge_one(8, no_strangers(found));
  return checks;
}

}  // namespace kv_offload::bench
