#include "kv_offload/tiers/workers/worker_joining.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <poll.h>
#include <utility>

namespace kv_offload {
namespace {

constexpr Duration kAskAgain = std::chrono::milliseconds(20);

constexpr MonotonicTime kNever = MonotonicTime::max();

MonotonicTime now() { return std::chrono::steady_clock::now(); }

OffloadError told_to_stop() { return {OffloadErrc::aborted, "told to stop while joining"}; }

/// No engine there, or not yet: worth asking again. Anything else will not change by itself.
bool may_come(int connect_error) {
  return connect_error == ENOENT || connect_error == ECONNREFUSED || connect_error == EAGAIN ||
         connect_error == EINTR || connect_error == EMFILE || connect_error == ENFILE;
}

}  // namespace

bool WorkerJoining::pause(Duration time) const {
  const auto until = now() + time;
  while (!stop_) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now()).count();
    if (left <= 0) return true;
    pollfd at{wake_.fd(), POLLIN, 0};
    if (::poll(&at, 1, static_cast<int>(std::min<std::int64_t>(left, 1000))) == 1) wake_.clear();
  }
  return false;
}

JoinedRegion::Who WorkerJoining::who() const {
  const auto& place = options_.place;
  return {place.rank,
          {options_.engine_id, 0, place.world_size, place.blocks_per_chunk, place.layout,
           options_.fingerprint, options_.revision}};
}

Expected<JoinedEngine> WorkerJoining::join(MonotonicTime until) {
  if (!options_.region_file.empty()) return join_by_file(until);
  auto address = SocketAddress::parse(options_.socket);
  if (!address) return address.error();
  for (;;) {
    bool again = false;
    auto joined = join_by_socket(*address, until, again);
    if (joined || !again) return joined;
    if (now() >= until)
      return {OffloadErrc::deadline, "no engine in time: " + joined.error().detail};
    if (!pause(kAskAgain)) return told_to_stop();
  }
}

Expected<JoinedEngine> WorkerJoining::join_by_file(MonotonicTime until) {
  JoinedRegion::Named named;
  named.path = options_.region_file;
  named.patience = until - now();
  named.wait = [this](Duration time) { return pause(time); };
  auto region = JoinedRegion::find(named, who());
  if (!region) return stop_ ? told_to_stop() : region.error();
  JoinedEngine joined;
  joined.region = std::move(*region);
  if (auto engine = ProcessWatch::of_mark(joined.region->record().owner); engine)
    joined.engine = std::move(*engine);
  else if (options_.log)
    options_.log("warn", "the engine's end will not be noticed: " + engine.error().detail);
  return joined;
}

Expected<JoinedEngine> WorkerJoining::join_by_socket(const SocketAddress& address, MonotonicTime until, bool& again) {
  int error = 0;
  auto socket = WireSocket::connect(address, error);
  again = !socket && may_come(error);
  if (!socket) return socket.error();
  auto engine = ProcessWatch::of_peer(socket->fd());
  if (!engine)
    return {engine.error().code,
            "socket " + address.text + ": its engine: " + engine.error().detail};
  const auto me = who();
  socket->send(encode(HelloMessage{me.rank, me.expected, mark_of_this_process().start_ticks}));
  auto frame = next_frame(*socket, *engine, until, again);
  if (!frame) return frame.error();
  auto& descriptors = socket->descriptors();
  auto welcome = frame->type == FrameType::welcome ? parse_welcome(frame->payload) : std::nullopt;
  if (!welcome || descriptors.size() != 1)
    return {OffloadErrc::invalid_argument,
            "socket " + address.text + ": what listens there is no engine of this version"};
  JoinedRegion::Handed handed{std::move(descriptors.front()), std::move(welcome->record),
                              welcome->is_sealed};
  descriptors.clear();
  auto region = JoinedRegion::adopt(std::move(handed), me);
  if (!region) {
    socket->send(encode(GoodbyeMessage{region.error().detail}));
    static_cast<void>(socket->flush());
    return region.error();
  }
  return JoinedEngine{std::move(*socket), std::move(*engine), std::move(*region)};
}

Expected<Frame> WorkerJoining::next_frame(WireSocket& socket, const ProcessWatch& engine,
                                          MonotonicTime until, bool& again) {
  again = false;
  for (;;) {
    if (stop_) return told_to_stop();
    if (!socket.flush()) {
      // Gone: what it said before is still there to be read.
    }
    auto frame = socket.next();
    if (!frame) return frame.error();
    if (*frame) {
      if ((*frame)->type != FrameType::refusal) return std::move(**frame);
      const auto why = parse_why((*frame)->payload);
      return OffloadError{OffloadErrc::invalid_argument,
                          "refused by the engine: " + why.value_or("(no reason)")};
    }
    pollfd at[3] = {
        {socket.fd(), static_cast<short>(POLLIN | (socket.queued_bytes() > 0 ? POLLOUT : 0)), 0},
        {wake_.fd(), POLLIN, 0},
        {engine.fd(), POLLIN, 0}};
    const auto left = until == kNever ? 1000 : std::chrono::ceil<std::chrono::milliseconds>(until - now()).count();
    if (left <= 0)
      return OffloadError{OffloadErrc::deadline, "no engine in time: it took the connection and does not answer"};
    if (::poll(at, 3, static_cast<int>(std::min<std::int64_t>(left, 1000))) < 0) continue;
    if (at[1].revents != 0) wake_.clear();
    if ((at[0].revents & ~POLLOUT) == 0 && at[2].revents == 0) continue;
    if (socket.receive() == WireSocket::Read::open && at[2].revents == 0) continue;
    auto last = socket.next();  // said before it went
    if (!last) return last.error();
    if (*last && (*last)->type == FrameType::refusal)
      return OffloadError{
          OffloadErrc::invalid_argument,
          "refused by the engine: " + parse_why((*last)->payload).value_or("(no reason)")};
    if (*last) return std::move(**last);
    again = true;
    return OffloadError{OffloadErrc::io_error,
                        "the engine went away while this worker was joining"};
  }
}

Expected<ReadyMessage> WorkerJoining::verdict(JoinedEngine& joined, bool& again) {
  auto frame = next_frame(joined.socket, joined.engine, kNever, again);  // as long as the engine waits for the others
  if (!frame) return frame.error();
  if (frame->type == FrameType::end) {
    again = true;
    return {OffloadErrc::io_error, "the engine ended while this worker was joining"};
  }
  auto ready = frame->type == FrameType::ready ? parse_ready(frame->payload) : std::nullopt;
  if (!ready)
    return {OffloadErrc::invalid_argument, "a strange frame from the engine while joining"};
  return *ready;
}

}  // namespace kv_offload
