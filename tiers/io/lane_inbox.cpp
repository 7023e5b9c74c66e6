#include "kv_offload/tiers/io/lane_inbox.hpp"

#include <algorithm>
#include <utility>

namespace kv_offload {

bool LaneInbox::push_probe(ProbeId id, KeyList keys) {
  std::unique_lock lock(mutex_);
  if (closed_) return false;
  // A probe larger than the whole queue is taken when it is alone; else it could never be asked.
  if (probe_keys_ != 0 && probe_keys_ + keys.size() > probe_keys_max_) return false;
  probe_keys_ += keys.size();
  probes_.push_back({id, std::move(keys)});
  publish_counts();
  wake_if_asleep(kProbes, lock);
  return true;
}

std::vector<TransferJob> LaneInbox::push_jobs(std::vector<TransferJob> jobs) {
  std::unique_lock lock(mutex_);
  std::size_t taken = 0;
  std::uint8_t reasons = 0;
  for (; taken < jobs.size() && !closed_ && jobs_ < jobs_max_; ++taken, ++jobs_) {
    TransferJob& job = jobs[taken];
    if (!job.is_promotion)
      for (const OffloadKey& key : job.keys) ++storing_[key];
    reasons |= job.is_promotion ? kLoads : kStores;
    queue(job.is_promotion).push_back(std::move(job));
  }
  publish_counts();
  wake_if_asleep(reasons, lock);
  jobs.erase(jobs.begin(), jobs.begin() + static_cast<std::ptrdiff_t>(taken));
  return jobs;
}

std::optional<TransferJob> LaneInbox::cancel(const JobId& id) {
  const std::lock_guard lock(mutex_);
  for (auto* jobs : {&loads_, &stores_}) {
    const auto it = std::find_if(jobs->begin(), jobs->end(),
                                 [&](const TransferJob& job) { return job.job_id == id; });
    if (it == jobs->end()) continue;
    TransferJob job = std::move(*it);
    jobs->erase(it);
    publish_counts();
    return job;
  }
  return std::nullopt;
}

std::vector<TransferJob> LaneInbox::cancel_queued() {
  const std::lock_guard lock(mutex_);
  std::vector<TransferJob> cancelled;
  cancelled.reserve(loads_.size() + stores_.size());
  for (auto* jobs : {&loads_, &stores_}) {
    std::move(jobs->begin(), jobs->end(), std::back_inserter(cancelled));
    jobs->clear();
  }
  publish_counts();
  return cancelled;
}

void LaneInbox::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

std::uint64_t LaneInbox::queued_jobs() const {
  const std::lock_guard lock(mutex_);
  return loads_.size() + stores_.size();
}

std::optional<LaneInbox::Probe> LaneInbox::pop_probe() {
  if (num_probes_.load(std::memory_order_relaxed) == 0) return std::nullopt;
  const std::lock_guard lock(mutex_);
  if (probes_.empty()) return std::nullopt;
  Probe probe = std::move(probes_.front());
  probes_.pop_front();
  probe_keys_ -= probe.keys.size();
  publish_counts();
  return probe;
}

std::optional<TransferJob> LaneInbox::pop_job(bool is_load) {
  const std::lock_guard lock(mutex_);
  auto& jobs = queue(is_load);
  if (jobs.empty()) return std::nullopt;
  TransferJob job = std::move(jobs.front());
  jobs.pop_front();
  publish_counts();
  return job;
}

void LaneInbox::publish_counts() {
  num_probes_.store(probes_.size(), std::memory_order_relaxed);
  num_loads_.store(loads_.size(), std::memory_order_relaxed);
  num_stores_.store(stores_.size(), std::memory_order_relaxed);
}

void LaneInbox::mark_storing(std::span<const OffloadKey> keys,
                             std::span<LookupResult> verdicts) const {
  const std::lock_guard lock(mutex_);
  if (storing_.empty()) return;
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (storing_.contains(keys[i])) verdicts[i] = LookupResult::retry;
}

void LaneInbox::job_ended(const TransferJob& job) {
  const std::lock_guard lock(mutex_);
  --jobs_;
  if (job.is_promotion) return;
  for (const OffloadKey& key : job.keys) {
    const auto it = storing_.find(key);
    if (it != storing_.end() && --it->second == 0) storing_.erase(it);
  }
}

bool LaneInbox::may_sleep(std::uint8_t wake_for) {
  const std::lock_guard lock(mutex_);
  if ((wake_for & kProbes) != 0 && !probes_.empty()) return false;
  if ((wake_for & kLoads) != 0 && !loads_.empty()) return false;
  if ((wake_for & kStores) != 0 && !stores_.empty()) return false;
  asleep_for_ = wake_for;
  return true;
}

void LaneInbox::woke_up() {
  const std::lock_guard lock(mutex_);
  asleep_for_ = 0;
}

bool LaneInbox::is_closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

void LaneInbox::wake_if_asleep(std::uint8_t reason, std::unique_lock<std::mutex>& lock) {
  if ((asleep_for_ & reason) == 0) return;
  asleep_for_ = 0;
  lock.unlock();
  wake_();
}

}  // namespace kv_offload
