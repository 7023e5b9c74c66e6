#include "kv_offload/actors/verdict_table.hpp"

#include <algorithm>

namespace kv_offload {

VerdictTable::Ask VerdictTable::ask(const OffloadKey& key, RequestHandle request, std::uint64_t probe,
                                    MonotonicTime now) {
  const auto it = verdicts_.find(key);
  if (it == verdicts_.end()) {
    if (verdicts_.size() >= keys_max_) return Ask::full;
    verdicts_.emplace(key, Verdict{State::probing, 0, probe, now, {}, {request}});
    by_request_[request].push_back(key);
    return Ask::probe;
  }
  auto& verdict = it->second;
  if (std::find(verdict.askers.begin(), verdict.askers.end(), request) == verdict.askers.end()) {
    verdict.askers.push_back(request);
    by_request_[request].push_back(key);
  }
  if (verdict.state != State::failed || verdict.failures >= kTriesMax) return Ask::known;
  verdict.state = State::probing;
  verdict.probe = probe;
  return Ask::probe;
}

const VerdictTable::Verdict* VerdictTable::find(const OffloadKey& key) const {
  const auto it = verdicts_.find(key);
  return it == verdicts_.end() ? nullptr : &it->second;
}

void VerdictTable::answer(const OffloadKey& key, std::uint64_t probe, std::optional<bool> present,
                          MonotonicTime now) {
  const auto it = verdicts_.find(key);
  if (it == verdicts_.end()) return;  // its last asker has gone
  auto& verdict = it->second;
  if (verdict.state != State::probing || verdict.probe != probe) return;  // corrected, or asked anew
  verdict.probe_time = now - verdict.asked_at;
  if (present) {
    verdict.state = *present ? State::hit : State::miss;
  } else {
    verdict.state = State::failed;
    ++verdict.failures;
  }
}

void VerdictTable::correct(const OffloadKey& key, bool present) {
  if (const auto it = verdicts_.find(key); it != verdicts_.end())
    it->second.state = present ? State::hit : State::miss;
}

void VerdictTable::close(RequestHandle request) {
  const auto asked = by_request_.find(request);
  if (asked == by_request_.end()) return;
  for (const auto& key : asked->second) {
    const auto it = verdicts_.find(key);
    if (it == verdicts_.end()) continue;
    std::erase(it->second.askers, request);
    if (it->second.askers.empty()) verdicts_.erase(it);
  }
  by_request_.erase(asked);
}

}  // namespace kv_offload
