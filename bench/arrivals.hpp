#pragma once

#include "kv_offload/bench/random.hpp"
#include "kv_offload/messages/monotonic_time.hpp"

#include <cstdint>

namespace kv_offload::bench {

enum class ArrivalSpacing : std::uint8_t { poisson, even };

/// When requests arrive, whoever serves them and however long that takes: `count()` arrivals over the run, dealt to the
/// callers in advance by the seed alone.
struct ArrivalPlan {
  double rate_per_s = 1;  ///< of all callers together
  Duration run{};
  /// poisson: each at a moment of its own, all moments equally likely: a Poisson process whose count is known.
  /// even: at equal distances, caller after caller.
  ArrivalSpacing spacing = ArrivalSpacing::poisson;
  std::uint32_t callers = 1;
  std::uint64_t seed = 1;

  [[nodiscard]] std::uint64_t count() const;  ///< at least 1
};

/// The arrivals of one caller, in order; constant memory. One thread.
class ArrivalSchedule {
 public:
  ArrivalSchedule(const ArrivalPlan& plan, std::uint32_t caller);

  [[nodiscard]] std::uint64_t left() const { return left_; }
  /// The next one, from the beginning of the run; below its end. Only while some are left.
  Duration next();

 private:
  ArrivalPlan plan_;
  std::uint64_t
      number_;  // of the next one among those of all callers, where they are evenly spaced
  std::uint64_t left_;
  double at_s_ = 0;
  Random random_;
};

}  // namespace kv_offload::bench
