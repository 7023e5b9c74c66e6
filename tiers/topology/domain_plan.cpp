#include "kv_offload/tiers/topology/domain_plan.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <sched.h>
#include <utility>

namespace kv_offload {
namespace {

std::optional<std::uint32_t> number_in(const std::string& text) {
  std::uint32_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return n;
}

std::string shown(const std::string& wanted) {
  return number_in(wanted) ? wanted : '"' + wanted.substr(0, 80) + '"';
}

/// Why a node carries no domain; empty if it can.
std::string left_out(const NumaNode& node) {
  const bool cpus = !node.cpus.empty(), memory = node.memory_bytes > 0;
  if (cpus && memory) return {};
  return "NUMA node " + std::to_string(node.os_index) + " carries no domain: it has no " +
         (cpus     ? "memory"
          : memory ? "CPU"
                   : "CPU and no memory") +
         " that this process may use";
}

std::string listed(const std::vector<Domain>& domains) {
  std::string list;
  for (const auto& d : domains) list += (list.empty() ? "" : ", ") + std::to_string(d.node);
  return std::to_string(domains.size()) + " NUMA node" + (domains.size() == 1 ? " (" : "s (") +
         (list.empty() ? "none" : list) + ")";
}

void index_cpus(DomainPlan& plan) {
  std::uint32_t last = 0;
  for (const auto& d : plan.domains)
    for (const auto cpu : d.cpus) last = std::max(last, cpu);
  plan.by_cpu.resize(last + std::size_t{1});
  for (std::size_t cpu = 0; cpu < plan.by_cpu.size(); ++cpu)
    plan.by_cpu[cpu] = static_cast<DomainId>(cpu % plan.domains.size());
  for (std::size_t d = 0; d < plan.domains.size(); ++d)
    for (const auto cpu : plan.domains[d].cpus) plan.by_cpu[cpu] = static_cast<DomainId>(d);
}

}  // namespace

bool is_domains(const std::string& wanted) {
  const auto n = number_in(wanted);
  return wanted == "auto" || wanted == "off" || (n && *n >= 1 && *n <= kDomainsMax);
}

Expected<DomainPlan> plan_domains(const std::string& wanted, const Topology& topology) {
  if (!is_domains(wanted))
    return {
        OffloadErrc::invalid_config,
        "domains: " + shown(wanted) + " is not allowed; expected " + std::string(kDomainsForms)};
  DomainPlan plan;
  if (wanted == "off") return plan;
  std::vector<Domain> usable;
  for (const auto& node : topology.nodes) {
    if (auto why = left_out(node); !why.empty())
      plan.notes.push_back("domains: " + why);
    else
      usable.push_back({node.os_index, node.cpus});
  }
  const auto number = number_in(wanted);
  // One domain needs no node: nothing of it is bound to one.
  if (number && *number > std::max<std::size_t>(usable.size(), 1))
    return {OffloadErrc::invalid_config,
            "domains: " + wanted + " is not allowed; this process may use " + listed(usable) +
                (usable.size() < 2
                     ? ": expected auto, off or 1"
                     : ": expected auto, off or at most " + std::to_string(usable.size()))};
  const std::size_t count = number ? *number : std::min<std::size_t>(usable.size(), kDomainsMax);
  if (!number && usable.size() > count)
    plan.notes.push_back("domains: " + std::to_string(count) + " of " + listed(usable) +
                         " carry a domain, which is the most");
  if (usable.size() > count) usable.resize(count);
  if (!usable.empty()) plan.domains = std::move(usable);
  plan.pins = plan.domains.size() > 1 && topology.is_this_machine;
  index_cpus(plan);
  return plan;
}

DomainId domain_here(const DomainPlan& plan) {
  if (plan.domains.size() == 1) return 0;
  const int cpu = ::sched_getcpu();  // reads the thread's own memory
  return plan.domain_of_cpu(cpu < 0 ? 0 : static_cast<std::uint32_t>(cpu));
}

}  // namespace kv_offload
