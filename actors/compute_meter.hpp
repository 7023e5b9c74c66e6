#pragma once

#include "kv_offload/admission/busy_rate.hpp"
#include "kv_offload/messages/compute_sample.hpp"
#include "kv_offload/messages/ids.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace kv_offload {

/// How fast the device computes and what the tiers moved meanwhile, from calls that the engine gets anyway:
///
///     allocated (or the last complete_load) ─ ready, in line ─ the prompt's first store ─ computed
///
/// The device is taken to be busy while a prompt is ready that will be stored, and to compute them in that order. A
/// prompt whose calls never tell its end (nothing of it is stored) takes the span that it was in with it: nothing is
/// learnt. Plain state of one scheduler_step; entries are live requests.
class ComputeMeter {
 public:
  ComputeMeter(std::size_t num_tiers, std::uint32_t tokens_per_chunk)
      : tokens_per_chunk_(tokens_per_chunk), flows_(2 * num_tiers), probe_s_(num_tiers) {}

  /// The device has room: `tokens` of the prompt are neither there nor loaded. `answered_at`: since when the request
  /// has known what it can load.
  void allocated(RequestHandle request, std::uint64_t tokens, MonotonicTime answered_at,
                 MonotonicTime now);
  /// A load of its chunks begins, and has ended. Not ready in between.
  void loading(RequestHandle request);
  void loaded(RequestHandle request, std::size_t chunks, MonotonicTime now);
  /// A store of its prompt was offered, which ends `left` tokens before the prompt does (less than a chunk: with it
  /// everything is computed). Nothing: it told nothing.
  std::optional<ComputeSample> stored(RequestHandle request, std::uint64_t left, std::size_t live,
                                      MonotonicTime now);
  /// Nothing more will come of it.
  void ended(RequestHandle request, MonotonicTime now);

  /// A job of a tier begins, and has ended with so many bytes moved.
  void begun(std::size_t tier, bool is_promotion, MonotonicTime now);
  void moved(std::size_t tier, bool is_promotion, std::uint64_t bytes, MonotonicTime now);
  void probed(std::size_t tier, Duration took);

 private:
  struct Prompt {
    RequestHandle request;
    std::uint64_t tokens = 0;  ///< not computed yet
    Duration waited{};
    MonotonicTime ready_at;
  };
  /// One direction of a tier. Jobs tell what they moved when they end, which is spans later than they moved most of it;
  /// while any is under way the bytes are taken to flow as those of the last seconds did.
  struct Flow {
    BusyRate jobs{kFlowHalfLifeS};
    double busy_s = 0;  ///< of the jobs, where the present span begins
  };
  static constexpr double kFlowHalfLifeS = 4;

  /// Less than a chunk is stored by nobody: its end is not seen.
  [[nodiscard]] bool is_silent(const Prompt& prompt) const {
    return prompt.tokens < tokens_per_chunk_;
  }
  std::deque<Prompt>::iterator find(RequestHandle request);
  void enter(Prompt prompt, MonotonicTime now);
  /// The queue lost a prompt: a span that began with it is over.
  void restart(MonotonicTime now);
  void begin_span(MonotonicTime now);
  [[nodiscard]] std::vector<TierTraffic> traffic(MonotonicTime now) const;
  [[nodiscard]] bool is_alone(MonotonicTime now) const;
  static std::size_t flow_of(std::size_t tier, bool is_promotion) {
    return 2 * tier + (is_promotion ? 1 : 0);
  }

  std::uint32_t tokens_per_chunk_;
  std::deque<Prompt> queue_;
  std::vector<Prompt> loading_;
  std::optional<MonotonicTime> busy_since_;
  std::vector<Flow> flows_;      ///< by tier and direction
  std::vector<double> probe_s_;  ///< by tier, since busy_since_
};

}  // namespace kv_offload
