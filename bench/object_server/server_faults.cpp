#include "kv_offload/bench/object_server/server_faults.hpp"

#include <algorithm>

namespace kv_offload::bench {

ServerFaults::RuleId ServerFaults::add(ServerFault fault) {
  const std::lock_guard lock(mutex_);
  hits_.push_back(0);
  rules_.push_back({.id = hits_.size(), .fault = std::move(fault)});
  return hits_.size();
}

void ServerFaults::remove(RuleId rule) {
  const std::lock_guard lock(mutex_);
  std::erase_if(rules_, [rule](const Rule& each) { return each.id == rule; });
}

void ServerFaults::clear() {
  const std::lock_guard lock(mutex_);
  rules_.clear();
}

std::uint64_t ServerFaults::hits(RuleId rule) const {
  const std::lock_guard lock(mutex_);
  return rule == 0 || rule > hits_.size() ? 0 : hits_[rule - 1];
}

bool ServerFaults::active(RuleId rule) const {
  const std::lock_guard lock(mutex_);
  return std::any_of(rules_.begin(), rules_.end(),
                     [rule](const Rule& each) { return each.id == rule; });
}

ServerFaults::Drawn ServerFaults::draw(const std::string& method, const std::string& key) {
  const std::lock_guard lock(mutex_);
  Drawn drawn;
  for (Rule& rule : rules_) {
    const ServerFault& fault = rule.fault;
    if (!fault.method.empty() && fault.method != method) continue;
    if (key.find(fault.key_contains) == std::string::npos) continue;
    const std::uint64_t before = rule.seen++;
    if (before < fault.after || (fault.times > 0 && before >= fault.after + fault.times)) continue;
    ++hits_[rule.id - 1];
    if (fault.kind == ServerFaultKind::delay_ms) {
      drawn.delay_ms += static_cast<std::uint64_t>(std::max<std::int64_t>(fault.argument, 0));
      continue;
    }
    drawn.fault = fault;
    drawn.rule = rule.id;
    break;
  }
  return drawn;
}

}  // namespace kv_offload::bench
