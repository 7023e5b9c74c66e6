#include "kv_offload/bench/stress_faults.hpp"

#include <array>
#include <charconv>
#include <optional>

namespace kv_offload::bench {
namespace {

struct Form {
  std::string_view name;
  FaultKind kind;
  bool has_arg;
  double min, max;
};
constexpr std::array<Form, 7> kForms{{
    {"slow", FaultKind::slow, true, 1, 1e6},
    {"delay", FaultKind::delay, true, 1, 4e9},  // microseconds; just over an hour fits 32 bits
    {"eio", FaultKind::eio, true, 1, 4e9},
    {"corrupt", FaultKind::corrupt, true, 1, 4e9},
    {"full", FaultKind::full, false, 0, 0},
    {"hang", FaultKind::hang, false, 0, 0},
    {"kill", FaultKind::kill, false, 0, 0},
}};

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == ':')
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

std::optional<double> number(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

Expected<FaultSpec> parse_fault(const std::string& text,
                                const std::vector<SecondaryTierConfig>& tiers) {
  const auto refuse = [&](const std::string& expected) {
    return OffloadError{
        OffloadErrc::invalid_argument,
        "--fault: \"" + text.substr(0, 80) + "\" is not allowed; expected " + expected};
  };
  auto parts = split(text);
  const auto place = number(parts[0]);
  if (!place || *place < 1 || *place > static_cast<double>(tiers.size()) ||
      *place != static_cast<double>(static_cast<std::size_t>(*place)))
    return refuse("a tier from 1 to " + std::to_string(tiers.size()) + " in " +
                  std::string(kFaultForms));
  FaultSpec fault;
  fault.tier = static_cast<std::size_t>(*place) - 1;
  std::size_t at = 1;
  if (parts.size() > 2 && parts[1] == tiers[fault.tier].type) at = 2;  // "2:fs:slow:20"
  for (const auto& form : kForms) {
    if (at >= parts.size() || parts[at] != form.name) continue;
    if (parts.size() != at + (form.has_arg ? 2 : 1)) break;
    fault.kind = form.kind;
    if (!form.has_arg) return fault;
    const auto arg = number(parts[at + 1]);
    if (!arg || !(*arg >= form.min && *arg <= form.max))
      return refuse(std::string(form.name) + " with a number from " +
                    std::to_string(static_cast<std::uint64_t>(form.min)) + " to " +
                    std::to_string(static_cast<std::uint64_t>(form.max)));
    fault.arg = *arg;
    return fault;
  }
  return refuse(std::string(kFaultForms));
}

FaultPanel::FaultPanel(EngineConfig& config) {
  for (auto& tier : config.secondary_tiers) {
    if (!tier.faults) tier.faults = std::make_shared<TierFaults>();
    tiers_.push_back(tier.faults);
  }
}

void FaultPanel::apply(const FaultSpec& fault) {
  TierFaults& tier = *tiers_[fault.tier];
  const auto arg = static_cast<std::uint32_t>(fault.arg);
  switch (fault.kind) {
    case FaultKind::slow: tier.slow_factor = fault.arg; break;
    case FaultKind::delay: tier.delay_us = arg; break;
    case FaultKind::eio: tier.store_error_every = arg, tier.load_error_every = arg; break;
    case FaultKind::corrupt: tier.corrupt_every = arg; break;
    case FaultKind::full: tier.full = true; break;
    case FaultKind::hang: tier.hang = true; break;
    case FaultKind::kill: tier.kill_lane = true; break;
  }
}

void FaultPanel::clear() {
  for (const auto& tier : tiers_) {
    tier->slow_factor = 1.0;
    tier->delay_us = 0;
    tier->store_error_every = 0;
    tier->load_error_every = 0;
    tier->corrupt_every = 0;
    tier->full = false;
    tier->hang = false;
  }
}

}  // namespace kv_offload::bench
