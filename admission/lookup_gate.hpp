#pragma once

#include "kv_offload/admission/event_rate.hpp"
#include "kv_offload/messages/gate_report.hpp"
#include "kv_offload/messages/load_verdict.hpp"
#include "kv_offload/messages/monotonic_time.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace kv_offload {

enum class LookupDecision : std::uint8_t {
  look_up,
  skip,    ///< answer "nothing there", one unpaid verdict, keep the save floor
  forced,  ///< could be skipped, but is asked to keep the estimate fed
};
constexpr std::string_view to_string(LookupDecision d) {
  return d == LookupDecision::skip ? "skip" : d == LookupDecision::forced ? "forced" : "look_up";
}

/// Defaults of the reference; `alpha` is ours, chosen so that one good answer in a hundred holds
/// the tier above the cut.
struct LookupGateOptions {
  GateMode mode = GateMode::enforce;
  std::uint64_t min_load_tokens = 8192;  ///< load floor: less is computed anew rather than loaded
  double cut = 0.01;                     ///< actionable rate from which on a tier is never skipped
  std::uint64_t min_issued = 64;         ///< lookups before the rate counts for anything
  std::uint64_t probe_every = 32;        ///< of the skippable requests, one in so many is asked
  double alpha = 1.0 / 64;               ///< (0, 1]: weight of an answer
  std::uint32_t report_every = 256;      ///< lookups and skips between two log lines
  std::uint64_t tokens_per_chunk = 1;    ///< loads are whole chunks
};

/// Decides whether a slow tier is asked about a request at all. A lookup whose best answer could
/// not clear the load floor is skipped, unless the tier is load-bearing: a skip also claims that
/// the tier holds what the device holds, and in a tier that really serves, the store so suppressed
/// is a later hit lost. It decides lookups, not jobs, and is fed only by lookups that ran: a rate
/// that the skip itself inflates would drive the skip.
///
/// One object per tier, owned by the admission actor. `decide` is pure; commit its answer with
/// on_issued or on_skipped before the next question. No clock, O(1) state, value type.
class LookupGate {
 public:
  struct Totals {
    std::uint64_t lookups = 0;     ///< issued
    std::uint64_t answers = 0;     ///< of issued lookups, misses included
    std::uint64_t actionable = 0;  ///< answers with a load worth making
    std::uint64_t unanswered = 0;  ///< issued, given up without an answer
    std::uint64_t skippable = 0;   ///< counted by the cadence: skipped, forced or would be skipped
    std::uint64_t forced = 0;      ///< issued although skippable
    std::uint64_t skips = 0;
    std::uint64_t would_skip = 0;        ///< mode observe: issued
    std::uint64_t avoided_tokens = 0;    ///< of the prompts whose lookup was skipped
    std::uint64_t below_floor = 0;       ///< questions whose bound was below the load floor
    std::uint64_t frontier_unknown = 0;  ///< questions with nothing on the device
    double lookup_seconds = 0;
  };

  explicit LookupGate(const LookupGateOptions& options) : options_(options) {}

  /// Should the tier be asked about a prompt of which the device holds `device_tokens` (0:
  /// unknown)?
  [[nodiscard]] LookupDecision decide(std::uint64_t prompt_tokens,
                                      std::uint64_t device_tokens) const;

  /// A lookup was started; `decide` said look_up or forced.
  void on_issued(std::uint64_t prompt_tokens, std::uint64_t device_tokens, MonotonicTime now);
  /// No lookup was started; `decide` said skip.
  void on_skipped(std::uint64_t prompt_tokens, std::uint64_t device_tokens, MonotonicTime now);
  /// An issued lookup was answered: the tier reaches to the first `hit_tokens` (0: a miss).
  void on_answer(std::uint64_t hit_tokens, std::uint64_t device_tokens, Duration took);
  /// An issued lookup was given up without an answer; nothing is learnt.
  void on_no_answer(Duration took);

  /// Moving average of answers worth a load.
  [[nodiscard]] double actionable_rate() const { return actionable_rate_; }
  [[nodiscard]] bool is_load_bearing() const {
    return totals_.lookups >= options_.min_issued && actionable_rate_ >= options_.cut;
  }
  [[nodiscard]] const LookupGateOptions& options() const { return options_; }
  [[nodiscard]] const Totals& totals() const { return totals_; }
  /// Smallest bound asked about so far; the load floor has to be above it for a skip to be
  /// possible.
  [[nodiscard]] std::uint64_t smallest_bound() const { return smallest_bound_; }
  [[nodiscard]] double lookups_per_second(MonotonicTime now) const {
    return question_rate_.per_second(now);
  }
  [[nodiscard]] GateReport report(const std::string& tier, MonotonicTime now) const;

 private:
  [[nodiscard]] LookupDecision judge(std::uint64_t prompt_tokens,
                                     std::uint64_t device_tokens) const;
  void count_question(std::uint64_t prompt_tokens, std::uint64_t device_tokens, MonotonicTime now);

  LookupGateOptions options_;
  double actionable_rate_ = 0;
  Totals totals_;
  std::uint64_t smallest_bound_ = UINT64_MAX;
  EventRate question_rate_;
  std::uint64_t log_moments_ = 0;
};

}  // namespace kv_offload
