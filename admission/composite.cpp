#include "kv_offload/admission/composite.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

namespace kv_offload {

namespace {

/// Of those that may be there once, however deep: two would count everything twice under one label, and of two lookup
/// gates one is never asked.
bool is_single(std::string_view name) {
  static constexpr std::string_view kSingle[] = {"payoff", "demand", "lookup_gate", "load_worth",
                                                 "backlog"};
  return name.starts_with("backpressure[") ||
         std::find(std::begin(kSingle), std::end(kSingle), name) != std::end(kSingle);
}

/// The first name that would be there twice; empty: none.
std::string_view second_of_its_name(const AdmissionPolicy& policy,
                                    std::set<std::string_view>& seen) {
  if (const auto* composite = dynamic_cast<const Composite*>(&policy)) {
    for (const auto& member : composite->members())
      if (const auto twice = second_of_its_name(*member, seen); !twice.empty()) return twice;
    return {};
  }
  return is_single(policy.name()) && !seen.insert(policy.name()).second ? policy.name()
                                                                        : std::string_view();
}

}  // namespace

Expected<std::unique_ptr<Composite>> Composite::make(Members members, std::string name) {
  if (members.size() > kMaxMembers)
    return {OffloadErrc::invalid_config, "composite: " + std::to_string(members.size()) +
                                             " policies are not allowed; expected at most " +
                                             std::to_string(kMaxMembers)};
  std::set<std::string_view> single;
  for (const auto& member : members) {
    if (!member) return {OffloadErrc::invalid_config, "composite: a member is missing"};
    if (const auto twice = second_of_its_name(*member, single); !twice.empty())
      return {OffloadErrc::invalid_config,
              "composite: " + std::string(twice) + " is there twice; expected once"};
  }
  return std::unique_ptr<Composite>(new Composite(std::move(members), std::move(name)));
}

const AdmissionPolicy* Composite::refusing_member(const JobMetadata& job, MonotonicTime now) const {
  for (const auto& member : members_)
    if (member->should_admit(job, now) != RefusalReason::none) return member.get();
  return nullptr;
}

RefusalReason Composite::should_admit(const JobMetadata& job, MonotonicTime now) const {
  for (const auto& member : members_) {
    const RefusalReason reason = member->should_admit(job, now);
    if (reason != RefusalReason::none) return reason;
  }
  return RefusalReason::none;
}

void Composite::on_admitted(const JobMetadata& job, MonotonicTime now) {
  for (const auto& member : members_) member->on_admitted(job, now);
}

void Composite::on_refused(const JobMetadata& job, const AdmissionPolicy* refuser,
                           MonotonicTime now) {
  const AdmissionPolicy* decider = refuser == this ? refusing_member(job, now) : refuser;
  for (const auto& member : members_) member->on_refused(job, decider, now);
}

void Composite::on_completed(const JobMetadata& job, const CompletedTransfer& result,
                             MonotonicTime now) {
  for (const auto& member : members_) member->on_completed(job, result, now);
}

void Composite::on_withdrawn(const JobMetadata& job, MonotonicTime now) {
  for (const auto& member : members_) member->on_withdrawn(job, now);
}

void Composite::reset() {
  for (const auto& member : members_) member->reset();
}

void Composite::on_verdicts(TierIndex tier, const VerdictCounts& tally, MonotonicTime now) {
  for (const auto& member : members_) member->on_verdicts(tier, tally, now);
}

void Composite::on_demand(const LookupDemand& demand, MonotonicTime now) {
  for (const auto& member : members_) member->on_demand(demand, now);
}

std::uint32_t Composite::lookup_reach(const LookupReach& lookup, MonotonicTime now) const {
  std::uint32_t reach = LookupReach::kEverything;
  for (const auto& member : members_) reach = std::min(reach, member->lookup_reach(lookup, now));
  return reach;
}

void Composite::on_reach(const LookupReach& lookup, std::uint32_t reach, MonotonicTime now) {
  for (const auto& member : members_) member->on_reach(lookup, reach, now);
}

void Composite::on_reached(const LookupReached& answer, MonotonicTime now) {
  for (const auto& member : members_) member->on_reached(answer, now);
}

bool Composite::bounds_lookups() const {
  return std::any_of(members_.begin(), members_.end(),
                     [](const auto& m) { return m->bounds_lookups(); });
}

bool Composite::weighs_device() const {
  return std::any_of(members_.begin(), members_.end(),
                     [](const auto& m) { return m->weighs_device(); });
}

void Composite::on_computed(const ComputeSample& sample, MonotonicTime now) {
  for (const auto& member : members_) member->on_computed(sample, now);
}

void Composite::on_overdue(const JobMetadata& job, MonotonicTime now) {
  for (const auto& member : members_) member->on_overdue(job, now);
}

std::vector<GateReport> Composite::gate_reports(MonotonicTime now) const {
  std::vector<GateReport> all;
  for (const auto& member : members_)
    for (auto& report : member->gate_reports(now)) all.push_back(std::move(report));
  return all;
}

std::vector<MetricSample> Composite::stats(MonotonicTime now) const {
  std::vector<MetricSample> all;
  for (const auto& member : members_) merge_samples(all, member->stats(now));
  return all;
}

std::vector<MetricDefinition> Composite::metric_definitions() const {
  std::vector<MetricDefinition> all;
  for (const auto& member : members_) {
    for (auto& definition : member->metric_definitions()) {
      const auto same = [&](const MetricDefinition& d) { return d.name == definition.name; };
      if (std::none_of(all.begin(), all.end(), same)) all.push_back(std::move(definition));
    }
  }
  return all;
}

const AdmissionPolicy& find_refuser(const AdmissionPolicy& policy, const JobMetadata& job,
                                    MonotonicTime now) {
  const auto* composite = dynamic_cast<const Composite*>(&policy);
  if (composite == nullptr) return policy;
  const AdmissionPolicy* member = composite->refusing_member(job, now);
  return member == nullptr ? policy : find_refuser(*member, job, now);
}

void merge_samples(std::vector<MetricSample>& into, std::vector<MetricSample> from) {
  for (auto& sample : from) {
    const auto same = std::find_if(into.begin(), into.end(), [&](const MetricSample& s) {
      return s.name == sample.name && s.labels == sample.labels;
    });
    if (same == into.end())
      into.push_back(std::move(sample));
    else if (sample.name.ends_with("_total"))
      same->value += sample.value;
    else
      same->value = std::max(same->value, sample.value);
  }
}

}  // namespace kv_offload
