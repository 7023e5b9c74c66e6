#include "kv_offload/tiers/obj/obj_transfers.hpp"

#include "kv_offload/tiers/io/row_storage.hpp"

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

namespace kv_offload {

namespace {

/// How often what a fault holds back, or a store without room, is looked at again.
constexpr auto kHeldPause = std::chrono::milliseconds(1);
constexpr auto kRoomPause = std::chrono::milliseconds(50);

int errno_of(S3Failure failure) {
  switch (failure) {
    case S3Failure::timed_out: return ETIMEDOUT;
    case S3Failure::unreachable: return ECONNREFUSED;
    case S3Failure::denied:
    case S3Failure::bad_credentials:
    case S3Failure::clock_skew: return EACCES;
    case S3Failure::throttled: return EAGAIN;
    case S3Failure::tls: return EPROTO;
    case S3Failure::broken: return ECONNRESET;
    case S3Failure::no_bucket: return ENODEV;
    default: return EREMOTEIO;
  }
}

}  // namespace

ObjTransfers::ObjTransfers(ObjCore& core, ObjKeeper& keeper)
    : core_(core), keeper_(keeper), held_timer_(core.loop), room_timer_(core.loop) {
  const Slot slots = 2 * core.config.max_inflight;
  transfers_.reserve(slots);
  for (Slot slot = slots; slot-- > 0;) free_.push_back(slot);
  for (Slot slot = 0; slot < slots; ++slot) transfers_.push_back(std::make_unique<Transfer>());
}

/// While loads are on their way or wait, stores get a quarter: bandwidth is shared by connections.
std::uint32_t ObjTransfers::limit(bool is_load) const {
  const std::uint32_t all = core_.config.max_inflight;
  const bool loads_come = in_flight_[1] > 0 || current_[1] != nullptr || core_.inbox.has_job(true);
  return is_load || !loads_come ? all : std::max<std::uint32_t>(1, all / 4);
}

bool ObjTransfers::has_room(bool is_load) const {
  return in_flight_[is_load ? 1 : 0] < limit(is_load) && (is_load || !waits_for_room_);
}

void ObjTransfers::pump() {
  waits_for_room_ = false;
  for (const bool is_load : {true, false})
    while (has_room(is_load) && start_next(is_load)) {
    }
}

/// Whether there is a job of that direction with a key to start.
bool ObjTransfers::next_job(bool is_load) {
  ActiveJob*& current = current_[is_load ? 1 : 0];
  while (current == nullptr) {
    auto job = core_.inbox.pop_job(is_load);
    if (!job) return false;
    core_.adopt();
    auto owned = std::make_unique<ActiveJob>(std::move(*job));
    ActiveJob& active = *owned;
    active_.emplace(&active, std::move(owned));
    core_.lane.running_jobs.fetch_add(1, std::memory_order_relaxed);
    if (active.has_unstarted())
      current = &active;
    else
      finish(active);  // no keys at all
  }
  return true;
}

/// False: there is nothing to start, or it has to wait.
bool ObjTransfers::start_next(bool is_load) {
  if (!next_job(is_load)) return false;
  ActiveJob*& current = current_[is_load ? 1 : 0];
  ActiveJob& job = *current;
  const OffloadKey& key = job.job().keys[job.next_unstarted()];
  auto room = ObjKeeper::Room::ready;
  const bool needs_room = !is_load && keeper_.is_counting() && !is_known_stored(key);
  bool is_late = false;
  if (needs_room) {
    room = keeper_.is_leaving(key) ? ObjKeeper::Room::later : keeper_.reserve();
    is_late = job.job().deadline != MonotonicTime{} && job.job().deadline <= core_.now();
    if (room == ObjKeeper::Room::later && !is_late) return wait_for_room(), false;
    wait_counted_ = false;
  }
  const std::size_t i = job.start_next();
  if (!job.has_unstarted()) current = nullptr;  // it may end, and be gone, inside what follows
  if (room == ObjKeeper::Room::ready)
    start_key(job, i, needs_room);
  else
    key_ended(job, i, KeyEnd::failed(is_late ? TransferFailure::deadline : TransferFailure::no_space, ENOSPC), {});
  return true;
}

void ObjTransfers::wait_for_room() {
  waits_for_room_ = true;
  if (!std::exchange(wait_counted_, true))
    core_.shared.counters.waited_stores.fetch_add(1, std::memory_order_relaxed);
  room_timer_.expires_after(kRoomPause);
  room_timer_.async_wait([this](const std::error_code& error) {
    if (!error) core_.pump();
  });
}

/// Without asking: what was seen lately. Of anything else a PUT makes sure, and repeats nothing but bytes.
bool ObjTransfers::is_known_stored(const OffloadKey& key) const {
  return core_.refused.find(key) == nullptr && core_.verdicts.find(key, core_.now()).value_or(false);
}

void ObjTransfers::start_key(ActiveJob& job, std::size_t key_idx, bool has_room) {
  const bool is_load = job.job().is_promotion;
  const OffloadKey& key = job.job().keys[key_idx];
  const auto end_now = [&](const KeyEnd& end) {
    if (has_room) keeper_.release();
    key_ended(job, key_idx, end, {});
  };
  if (const int error = core_.faults.error_of_next(is_load); error != 0) {
    const bool is_full = error == ENOSPC;
    return end_now(KeyEnd::failed(is_full ? TransferFailure::no_space : TransferFailure::io_error, error));
  }
  const ChunkId chunk = job.job().chunk_ids[key_idx];
  if (chunk >= core_.options.primary.num_chunks) return end_now(KeyEnd::failed(TransferFailure::io_error, EINVAL));
  if (!is_load && is_known_stored(key)) return end_now({KeyFate::already_present, TransferFailure::none, 0, false});
  if (is_load && keeper_.is_leaving(key)) return end_now(KeyEnd::failed(TransferFailure::not_found, ENOENT));

  const Slot slot = free_.back();
  free_.pop_back();
  Transfer& t = *transfers_[slot];
  t.job = &job;
  t.key_idx = key_idx;
  t.chunk = chunk;
  t.is_load = is_load;
  t.has_room = has_room;
  t.started = core_.now();
  ++in_flight_[is_load ? 1 : 0];
  keeper_.begin_use(key);
  core_.options.primary.begin_use(chunk);
  if (is_load)
    start_load(slot);
  else
    start_store(slot);
}

S3Call ObjTransfers::call_of(const Transfer& t, S3Op op) const {
  S3Call call;
  call.op = op;
  call.key = core_.name_space.object_of(key_of(t));
  call.attempt_timeout = core_.config.request_timeout;
  if (t.job->job().deadline != MonotonicTime{}) call.deadline = t.job->job().deadline;
  return call;
}

void ObjTransfers::start_load(Slot slot) {
  Transfer& t = *transfers_[slot];
  S3Call call = call_of(t, S3Op::get);
  t.sink.open(core_.options.primary.row(t.chunk), core_.config.checksum);
  call.sink = &t.sink;
  call.object_bytes = core_.options.primary.row_bytes;
  t.call = core_.client.start(std::move(call), [this, slot](S3Reply&& reply) {
    over(slot, end_of_load(*transfers_[slot], reply));
  });
}

void ObjTransfers::start_store(Slot slot) {
  Transfer& t = *transfers_[slot];
  const auto row = core_.options.primary.row(t.chunk);
  zero_padding(row, core_.options.primary.payload_bytes);
  S3Call call = call_of(t, S3Op::put);
  if (core_.config.checksum) {
    const auto digest = encode_digest(core_.name_space.digester().digest(key_of(t), row));
    call.headers.emplace_back(kDigestHeader, std::string(digest.data(), digest.size()));
    if (!core_.name_space.revision().empty())
      call.headers.emplace_back(kRevisionHeader, revision_text(core_.name_space.revision()));
  }
  // A corrupt object must be replaced, whatever the store thinks of it.
  if (core_.config.if_none_match && core_.refused.find(key_of(t)) == nullptr)
    call.headers.emplace_back("if-none-match", "*");
  call.upload = row;
  if (core_.faults.corrupts_next_store()) {
    t.scratch.assign(row.begin(), row.end());
    t.scratch[t.scratch.size() / 2] ^= std::byte{0x01};
    call.upload = t.scratch;
  }
  t.call = core_.client.start(std::move(call), [this, slot](S3Reply&& reply) {
    over(slot, end_of_store(*transfers_[slot], reply));
  });
}

KeyEnd ObjTransfers::failed(const Transfer& t, const S3Reply& reply) const {
  const MonotonicTime deadline = t.job->job().deadline;
  const bool is_late = reply.is_late || (deadline != MonotonicTime{} && core_.now() >= deadline);
  if (reply.failure == S3Failure::timed_out && is_late) return KeyEnd::failed(TransferFailure::deadline, ETIMEDOUT);
  return KeyEnd::failed(
      TransferFailure::io_error,
      errno_of(reply.failure == S3Failure::breaker_open ? reply.cause : reply.failure));
}

KeyEnd ObjTransfers::corrupt(const OffloadKey& key) {
  core_.shared.counters.corrupt_chunks.fetch_add(1, std::memory_order_relaxed);
  core_.refused.add(key, RefusedKeys::Reason::corrupt);
  core_.verdicts.erase(key);
  return KeyEnd::failed(TransferFailure::corrupt, EIO);
}

KeyEnd ObjTransfers::end_of_load(Transfer& t, const S3Reply& reply) {
  const OffloadKey& key = key_of(t);
  if (reply.failure == S3Failure::not_found) {
    core_.verdicts.put(key, false, core_.now());
    keeper_.gone(key);
    return KeyEnd::failed(TransferFailure::not_found, ENOENT);
  }
  if (reply.failure == S3Failure::wrong_length) return corrupt(key);
  if (reply.failure != S3Failure::none) {
    core_.verdicts.erase(key);  // a hit that cannot be loaded would be offered again and again
    return failed(t, reply);
  }
  KeyEnd end{KeyFate::done, TransferFailure::none, 0, false};
  if (core_.config.checksum) {
    ChunkDigest digest;
    switch (origin_of(*reply.headers, core_.name_space.revision(), digest)) {
      case ObjOrigin::damaged: return corrupt(key);
      case ObjOrigin::foreign:
        if (core_.config.refuse_foreign) {
          core_.shared.counters.foreign_refused.fetch_add(1, std::memory_order_relaxed);
          core_.verdicts.put(key, false, core_.now());
          core_.refused.add(key, RefusedKeys::Reason::foreign);
          return KeyEnd::failed(TransferFailure::foreign);
        }
        end.unverified = true;
        break;
      case ObjOrigin::ours:
        if (t.sink.digest(core_.name_space.digester(), key) != digest) return corrupt(key);
    }
  } else {
    end.unverified = true;
  }
  if (end.unverified) {
    core_.lane.unverified_chunks.fetch_add(1, std::memory_order_relaxed);
    zero_padding(core_.options.primary.row(t.chunk), core_.options.primary.payload_bytes);
  }
  keeper_.touched(key);
  core_.verdicts.put(key, true, core_.now());
  return end;
}

KeyEnd ObjTransfers::end_of_store(Transfer& t, const S3Reply& reply) {
  const OffloadKey& key = key_of(t);
  if (reply.failure == S3Failure::exists) {
    core_.verdicts.put(key, true, core_.now());
    keeper_.stored(key);
    return {KeyFate::already_present, TransferFailure::none, 0, false};
  }
  if (reply.failure != S3Failure::none) {
    // It may have arrived all the same.
    core_.verdicts.erase(key);
    return failed(t, reply);
  }
  core_.refused.remove(key);
  core_.verdicts.put(key, true, core_.now());
  keeper_.stored(key);
  return {KeyFate::done, TransferFailure::none, 0, false};
}

// --- ends -------------------------------------------------------------------------------------------

/// The store has answered, or nobody will: nothing touches the slot any more. A fault may hold the news back.
void ObjTransfers::over(Slot slot, const KeyEnd& end) {
  Transfer& t = *transfers_[slot];
  const MonotonicTime now = core_.now();
  t.call = 0;
  if (core_.options.faults == nullptr || (!core_.faults.hangs() && core_.faults.due(t.started, now) <= now)) {
    tell(slot, end, now);
    return core_.pump();
  }
  held_.push_back({slot, end, now});
  if (held_.size() == 1) release_held();
}

void ObjTransfers::release_held() {
  const MonotonicTime now = core_.now();
  bool any = false;
  for (std::size_t i = 0; i < held_.size();) {
    const Held held = held_[i];
    if (core_.faults.hangs() || core_.faults.due(transfers_[held.slot]->started, held.finished) > now) {
      ++i;
      continue;
    }
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(i));
    tell(held.slot, held.end, now);
    any = true;
  }
  if (!held_.empty()) {
    held_timer_.expires_after(kHeldPause);
    held_timer_.async_wait([this](const std::error_code& error) {
      if (!error) release_held();
    });
  }
  if (any || core_.faults.kills_lane()) core_.pump();
}

void ObjTransfers::tell(Slot slot, const KeyEnd& end, MonotonicTime finished) {
  Transfer& t = *transfers_[slot];
  core_.options.primary.end_use(t.chunk);
  keeper_.end_use(key_of(t));
  if (t.has_room) keeper_.release();
  t.scratch = {};
  --in_flight_[t.is_load ? 1 : 0];
  free_.push_back(slot);
  key_ended(*t.job, t.key_idx, end, finished - t.started);
}

void ObjTransfers::key_ended(ActiveJob& job, std::size_t key_idx, const KeyEnd& end, Duration io_time) {
  job.key_ended(key_idx, end, core_.options.primary.row_bytes, io_time);
  if (job.is_over()) finish(job);
}

void ObjTransfers::finish(ActiveJob& active) {
  const auto at = active_.find(&active);
  const auto owned = std::move(at->second);
  active_.erase(at);
  core_.lane.running_jobs.fetch_sub(1, std::memory_order_relaxed);
  JobResult result = owned->take_result(core_.now());
  const TransferJob& job = owned->job();
  if (core_.config.enable_kv_events && !job.is_promotion && result.success && !job.keys.empty()) {
    OffloadingEvent event;
    event.keys = job.keys;
    event.medium = Medium::storage;
    event.locality = core_.config.locality;
    core_.shared.events.add(std::move(event));
  }
  core_.inbox.job_ended(job);
  core_.sink.job_ended(std::move(result));
}

void ObjTransfers::cut() {
  held_timer_.cancel();
  room_timer_.cancel();
  const MonotonicTime now = core_.now();
  for (const Held& held : std::exchange(held_, {})) tell(held.slot, held.end, now);
  for (Slot slot = 0; slot < transfers_.size(); ++slot) {
    Transfer& t = *transfers_[slot];
    if (t.call == 0) continue;
    core_.client.cancel(std::exchange(t.call, 0));
    tell(slot, KeyEnd::failed(TransferFailure::cancelled), now);
  }
  for (ActiveJob*& current : current_) {
    ActiveJob* const job = std::exchange(current, nullptr);
    while (job != nullptr) {
      const std::size_t i = job->start_next();
      const bool is_last = !job->has_unstarted();
      key_ended(*job, i, KeyEnd::failed(TransferFailure::cancelled), {});
      if (is_last) break;
    }
  }
}

}  // namespace kv_offload
