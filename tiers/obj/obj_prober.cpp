#include "kv_offload/tiers/obj/obj_prober.hpp"

#include <utility>

namespace kv_offload {

std::optional<bool> ObjProber::known(const OffloadKey& key) {
  const auto* refused = core_.refused.find(key);
  if (refused != nullptr && *refused == RefusedKeys::Reason::corrupt) return false;
  if (keeper_.is_leaving(key)) return false;
  if (const auto verdict = core_.verdicts.find(key, core_.now())) return verdict;
  return keeper_.manifest(key);
}

void ObjProber::take(LaneInbox::Probe probe) {
  core_.lane.probes.fetch_add(probe.keys.size(), std::memory_order_relaxed);
  const ProbeId id = probe.id;
  const auto at = open_.emplace(id, Open{std::move(probe.keys), {}, 0}).first;
  Open& open = at->second;
  open.verdicts.assign(open.keys.size(), LookupResult::retry);
  for (std::size_t i = 0; i < open.keys.size(); ++i) {
    if (const auto present = known(open.keys[i])) {
      open.verdicts[i] = *present ? LookupResult::hit : LookupResult::miss;
      core_.shared.counters.cached_verdicts.fetch_add(1, std::memory_order_relaxed);
      continue;
    }
    ++open.left;
    const auto [asked, is_new] = asked_.try_emplace(open.keys[i]);
    asked->second.places.emplace_back(id, i);
    if (is_new) waiting_.push_back(open.keys[i]);
  }
  if (open.left == 0) answered(at);
}

void ObjProber::pump() {
  while (in_flight_ < core_.config.max_probes && !waiting_.empty()) {
    const OffloadKey key = waiting_.front();
    waiting_.pop_front();
    S3Call call;
    call.op = S3Op::head;
    call.key = core_.name_space.object_of(key);
    call.attempt_timeout = core_.config.probe_timeout;
    call.deadline = core_.now() + core_.config.probe_timeout;
    call.object_bytes = core_.options.primary.row_bytes;
    ++in_flight_;
    asked_.at(key).call = core_.client.start(std::move(call), [this, key, of = core_.generation](S3Reply&& reply) {
      --in_flight_;
      answer(key, of == core_.generation ? verdict_of(key, reply) : LookupResult::retry);
      core_.pump();
    });
  }
}

LookupResult ObjProber::verdict_of(const OffloadKey& key, const S3Reply& reply) {
  const MonotonicTime now = core_.now();
  const auto miss = [&] {
    core_.verdicts.put(key, false, now);
    return LookupResult::miss;
  };
  if (reply.failure == S3Failure::not_found) {
    keeper_.gone(key);
    return miss();
  }
  // Of no use, as anybody can see; a store replaces it.
  const auto refuse = [&] {
    core_.refused.add(key, RefusedKeys::Reason::foreign);
    return miss();
  };
  if (reply.failure == S3Failure::wrong_length) return refuse();
  if (reply.failure != S3Failure::none) return LookupResult::retry;
  if (core_.config.checksum) {
    ChunkDigest digest;
    const ObjOrigin origin = origin_of(*reply.headers, core_.name_space.revision(), digest);
    if (origin == ObjOrigin::damaged) return refuse();
    if (origin == ObjOrigin::foreign && core_.config.refuse_foreign) {
      core_.shared.counters.foreign_refused.fetch_add(1, std::memory_order_relaxed);
      return refuse();
    }
  }
  core_.refused.remove(key);  // another engine has replaced it
  core_.verdicts.put(key, true, now);
  keeper_.seen(key, core_.options.primary.row_bytes);
  return LookupResult::hit;
}

void ObjProber::answer(const OffloadKey& key, LookupResult verdict) {
  const auto asked = asked_.find(key);
  if (asked == asked_.end()) return;
  const std::vector<Place> places = std::move(asked->second.places);
  asked_.erase(asked);
  for (const auto& [id, at] : places) {
    const auto open = open_.find(id);
    open->second.verdicts[at] = verdict;
    if (--open->second.left == 0) answered(open);
  }
}

void ObjProber::answered(std::map<ProbeId, Open>::iterator open) {
  Open& probe = open->second;
  core_.inbox.mark_storing(probe.keys, probe.verdicts);
  const ProbeId id = open->first;
  std::vector<LookupResult> verdicts = std::move(probe.verdicts);
  open_.erase(open);
  core_.sink.probed(id, std::move(verdicts));
}

void ObjProber::give_up() {
  waiting_.clear();
  for (const auto& [key, asked] : std::exchange(asked_, {}))
    if (asked.call != 0) core_.client.cancel(asked.call);
  in_flight_ = 0;
  while (!open_.empty()) answered(open_.begin());
}

}  // namespace kv_offload
