#include "kv_offload/admission/lookup_gate.hpp"

#include "kv_offload/admission/text_format.hpp"

#include <algorithm>
#include <cassert>

namespace kv_offload {

/// What an enforcing gate answers.
LookupDecision LookupGate::judge(std::uint64_t prompt_tokens, std::uint64_t device_tokens) const {
  if (load_bound(prompt_tokens, device_tokens) >= options_.min_load_tokens)
    return LookupDecision::look_up;
  if (is_load_bearing()) return LookupDecision::look_up;
  return (totals_.skippable + 1) % options_.probe_every == 0 ? LookupDecision::forced
                                                             : LookupDecision::skip;
}

LookupDecision LookupGate::decide(std::uint64_t prompt_tokens, std::uint64_t device_tokens) const {
  return options_.mode == GateMode::enforce ? judge(prompt_tokens, device_tokens)
                                            : LookupDecision::look_up;
}

void LookupGate::count_question(std::uint64_t prompt_tokens, std::uint64_t device_tokens,
                                MonotonicTime now) {
  const std::uint64_t bound = load_bound(prompt_tokens, device_tokens);
  smallest_bound_ = std::min(smallest_bound_, bound);
  if (bound < options_.min_load_tokens) ++totals_.below_floor;
  if (device_tokens == 0) ++totals_.frontier_unknown;
  question_rate_.add(1, now);
  if ((totals_.lookups + totals_.skips) % options_.report_every == 0) ++log_moments_;
}

void LookupGate::on_issued(std::uint64_t prompt_tokens, std::uint64_t device_tokens,
                           MonotonicTime now) {
  if (options_.mode != GateMode::off) {
    const LookupDecision judged = judge(prompt_tokens, device_tokens);
    if (judged != LookupDecision::look_up) ++totals_.skippable;
    if (judged == LookupDecision::forced) ++totals_.forced;
    if (judged == LookupDecision::skip) ++totals_.would_skip;
  }
  ++totals_.lookups;
  count_question(prompt_tokens, device_tokens, now);
}

void LookupGate::on_skipped(std::uint64_t prompt_tokens, std::uint64_t device_tokens,
                            MonotonicTime now) {
  ++totals_.skippable;
  ++totals_.skips;
  totals_.avoided_tokens += prompt_tokens;
  count_question(prompt_tokens, device_tokens, now);
}

void LookupGate::on_answer(std::uint64_t hit_tokens, std::uint64_t device_tokens, Duration took) {
  const bool is_actionable = loadable_tokens(hit_tokens, device_tokens,
                                             options_.tokens_per_chunk) >= options_.min_load_tokens;
  ++totals_.answers;
  if (is_actionable) ++totals_.actionable;
  actionable_rate_ += options_.alpha * ((is_actionable ? 1.0 : 0.0) - actionable_rate_);
  totals_.lookup_seconds += to_seconds(took);
}

void LookupGate::on_no_answer(Duration took) {
  ++totals_.unanswered;
  totals_.lookup_seconds += to_seconds(took);
}

GateReport LookupGate::report(const std::string& tier, MonotonicTime now) const {
  GateReport report{"lookup_gate", tier, options_.mode, {}, {}, log_moments_};
  std::string& text = report.text;
  const std::uint64_t questions = totals_.lookups + totals_.skips;
  text = formatted(
      "%llu lookups in %.3f s, %llu skips (%llu tokens avoided), %llu forced, "
      "actionable rate %.4f, cut %g",
      count(totals_.lookups), totals_.lookup_seconds, count(totals_.skips),
      count(totals_.avoided_tokens), count(totals_.forced), actionable_rate_, options_.cut);
  const double rate = lookups_per_second(now);
  if (rate > 0) {
    text += formatted("; at %.3g requests/s: %llu lookups take %.3g s", rate,
                      count(options_.min_issued), static_cast<double>(options_.min_issued) / rate);
    const double skippable =
        questions == 0 ? 0
                       : static_cast<double>(totals_.below_floor) / static_cast<double>(questions);
    if (skippable > 0)
      text += formatted(", a forced one comes every %.3g s",
                        static_cast<double>(options_.probe_every) / (rate * skippable));
  }

  if (options_.mode == GateMode::off) {
    report.status = GateStatus::off;
  } else if (options_.min_load_tokens == 0) {
    report.status = GateStatus::unreachable;
    text += "; without a load floor every answer could matter";
  } else if (totals_.below_floor == 0 && questions >= options_.min_issued) {
    report.status = GateStatus::unreachable;
    text += formatted(
        "; no lookup can be skipped: the smallest gap in %llu was %llu tokens, the "
        "floor is %llu",
        count(questions), count(smallest_bound_), count(options_.min_load_tokens));
    if (totals_.frontier_unknown == questions) text += ", and none named what the device holds";
  } else if (questions < options_.min_issued && totals_.below_floor == 0) {
    report.status = GateStatus::warming_up;
  } else if (is_load_bearing()) {
    report.status = GateStatus::nothing_to_refuse;
    text += "; stands down: the tier is load-bearing";
  } else {
    report.status = GateStatus::refusing;
    text +=
        formatted("; %llu of %llu lookups were below the floor of %llu tokens",
                  count(totals_.below_floor), count(questions), count(options_.min_load_tokens));
    if (options_.mode == GateMode::observe)
      text += formatted(", %llu would have been skipped", count(totals_.would_skip));
  }
  return report;
}

}  // namespace kv_offload
