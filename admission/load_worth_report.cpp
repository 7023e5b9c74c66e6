// What load_worth shows: settings, series, reports.
#include "kv_offload/admission/load_worth.hpp"
#include "kv_offload/admission/policy_series.hpp"
#include "kv_offload/admission/text_format.hpp"

#include <utility>

namespace kv_offload {
namespace {

constexpr const char* kToken = "kv_offload_device_token_seconds";
constexpr const char* kSaved = "kv_offload_device_saved_second";
constexpr const char* kWait = "kv_offload_device_wait_seconds";
constexpr const char* kRead = "kv_offload_device_seconds_per_read_gigabyte";
constexpr const char* kWritten = "kv_offload_device_seconds_per_written_gigabyte";
constexpr const char* kProbed = "kv_offload_device_seconds_per_probe_second";
constexpr const char* kLoads = "kv_offload_load_worth_loads";
constexpr const char* kRefused = "kv_offload_load_worth_refused_lookups_total";
constexpr const char* kWould = "kv_offload_load_worth_would_refuse_lookups_total";
constexpr const char* kProbes = "kv_offload_load_worth_trials_total";
constexpr const char* kCut = "kv_offload_load_worth_cut_lookups_total";
constexpr double kGb = 1e9;

}  // namespace

std::vector<PolicySetting> LoadWorth::settings() const {
  return {{"mode", std::string(to_string(options_.mode)), ""},
          {"device_share", formatted("%g", options_.device_share), "of what computing takes"},
          {"wait_share", formatted("%g", options_.wait_share), "of the wait for the device"},
          {"probe_every", std::to_string(options_.probe_every), "refused lookups"},
          {"probe_chunks", std::to_string(options_.probe_chunks), "chunks"},
          {"memory_chunks", std::to_string(options_.memory_chunks), "chunks"}};
}

std::vector<MetricSample> LoadWorth::stats(MonotonicTime /*now*/) const {
  std::vector<MetricSample> samples = {{kToken, {}, costs_.token_s()},
                                       {kSaved, {}, costs_.saved_second()},
                                       {kWait, {}, costs_.wait_s()}};
  for (std::size_t i = 0; i < tiers_.size(); ++i) {
    const Tier& tier = tiers_[i];
    const auto add = [&](const char* name, double value) {
      samples.push_back({name, {{"tier", environment_.label_of(i)}}, value});
    };
    add(kRead, costs_.read_s_per_byte(i) * kGb);
    add(kWritten, costs_.written_s_per_byte(i) * kGb);
    add(kProbed, costs_.probed_s_per_s(i));
    add(kLoads, tier.loads ? 1 : 0);
    add(kRefused, static_cast<double>(tier.refused_lookups));
    add(kWould, static_cast<double>(tier.would_refuse_lookups));
    add(kProbes, static_cast<double>(tier.probes));
    add(kCut, static_cast<double>(tier.cut_lookups));
  }
  return samples;
}

std::vector<MetricDefinition> LoadWorth::metric_definitions() const {
  const std::vector<std::string> tier = {"tier"};
  return {
      declare_gauge(
          kToken,
          "seconds that the device takes to compute a token, nothing being moved; 0 while unknown",
          {}),
      declare_gauge(kSaved, "seconds of the device that a second of computing saved is worth", {}),
      declare_gauge(kWait, "seconds that a prompt waits for others to be computed", {}),
      declare_gauge(
          kRead,
          "seconds that the device loses per gigabyte read from the tier, 0 while it does not show",
          tier),
      declare_gauge(kWritten,
                    "seconds that the device loses per gigabyte written to the tier, 0 while it "
                    "does not show",
                    tier),
      declare_gauge(
          kProbed, "seconds that the device loses per second of waiting for the tier's word", tier),
      declare_gauge(kLoads,
                    "1 while lookups load from the tier, 0 while computing is taken to be better",
                    tier),
      declare_counter(kRefused, "Lookups whose loads from the tier were not worth making",
                      "it is decided", tier),
      declare_counter(kWould, "Lookups whose loads the observing gate would have refused",
                      "it is decided", tier),
      declare_counter(kProbes, "Lookups that loaded a few chunks to see whether that is still so",
                      "it is decided", tier),
      declare_counter(kCut, "Lookups that did not ask the tier for all of their keys",
                      "it is decided", tier),
  };
}

GateReport LoadWorth::report_of(TierIndex index) const {
  const Tier& tier = tiers_[index];
  GateReport report{"load_worth",    environment_.label_of(index), options_.mode, {}, {},
                    tier.log_moments};
  constexpr double kMs = 1e3;
  const auto chunk_gb = static_cast<double>(chunk_bytes_) / kGb;
  report.text = formatted(
      "a chunk computed in %.3g ms, worth %.2g of it; loading one takes the device %.3g ms, "
      "sixty-four take %.3g s; prompts "
      "wait %.3g s; %llu lookups refused (%llu for the device, %llu for time), %llu tried all the "
      "same, %llu cut short",
      chunk_s() * kMs, costs_.saved_second(), costs_.read_s_per_byte(index) * kGb * chunk_gb * kMs,
      tier.times.seconds(64), costs_.wait_s(), count(tier.refused_lookups),
      count(tier.refused_for_device), count(tier.refused_for_time), count(tier.probes),
      count(tier.cut_lookups));
  if (options_.mode == GateMode::off)
    report.status = GateStatus::off;
  else if (!costs_.knows_speed())
    report.status = GateStatus::warming_up;
  else
    report.status = tier.loads ? GateStatus::nothing_to_refuse : GateStatus::refusing;
  return report;
}

std::vector<GateReport> LoadWorth::gate_reports(MonotonicTime /*now*/) const {
  std::vector<GateReport> reports;
  for (std::size_t i = 0; i < tiers_.size(); ++i)
    reports.push_back(report_of(static_cast<TierIndex>(i)));
  return reports;
}

}  // namespace kv_offload
