#pragma once

#include "kv_offload/messages/ids.hpp"
#include "kv_offload/messages/load_verdict.hpp"

#include <map>
#include <utility>

namespace kv_offload {

/// Turns cumulative totals into tallies: what came since the last total of the same sender. A total
/// that never arrived loses nothing, the next one carries it. One that went back means that its
/// sender began anew: it is taken as the new base and counts for nothing, so that no tally is ever
/// negative and none is counted twice.
///
/// Memory: one entry per sender and tier.
class VerdictFeed {
 public:
  VerdictCounts take(DomainId sender, TierIndex tier, const VerdictCounts& total) {
    VerdictCounts& last = last_[{sender, tier}];
    const VerdictCounts base = std::exchange(last, total);
    VerdictCounts tally;
    for (std::size_t i = 0; i < kNumLoadVerdicts; ++i) {
      if (total.by_verdict[i] < base.by_verdict[i]) {
        ++resynchronisations_;
        return {};
      }
      tally.by_verdict[i] = total.by_verdict[i] - base.by_verdict[i];
    }
    return tally;
  }
  [[nodiscard]] std::uint64_t resynchronisations() const { return resynchronisations_; }

 private:
  std::map<std::pair<DomainId, TierIndex>, VerdictCounts> last_;
  std::uint64_t resynchronisations_ = 0;
};

}  // namespace kv_offload
