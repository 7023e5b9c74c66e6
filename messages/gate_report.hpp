#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace kv_offload {

/// How much a gate may do.
enum class GateMode : std::uint8_t {
  off,      ///< refuses nothing; its estimate is still kept and shown
  observe,  ///< refuses nothing and counts what it would have refused
  enforce,
};
inline constexpr std::size_t kNumGateModes = 3;
constexpr std::string_view to_string(GateMode m) {
  constexpr std::array<std::string_view, kNumGateModes> kNames = {"off", "observe", "enforce"};
  const auto i = static_cast<std::size_t>(m);
  return i < kNames.size() ? kNames[i] : "unknown";
}

/// Why a gate refuses or does not. "Nothing to refuse" and "unreachable" look the same in the
/// counters: no refusals. The first is the workload's doing, the second the configuration's.
enum class GateStatus : std::uint8_t {
  off,
  warming_up,         ///< too few events to judge by; refuses nothing until then
  nothing_to_refuse,  ///< judges, and finds that everything may pass
  unreachable,        ///< cannot refuse with these settings and this workload
  refusing,           ///< refuses some or all (in mode observe: would)
};
inline constexpr std::size_t kNumGateStatuses = 5;
constexpr std::string_view to_string(GateStatus s) {
  constexpr std::array<std::string_view, kNumGateStatuses> kNames = {
      "off", "warming_up", "nothing_to_refuse", "unreachable", "refusing"};
  const auto i = static_cast<std::size_t>(s);
  return i < kNames.size() ? kNames[i] : "unknown";
}

/// What one gate says of itself for one tier, for the log and for people.
struct GateReport {
  std::string gate;  ///< "payoff", "lookup_gate", …
  std::string tier;  ///< metric label
  GateMode mode = GateMode::off;
  GateStatus status = GateStatus::off;
  std::string text;               ///< one line with the numbers behind the status
  std::uint64_t log_moments = 0;  ///< grows by one whenever the gate's cadence asks for a log line
};

}  // namespace kv_offload
