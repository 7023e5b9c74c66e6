#include "kv_offload/bench/sim_hbm.hpp"

#include <utility>

namespace kv_offload::bench {

std::size_t SimHbm::match(std::span<const std::uint64_t> prompt) const {
  std::size_t n = 0;
  while (n < prompt.size() && entries_.contains(prompt[n])) ++n;
  return n;
}

void SimHbm::reference(std::uint64_t chunk) {
  Entry& entry = entries_.at(chunk);
  if (entry.references++ > 0) return;
  idle_.erase(entry.idle);
  ++used_;
}

std::optional<SimHbm::Lease> SimHbm::take(std::span<const std::uint64_t> prompt,
                                          std::size_t matched, std::uint64_t total) {
  Lease lease;
  lease.own = total - matched;
  if (chunks_ == 0) return lease;
  std::uint64_t becomes_used = lease.own;
  for (std::size_t i = 0; i < matched; ++i)
    if (entries_.at(prompt[i]).references == 0) ++becomes_used;
  if (used_ + becomes_used > chunks_) return std::nullopt;
  lease.cached.assign(prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(matched));
  for (const std::uint64_t chunk : lease.cached) reference(chunk);
  used_ += lease.own;
  while (used_ + idle_.size() > chunks_) {
    entries_.erase(idle_.front());
    idle_.pop_front();
    ++evictions_;
  }
  return lease;
}

void SimHbm::publish(Lease& lease, std::span<const std::uint64_t> computed) {
  if (chunks_ == 0) return;
  for (const std::uint64_t chunk : computed) {
    // Somebody who computed the same at the same time may have been first: ours stays unknown.
    if (lease.own == 0 || entries_.contains(chunk)) continue;
    entries_.emplace(chunk, Entry{1, false, {}});
    lease.cached.push_back(chunk);
    --lease.own;
  }
}

bool SimHbm::is_saved(std::uint64_t chunk) const {
  const auto it = entries_.find(chunk);
  return it != entries_.end() && it->second.saved;
}

void SimHbm::mark_saved(std::uint64_t chunk) {
  if (const auto it = entries_.find(chunk); it != entries_.end()) it->second.saved = true;
}

void SimHbm::release(Lease lease) {
  if (chunks_ == 0) return;
  used_ -= lease.own;
  for (auto chunk = lease.cached.rbegin(); chunk != lease.cached.rend(); ++chunk) {
    Entry& entry = entries_.at(*chunk);
    if (--entry.references > 0) continue;
    entry.idle = idle_.insert(idle_.end(), *chunk);
    --used_;
  }
}

}  // namespace kv_offload::bench
