#include "kv_offload/tiers/workers/worker_loop.hpp"

#include "kv_offload/tiers/device/worker_layout.hpp"

#include <algorithm>
#include <chrono>
#include <poll.h>
#include <utility>

namespace kv_offload {
namespace {

constexpr Duration kAskAgain = std::chrono::milliseconds(20);
/// For what is only a formality: streams without work, a goodbye into a socket.
constexpr Duration kFormality = std::chrono::seconds(5);
/// A stream ends a moment before its process does.
constexpr int kDeathGraceMs = 200;
constexpr std::size_t kQueuedBytesMax = 64U << 20;

MonotonicTime now() { return std::chrono::steady_clock::now(); }

}  // namespace

void WorkerLoop::log(const char* level, const std::string& line) const {
  if (options_.log)
    options_.log(level, "worker " + std::to_string(options_.place.rank) + ": " + line);
}

void WorkerLoop::run() {
  auto member = join();
  if (!member) {
    log("error", member.error().detail);
    return end(member.error(), true);
  }
  {
    const std::scoped_lock lock(shared_.mutex);
    shared_.device = member->device;
    shared_.phase = WorkerShared::Phase::ready;
    shared_.changed.notify_all();
  }
  log("info", "joined engine " + member->engine.region->record().engine_id);
  const std::string why = serve(*member);
  leave(std::move(*member), why);
}

void WorkerLoop::end(OffloadError why, bool clean) {
  inbox_->wakes(nullptr);
  {
    const std::scoped_lock lock(shared_.mutex);
    shared_.phase = WorkerShared::Phase::ended;
    shared_.why = std::move(why);
    shared_.clean = clean;
    shared_.device = nullptr;
  }
  shared_.changed.notify_all();
}

// --- in -----------------------------------------------------------------------------------------------

Expected<WorkerLoop::Member> WorkerLoop::join() {
  const auto until = now() + options_.join_patience;
  WorkerJoining joining(options_, wake_, shared_.stop);
  for (;;) {
    bool again = false;
    auto member = join_once(until, again);
    if (member || !again || now() >= until) return member;
    if (!joining.pause(kAskAgain)) return member.error();
  }
}

Expected<WorkerLoop::Member> WorkerLoop::join_once(MonotonicTime until, bool& again) {
  WorkerJoining joining(options_, wake_, shared_.stop);
  auto joined = joining.join(until);
  if (!joined) return joined.error();
  Member member{std::move(*joined), nullptr};
  auto& region = *member.engine.region;
  const RegionRecord& record = region.record();
  // Whoever waits for all ranks is told why this one does not come.
  const auto refuse = [&](const OffloadError& error) {
    if (member.engine.socket) {
      member.engine.socket.send(encode(GoodbyeMessage{error.detail}));
      static_cast<void>(member.engine.socket.flush());
    }
    return error;
  };
  auto layout = WorkerLayout::make(options_.caches, options_.place, record.chunk_bytes,
                                   record.namespace_collapsed);
  if (!layout) return refuse(layout.error());
  DeviceWorker::Options with;
  with.place = options_.place;
  with.caches = options_.caches;
  with.rows = region.view();
  with.backend = options_.backend;
  with.namespace_collapsed = record.namespace_collapsed;
  with.done = [inbox = inbox_](CopyResult result) { inbox->push(std::move(result)); };
  with.log = options_.log;
  // Slots first: what is registered with a device must be resident.
  if (auto slots = region.populate(layout->slot_offset, layout->slot_bytes); !slots)
    return refuse(slots.error());
  auto device = DeviceWorker::start(std::move(with));
  if (!device) return refuse(device.error());
  member.device = std::move(*device);
  std::optional<bool> portable = member.device->all_layers_portable();
  if (member.engine.socket) {
    const auto stats = member.device->stats();
    auto frame = encode(LayoutMessage{describe_layout(options_.caches, *layout), stats.region_bytes,
                                      stats.registered_bytes, portable});
    if (frame.size() > kFrameHeadBytes + kFramePayloadMax)
      return refuse({OffloadErrc::invalid_argument,
                     "its layout takes " + std::to_string(frame.size()) +
                         " bytes; expected at most " + std::to_string(kFramePayloadMax)});
    member.engine.socket.send(std::move(frame));
    {
      const std::scoped_lock lock(shared_.mutex);
      shared_.joining_on = "waits for the other ranks";
    }
    auto ready = joining.verdict(member.engine, again);
    if (!ready) return again ? ready.error() : refuse(ready.error());
    portable = ready->all_portable;
  }
  const std::scoped_lock lock(shared_.mutex);
  shared_.all_portable = portable;
  return member;
}

// --- at work --------------------------------------------------------------------------------------------

std::string WorkerLoop::serve(Member& member) {
  take_frames(member);  // the first orders may have come together with `ready`
  for (;;) {
    tell_ends(member);
    bool idle = false;
    {
      const std::scoped_lock lock(shared_.mutex);
      if (shared_.stop && leaving_.empty()) leaving_ = "it was stopped";
      if (!leaving_.empty()) shared_.phase = WorkerShared::Phase::leaving;
    }
    begin_orders(member);
    if (member.engine.socket && !member.engine.socket.flush() && !leaving_.empty())
      member.engine.socket.close();
    {
      const std::scoped_lock lock(shared_.mutex);
      idle = shared_.jobs.empty();
    }
    if (!leaving_.empty() &&
        ((idle && orders_.empty()) || (shared_.stop && now() >= shared_.stop_at)))
      return leaving_;
    wait(member, !leaving_.empty());
  }
}

void WorkerLoop::wait(Member& member, bool is_leaving) {
  std::vector<pollfd> at{{wake_.fd(), POLLIN, 0}};
  auto& socket = member.engine.socket;
  const bool watches_engine = !engine_is_gone_ && member.engine.engine;
  if (watches_engine) at.push_back({member.engine.engine.fd(), POLLIN, 0});
  const std::size_t socket_at = at.size();
  const int hears = hears_nothing_ ? 0 : POLLIN;
  if (socket)
    at.push_back(
        {socket.fd(), static_cast<short>(hears | (socket.queued_bytes() > 0 ? POLLOUT : 0)), 0});
  const int patience = is_leaving && shared_.stop ? 20 : -1;  // stop() has its own clock
  if (::poll(at.data(), at.size(), patience) < 0) return;
  if (at[0].revents != 0) wake_.clear();
  if (socket && (at[socket_at].revents & ~POLLOUT) != 0) read(member);
  if (watches_engine && at[1].revents != 0 && !engine_is_gone_) {
    engine_is_gone_ = true;
    leaving_ = "the engine (pid " + std::to_string(member.engine.engine.pid()) + ") died";
    socket.close();
  }
}

void WorkerLoop::gone(std::string why) {
  engine_is_gone_ = true;
  if (leaving_.empty()) leaving_ = std::move(why);
}

void WorkerLoop::read(Member& member) {
  auto& socket = member.engine.socket;
  const auto state = socket.receive();
  take_frames(member);
  if (!socket.descriptors().empty()) return gone("the engine sent a descriptor");
  if (state == WireSocket::Read::open) return;
  pollfd death{member.engine.engine.fd(), POLLIN, 0};
  const bool died = ::poll(&death, 1, kDeathGraceMs) == 1;
  socket.close();
  gone(died ? "the engine (pid " + std::to_string(member.engine.engine.pid()) + ") died"
            : "the engine closed the connection");
}

void WorkerLoop::take_frames(Member& member) {
  while (!hears_nothing_) {
    auto frame = member.engine.socket.next();
    if (frame && !*frame) return;
    std::string strange = frame ? "" : frame.error().detail;
    if (frame) {
      const auto& [type, payload] = **frame;
      if (type == FrameType::order) {
        if (auto order = parse_order(payload)) {
          orders_.push_back({std::move(*order), std::nullopt});
          continue;
        }
      } else if (type == FrameType::end) {
        if (auto why = parse_why(payload)) {
          gone(*why);
          continue;
        }
      }
      strange = "a strange frame of type " + std::to_string(static_cast<int>(type));
    }
    log("error", "from the engine: " + strange);
    hears_nothing_ = true;  // nobody knows what would come next; a goodbye still reaches the engine
    gone("the engine sent " + strange);
  }
}

void WorkerLoop::begin_orders(Member& member) {
  while (!orders_.empty()) {
    if (!member.engine.socket || shared_.stop) {  // nobody waits for them, or nobody wants to
      for (const auto& [order, after] : orders_)
        report(member, {order.id, order.is_load, false, 0, {}, "the worker is stopping", mark_of_rows(order.chunk_ids)});
      return orders_.clear();
    }
    const OrderMessage& order = orders_.front().order;
    const std::uint64_t rows = mark_of_rows(order.chunk_ids);
    CopyJob job{order.id, order.is_load, order.blocks, order.chunk_ids, 0};
    auto& after = orders_.front().after;
    if (!after) after = options_.before_copy ? options_.before_copy(job) : 0;
    job.after = *after;
    {
      const std::scoped_lock lock(shared_.mutex);
      if (!shared_.jobs.emplace(order.id, WorkerShared::Job{order.is_load, false, rows, false}).second) {
        report(member, {order.id, order.is_load, false, 0, {}, "a job with this id is running", rows});
        orders_.pop_front();
        continue;
      }
    }
    auto begun = member.device->submit(std::move(job));
    if (!begun) {
      {
        const std::scoped_lock lock(shared_.mutex);
        shared_.jobs.erase(order.id);
        if (begun.error().code == OffloadErrc::busy && !shared_.jobs.empty())
          return;  // when one has ended
      }
      report(member, {order.id, order.is_load, false, 0, {}, begun.error().detail, rows});
    }
    orders_.pop_front();
  }
}

void WorkerLoop::tell_ends(Member& member) {
  for (auto& result : inbox_->take()) {
    WorkerShared::Job job;
    {
      const std::scoped_lock lock(shared_.mutex);
      const auto found = shared_.jobs.find(result.id);
      if (found == shared_.jobs.end()) continue;
      job = found->second;
      shared_.jobs.erase(found);
    }
    report(member,
           {result.id, job.is_load, result.success, result.bytes, result.time, result.error, job.rows});
    if (job.is_own && !job.is_declined && options_.done) options_.done(std::move(result));
  }
}

void WorkerLoop::report(Member& member, const ReportMessage& report) {
  auto& socket = member.engine.socket;
  if (!socket) return;
  socket.send(encode(report));
  if (socket.queued_bytes() <= kQueuedBytesMax) return;
  log("error", "the engine does not read its reports; the connection ends");
  socket.close();
  engine_is_gone_ = true;
  if (leaving_.empty()) leaving_ = "the engine does not read its reports";
}

// --- out ------------------------------------------------------------------------------------------------

void WorkerLoop::leave(Member member, const std::string& why) {
  bool clean = false;
  {
    const std::scoped_lock lock(shared_.mutex);
    shared_.phase = WorkerShared::Phase::leaving;
    shared_.device = nullptr;  // a caller may hold it a moment longer
    clean = shared_.jobs.empty();
    shared_.last_stats = member.device->stats();
  }
  const bool ended = member.device->stop(clean ? kFormality : Duration::zero());
  tell_ends(member);
  {
    const std::scoped_lock lock(shared_.mutex);
    shared_.last_stats = member.device->stats();
    clean = ended && shared_.jobs.empty();
  }
  member.device.reset();
  auto& socket = member.engine.socket;
  if (clean) {
    member.engine.region.reset();
    if (socket) socket.send(encode(GoodbyeMessage{why}));
  } else {
    // Its copies may still write to rows: no goodbye. The engine waits for this process to end.
    log("error", "a copy did not end in time; " +
                     std::to_string(member.engine.region->mapped_bytes()) +
                     " bytes stay mapped until the process ends");
    member.engine.region->leak();
  }
  const auto until = now() + kFormality;
  while (socket && socket.flush() && socket.queued_bytes() > 0 && now() < until) {
    pollfd at{socket.fd(), POLLOUT, 0};
    ::poll(&at, 1, 20);
  }
  socket.close();
  log("info", "left: " + why);
  const bool tell = clean && engine_is_gone_ && options_.engine_gone;
  end({engine_is_gone_ ? OffloadErrc::expired : OffloadErrc::shutting_down, why}, clean);
  if (tell) options_.engine_gone(why);
}

}  // namespace kv_offload
