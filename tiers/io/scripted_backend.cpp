#include "kv_offload/tiers/io/scripted_backend.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <unistd.h>

namespace kv_offload {

Expected<std::string> ScriptedBackend::open() {
  if (options_.open_error) return {OffloadErrc::unsupported, *options_.open_error};
  return std::string("scripted backend");
}

bool ScriptedBackend::push(const IoRequest& request) {
  if (requests_.size() >= options_.queue_depth) return ++refused_pushes_, false;
  Pending pending{request, {}, false};
  if (script_) pending.plan = script_(request, next_ordinal_);
  ++next_ordinal_;
  requests_.push_back(std::move(pending));
  return true;
}

int ScriptedBackend::submit() {
  for (Pending& pending : requests_) pending.submitted = true;
  const std::lock_guard lock(mutex_);
  return fatal_;
}

int ScriptedBackend::reap(std::vector<IoCompletion>& completions, Duration wait) {
  if (const int fatal = submit(); fatal != 0) return fatal;
  const auto first = static_cast<std::ptrdiff_t>(completions.size());
  std::uint32_t taken = 0;
  bool waits_for_later_reap = false;
  for (auto it = requests_.begin(); it != requests_.end() && taken < options_.completions_max;) {
    const bool is_held = it->plan.held != nullptr && it->plan.held->load();
    if (it->plan.never || it->plan.after_reaps > 0 || is_held) {
      waits_for_later_reap |= !it->plan.never;
      if (it->plan.after_reaps > 0) --it->plan.after_reaps;
      ++it;
      continue;
    }
    completions.push_back({it->request.tag, perform(*it)});
    it = requests_.erase(it);
    ++taken;
  }
  if (options_.newest_first) std::reverse(completions.begin() + first, completions.end());

  std::unique_lock lock(mutex_);
  if (taken == 0 && !waits_for_later_reap)
    woken_.wait_for(lock, wait, [this] { return wake_ || fatal_ != 0; });
  wake_ = false;
  return fatal_;
}

void ScriptedBackend::wake() {
  const std::lock_guard lock(mutex_);
  wake_ = true;
  woken_.notify_one();
}

void ScriptedBackend::break_with(int error) {
  const std::lock_guard lock(mutex_);
  fatal_ = error;
  woken_.notify_one();
}

std::int32_t ScriptedBackend::perform(const Pending& pending) {
  if (pending.plan.result) return *pending.plan.result;
  const IoRequest& r = pending.request;
  const std::uint32_t length = std::min(r.length, pending.plan.length_max.value_or(r.length));
  const auto offset = static_cast<off_t>(r.offset);
  ssize_t result = 0;
  switch (r.op) {
    case IoOp::read: result = ::pread(r.fd, r.buffer, length, offset); break;
    case IoOp::write: result = ::pwrite(r.fd, r.buffer, length, offset); break;
    case IoOp::sync_data: result = ::fdatasync(r.fd); break;
    case IoOp::sync_file: result = ::fsync(r.fd); break;
    case IoOp::unlink: result = ::unlink(r.path); break;
  }
  return static_cast<std::int32_t>(result < 0 ? -errno : result);
}

}  // namespace kv_offload
