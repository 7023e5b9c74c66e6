#include "kv_offload/tiers/io/lane_worker.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <utility>

namespace kv_offload {

namespace {

using std::chrono::milliseconds;

/// Keys probed before completions are looked at again: about 0.5 ms of access checks.
constexpr std::size_t kProbeKeysPerTurn = 256;
/// CPU time of one turn's starts, and of its work, before completions are looked at again. Much less
/// than a full queue of the device takes (4 MiB: 1 ms and more), so that the device never runs dry.
constexpr std::uint64_t kTurnBudgetUs = 200;
/// The same while loads come: one store's start is 50 us, and a load waits for the end of the turn.
constexpr std::uint64_t kTurnBudgetBesideLoadsUs = 50;
/// Loads are taken to go on coming for so long after the last one. Longer than the pauses within a
/// prompt's prefix, short enough that stores soon have the whole device when nobody loads.
constexpr Duration kLoadsGoOn = milliseconds(100);
/// Digests run at 10 GiB/s and more: 1 MiB in 100 us.
constexpr std::uint64_t digest_us(std::uint64_t bytes) { return bytes / 10'000; }
/// Sleep without work. Everything that matters wakes the lane; this only bounds the wait.
constexpr Duration kIdleWait = std::chrono::seconds(1);
/// How often a held transfer looks whether its fault was lifted.
constexpr Duration kFaultPoll = milliseconds(2);
constexpr int kDrainRounds = 20;  ///< of 50 ms each

}  // namespace

LaneWorker::LaneWorker(const LaneOptions& options, IoBackend& backend, LaneStorage& storage,
                       LaneInbox& inbox, SinkGate& sink, LaneCounters& counters,
                       const std::atomic<bool>& abandoned)
    : options_(options),
      backend_(backend),
      storage_(storage),
      inbox_(inbox),
      sink_(sink),
      counters_(counters),
      abandoned_(abandoned),
      faults_(options.faults),
      directions_{Direction(options), Direction(options)},
      joiner_(options.joins_max, options.join_bytes_max) {
  const std::uint32_t count = 2 * options_.queue_depth;
  transfers_.resize(count);
  free_slots_.reserve(count);
  for (TransferSlot slot = count; slot > 0; --slot) free_slots_.push_back(slot - 1);
  held_.reserve(count);
  completions_.reserve(count);
  own_.resize(storage_.own_io_max());
  own_tag_ = count;
  join_tag_ = own_tag_ + static_cast<std::uint32_t>(own_.size());
  joined_.resize(joiner_.writes_max());
  costs_ = storage_.costs();
  storage_.reserve_slots(count);
}

/// Copies that the device may still read are left to it.
LaneWorker::~LaneWorker() {
  if (backend_.in_flight() == 0) return;
  joiner_.leak();
  for (Transfer& transfer : transfers_) transfer.scratch.leak();
}

LaneWorker::End LaneWorker::run() {
  try {
    return work_until_closed();
  } catch (const std::exception& e) {  // out of memory
    failure_ = std::string("I/O thread: ") + e.what();
  } catch (...) {
    failure_ = "I/O thread: unknown exception";
  }
  drain_silently();
  return End::failed;
}

LaneWorker::End LaneWorker::work_until_closed() {
  while (true) {
    if (faults_.kills_lane()) return drain_silently(), End::killed;
    if (abandoned_.load()) return drain_silently(), End::stopped;
    loads_come_ = directions_[1].transfers > 0 || options_.now() < loads_until_;
    const bool probes_left = answer_probes();
    resume_waiting();
    const bool store_begun = start_transfers();
    start_own_io();
    const bool pushed = push_waiting();
    if (pushed && has_work())
      if (const int error = backend_.submit(); error != 0)
        return fail("submit", error), End::failed;
    do_work(store_begun);
    resume_waiting();
    start_own_io();
    push_waiting();  // syncs and the storage's own I/O that the work asked for
    if (is_done()) return give_up_probes(), End::stopped;
    if (!reap(probes_left ? Duration::zero() : time_to_wait())) return End::failed;
  }
}

// --- probes ---------------------------------------------------------------------------------------

/// True: more probes wait, this turn's share is used up.
bool LaneWorker::answer_probes() {
  std::size_t answered = 0;
  while (answered < kProbeKeysPerTurn) {
    auto probe = inbox_.pop_probe();
    if (!probe) return false;
    verdicts_.assign(probe->keys.size(), LookupResult::miss);
    inbox_.mark_storing(probe->keys, verdicts_);
    for (std::size_t i = 0; i < probe->keys.size(); ++i)
      if (verdicts_[i] != LookupResult::retry) verdicts_[i] = storage_.probe(probe->keys[i]);
    answered += std::max<std::size_t>(probe->keys.size(), 1);
    counters_.probes += probe->keys.size();
    sink_.probed(probe->id, verdicts_);
  }
  return true;
}

/// At the end of the lane: what was asked and not looked at is unknown.
void LaneWorker::give_up_probes() {
  while (auto probe = inbox_.pop_probe())
    sink_.probed(probe->id, std::vector(probe->keys.size(), LookupResult::retry));
}

// --- starting -------------------------------------------------------------------------------------

bool LaneWorker::has_room(bool is_load) const {
  const Direction& d = directions_[is_load ? 1 : 0];
  if (d.transfers >= options_.queue_depth) return false;
  std::uint64_t most = is_alone(is_load) ? d.cap.bytes() : d.cap.learned();
  if (!is_load && loads_come_) most = std::min(most, options_.store_bytes_beside_loads);
  return d.bytes_in_flight == 0 || d.bytes_in_flight + options_.primary.row_bytes <= most;
}

/// The other direction is not at the device, nor about to be.
bool LaneWorker::is_alone(bool is_load) const {
  return is_load ? directions_[0].transfers == 0 : !loads_come_;
}

std::uint64_t LaneWorker::turn_budget_us() const {
  return loads_come_ ? kTurnBudgetBesideLoadsUs : kTurnBudgetUs;
}

/// The direction whose next key may start now, if any: loads before stores, but not for ever.
std::optional<bool> LaneWorker::next_start(bool stores_may) const {
  const bool load_waits = is_waiting(true);
  const bool store_is_due = !load_waits || loads_since_store_ >= options_.loads_per_store;
  if (stores_may && store_is_due && has_room(false) && is_waiting(false)) return false;
  if (load_waits && has_room(true)) return true;
  return std::nullopt;
}

bool LaneWorker::is_waiting(bool is_load) const {
  return directions_[is_load ? 1 : 0].current != nullptr || inbox_.has_job(is_load);
}

/// True: among them a store. Beginning one takes as long as many reads: loads go to the device before a
/// store is begun after them, and while they come what stores have left to do goes first.
bool LaneWorker::start_transfers() {
  const std::uint64_t budget_us = turn_budget_us();
  const bool stores_may = !loads_come_ || directions_[0].work.empty();
  bool has_loads = false, has_stores = false;
  for (std::uint64_t spent_us = 0; spent_us < budget_us;) {
    const auto is_load = next_start(stores_may);
    if (!is_load || (has_loads && !*is_load)) break;
    (*is_load ? has_loads : has_stores) = true;
    spent_us += *is_load ? costs_.start_load_us : costs_.start_store_us;
    const bool started = start_next(*is_load);
    if (!*is_load)
      loads_since_store_ = 0;
    else if (started)
      ++loads_since_store_;
  }
  return has_stores;
}

bool LaneWorker::start_next(bool is_load) {
  ActiveJob*& current = direction(is_load).current;
  if (current == nullptr) {
    auto job = inbox_.pop_job(is_load);
    if (!job) return false;  // cancelled meanwhile
    auto active = std::make_unique<ActiveJob>(std::move(*job));
    current = active.get();
    active_.emplace(current, std::move(active));
    ++counters_.running_jobs;
  }
  ActiveJob& job = *current;
  if (!job.has_unstarted()) {  // a job without keys
    current = nullptr;
    finish(job);
    return false;
  }
  const std::size_t last = job.job().keys.size() - 1;
  const std::size_t key_idx = job.start_next();
  if (key_idx == last) current = nullptr;
  start_key(job, key_idx);
  return true;
}

void LaneWorker::start_key(ActiveJob& job, std::size_t key_idx) {
  const TransferSlot slot = free_slots_.back();
  free_slots_.pop_back();
  const TransferJob& wanted = job.job();
  Transfer& t = transfers_[slot];
  t.job = &job;
  t.key_idx = key_idx;
  t.is_load = wanted.is_promotion;
  if (t.is_load) {
    loads_come_ = true;
    loads_until_ = options_.now() + kLoadsGoOn;
  }
  t.io_time = {};
  ++direction(t.is_load).transfers;
  t.injected_error = faults_.error_of_next(t.is_load);

  const PrimaryView& view = options_.primary;
  const bool is_valid = wanted.chunk_ids.size() == wanted.keys.size() &&
                        wanted.chunk_ids[key_idx] < view.num_chunks &&
                        (wanted.chunk_bytes == 0 || wanted.chunk_bytes == view.row_bytes);
  t.chunk = is_valid ? wanted.chunk_ids[key_idx] : kNoChunk;
  if (!is_valid) return key_ended(slot, KeyEnd::failed(TransferFailure::io_error, EINVAL));
  view.begin_use(t.chunk);
  follow(slot, storage_.begin(context(slot)));
  if (t.is_load || t.job == nullptr) return;
  t.owes_overlap = true;
  direction(false).work.push_back({slot, true});
}

ChunkContext LaneWorker::context(TransferSlot slot) {
  const Transfer& t = transfers_[slot];
  return {slot, t.is_load, &t.job->job().keys[t.key_idx], options_.primary.row(t.chunk)};
}

/// Does what the storage wants next for the transfer.
void LaneWorker::follow(TransferSlot slot, const StorageStep& step) {
  if (step.is_over)
    key_ended(slot, step.end);
  else if (!step.waits)
    start_io(slot, step);
}

/// Transfers that waited for the storage's own I/O go on.
void LaneWorker::resume_waiting() {
  if (own_.empty()) return;
  TransferSlot slot = 0;
  StorageStep step;
  while (storage_.next_resumed(slot, step)) follow(slot, step);
}

// --- work ------------------------------------------------------------------------------------------

bool LaneWorker::has_work() const {
  return !directions_[0].work.empty() || !directions_[1].work.empty();
}

/// Loads first. While they come, a turn either begins stores or works for them, each for a short time:
/// a new load waits for no more than that.
void LaneWorker::do_work(bool store_begun) {
  Direction& loads = direction(true);
  Direction& stores = direction(false);
  const std::uint64_t budget_us = turn_budget_us();
  std::uint64_t spent_us = 0;
  while (!loads.work.empty() && spent_us < budget_us) spent_us += do_next_work(loads);
  if (loads_come_) {
    if (store_begun) return;
    spent_us = 0;  // at least one store's: loads alone must not starve them
  }
  while (!stores.work.empty() && spent_us < budget_us) spent_us += do_next_work(stores);
}

/// Answers what it may have taken, microseconds.
std::uint64_t LaneWorker::do_next_work(Direction& d) {
  const std::uint64_t row_us = digest_us(options_.primary.row_bytes);
  const Work work = d.work.front();
  d.work.pop_front();
  Transfer& t = transfers_[work.slot];
  if (work.is_overlap) {
    t.owes_overlap = false;
    storage_.overlap(context(work.slot));
    return row_us;
  }
  const bool is_load = t.is_load;
  IoEnd io{t.io.error(), t.io.is_short()};
  if (t.injected_error != 0 && t.moves_row) io = {t.injected_error, false};
  follow(work.slot, storage_.proceed(context(work.slot), io));
  return is_load ? costs_.finish_load_us + row_us : costs_.finish_store_us;
}

void LaneWorker::key_ended(TransferSlot slot, const KeyEnd& end) {
  Transfer& t = transfers_[slot];
  ActiveJob& job = *t.job;
  if (t.chunk != kNoChunk) options_.primary.end_use(t.chunk);
  // A store that waited may end without I/O, before its turn to be digested came.
  if (std::exchange(t.owes_overlap, false))
    std::erase_if(direction(false).work,
                  [&](const Work& w) { return w.is_overlap && w.slot == slot; });
  --direction(t.is_load).transfers;
  job.key_ended(t.key_idx, end, options_.primary.row_bytes, t.io_time);
  if (end.unverified) ++counters_.unverified_chunks;
  t.job = nullptr;
  free_slots_.push_back(slot);
  if (job.is_over()) finish(job);
}

void LaneWorker::finish(ActiveJob& job) {
  JobResult result = job.take_result(options_.now());
  storage_.job_ended(job.job(), result);
  inbox_.job_ended(job.job());
  --counters_.running_jobs;
  sink_.job_ended(std::move(result));
  active_.erase(&job);
}

// --- waiting and ending ---------------------------------------------------------------------------

Duration LaneWorker::time_to_wait() {
  if (has_work() || next_start()) return Duration::zero();
  // Only what could start should wake the lane: full directions are looked at when a transfer ends.
  std::uint8_t wake_for = LaneInbox::kProbes;
  if (has_room(true)) wake_for |= LaneInbox::kLoads;
  if (has_room(false) && !is_waiting(true)) wake_for |= LaneInbox::kStores;
  if (!inbox_.may_sleep(wake_for)) return Duration::zero();
  const Duration idle = own_.empty() ? kIdleWait : std::min(kIdleWait, storage_.own_work_wait());
  if (held_.empty()) return idle;
  if (faults_.hangs()) return kFaultPoll;
  MonotonicTime next = due(held_.front());
  for (const Held& held : held_) next = std::min(next, due(held));
  return std::clamp<Duration>(next - options_.now(), Duration{1}, kFaultPoll);
}

bool LaneWorker::is_over() const { return active_.empty() && inbox_.is_closed(); }

bool LaneWorker::is_done() const { return own_out_ == 0 && is_over(); }

/// Ends the I/O that is out without reporting it, so that no buffer is written after the thread ended.
void LaneWorker::drain_silently() {
  for (int round = 0; round < kDrainRounds && backend_.in_flight() > 0; ++round) {
    completions_.clear();
    if (backend_.reap(completions_, milliseconds(50)) != 0) return;
  }
}

bool LaneWorker::fail(const char* what, int error) {
  failure_ = std::string("I/O backend: ") + what + ": " + std::strerror(error);
  drain_silently();
  return false;
}

}  // namespace kv_offload
