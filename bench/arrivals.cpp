#include "kv_offload/bench/arrivals.hpp"

#include <algorithm>
#include <cmath>

namespace kv_offload::bench {

std::uint64_t ArrivalPlan::count() const {
  return static_cast<std::uint64_t>(std::max(1.0, std::round(rate_per_s * to_seconds(run))));
}

ArrivalSchedule::ArrivalSchedule(const ArrivalPlan& plan, std::uint32_t caller)
    : plan_(plan),
      number_(caller),
      left_(plan.count() / plan.callers + (caller < plan.count() % plan.callers ? 1 : 0)),
      random_((plan.seed + 1) * 0xd1342543de82ef95ULL + caller) {}

Duration ArrivalSchedule::next() {
  const double run_s = to_seconds(plan_.run);
  if (plan_.spacing == ArrivalSpacing::even) {
    at_s_ = (static_cast<double>(number_) + 0.5) / static_cast<double>(plan_.count()) * run_s;
    number_ += plan_.callers;
  } else {
    // The earliest of n moments spread over what is left of the run: its share is 1 - u^(1/n).
    const double u = (static_cast<double>(random_.next() >> 11) + 1) * 0x1p-53;
    at_s_ = run_s - (run_s - at_s_) * std::pow(u, 1 / static_cast<double>(left_));
  }
  --left_;
  return std::min(from_seconds(at_s_), plan_.run - Duration(1));
}

}  // namespace kv_offload::bench
