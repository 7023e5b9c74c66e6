#pragma once

#include "kv_offload/actors/engine_config.hpp"
#include "kv_offload/messages/expected.hpp"
#include "kv_offload/tiers/tier_faults.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kv_offload::bench {

enum class FaultKind : std::uint8_t { slow, delay, eio, corrupt, full, hang, kill };

/// One `--fault TIER:KIND[:ARG]`.
struct FaultSpec {
  std::size_t tier = 0;  ///< index of a secondary tier
  FaultKind kind = FaultKind::slow;
  double arg = 0;  ///< slow: factor · delay: microseconds · eio, corrupt: every n-th

  /// Whether it starts only after a third of the load, so that the time before it is seen as well.
  [[nodiscard]] bool is_late() const { return kind == FaultKind::hang || kind == FaultKind::kill; }
};

/// The forms of --fault, for help and error messages.
inline constexpr std::string_view kFaultForms =
    "TIER:slow:FACTOR, TIER:delay:MICROSECONDS, TIER:eio:N, TIER:corrupt:N, TIER:full, TIER:hang "
    "or "
    "TIER:kill, TIER being a number from 1 or a label such as 2:fs";

Expected<FaultSpec> parse_fault(const std::string& text,
                                const std::vector<SecondaryTierConfig>& tiers);

/// The switches of all tiers of a run.
class FaultPanel {
 public:
  /// Gives each tier of `config` switches.
  explicit FaultPanel(EngineConfig& config);
  void apply(const FaultSpec& fault);
  /// Everything off but `kill`, which cannot be undone.
  void clear();

 private:
  std::vector<std::shared_ptr<TierFaults>> tiers_;
};

}  // namespace kv_offload::bench
