#include "kv_offload/tiers/workers/hub_loop.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <utility>
#include <variant>

namespace kv_offload {
namespace {

constexpr Duration kHelloPatience = std::chrono::seconds(10);
/// The stream of a killed process ends a moment before its pidfd says so: then "died" is the better reason.
constexpr Duration kSilentGrace = std::chrono::milliseconds(100);
constexpr Duration kAcceptPause = std::chrono::milliseconds(100);
/// How late a deadline may be seen: the clock is the embedder's and may not be the one that poll() waits by.
constexpr int kTickMs = 20;
constexpr std::size_t kStrangersMax = 64;
constexpr std::size_t kEarlyPerOrder = 4;

}  // namespace

HubLoop::HubLoop(const WorkerHub::Options& options, HubShared& shared, HubListener& listener,
                 const WakeEvent& wake, bool is_sealed)
    : options_(options),
      shared_(shared),
      listener_(listener),
      wake_(wake),
      is_sealed_(is_sealed),
      ranks_(options.record.world_size),
      orders_(options.record.world_size, options.orders_max * kEarlyPerOrder) {
  stats_.ranks.resize(options.record.world_size);
}

void HubLoop::log(const char* level, const std::string& line) const {
  if (options_.log) options_.log(level, "workers: " + line);
}

std::string HubLoop::name_of(std::uint32_t rank) const {
  const auto& r = ranks_[rank];
  return "rank " + std::to_string(rank) +
         (r.process ? " (pid " + std::to_string(r.process.pid()) + ")" : "");
}

void HubLoop::run() {
  for (;;) {
    const auto now = options_.now();
    take_inbox();
    sweep(now);
    drop_gone();
    auto events = take_events();
    publish();
    tell(std::move(events));
    if (stopping_ && (everybody_is_gone() || std::chrono::steady_clock::now() >= stop_at_)) break;
    wait(now);
  }
  for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank)
    if (ranks_[rank].state == State::ready || ranks_[rank].state == State::silent)
      log("error",
          name_of(rank) + " has neither ended nor died in time: rows may still be written to");
  const bool clean = everybody_is_gone();
  orders_.fail_all(OffloadErrc::shutting_down, "the engine ends");
  auto events = take_events();
  connections_.clear();
  listener_.close();
  publish();
  tell(std::move(events));
  const std::scoped_lock lock(shared_.mutex);
  shared_.ended = true;
  shared_.ended_clean = clean;
  shared_.changed.notify_all();
}

// --- a turn -----------------------------------------------------------------------------------------

void HubLoop::take_inbox() {
  std::deque<HubShared::Order> inbox;
  bool stop = false;
  {
    const std::scoped_lock lock(shared_.mutex);
    inbox.swap(shared_.inbox);
    stop = shared_.stop;
    stop_at_ = shared_.stop_at;
  }
  for (auto& order : inbox) {
    OrderTable::NewOrder added{order.id, order.deadline, order.told_by_embedder, {}, order.is_load, order.rows};
    for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      auto& r = ranks_[rank];
      if (r.state != State::ready)
        added.missing[rank] = {name_of(rank) + " " + r.why_missing,
                               !order.told_by_embedder || r.state != State::silent};
      else if (order.frame)
        r.connection->socket.send(order.frame);
    }
    ++stats_.orders;
    orders_.add(added);
  }
  if (stop && !std::exchange(stopping_, true)) begin_stop();
  for (auto& connection : connections_)
    if (connection->socket.queued_bytes() > 0) flush(*connection);
}

void HubLoop::begin_stop() {
  // Those who wait for others learn for whom, and what was wrong with them.
  std::string why = "the engine ends";
  for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank)
    if (ranks_[rank].state == State::absent) why += "; " + name_of(rank) + " " + ranks_[rank].why_missing;
  if (!last_refusal_.empty() && !everybody_is_ready()) why += "; last refusal: " + last_refusal_;
  for (auto& connection : connections_) {
    const bool is_ready = connection->rank && ranks_[*connection->rank].state == State::ready;
    if (is_ready)
      connection->socket.send(encode(EndMessage{"the engine ends"}));
    else
      refuse(*connection, why);
  }
}

bool HubLoop::everybody_is_ready() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.state == State::ready; });
}

bool HubLoop::everybody_is_gone() const {
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [](const Rank& r) { return r.state == State::absent; });
}

void HubLoop::sweep(MonotonicTime now) {
  orders_.expire(now);
  for (auto& connection : connections_)
    if (!connection->rank && !connection->is_gone && now >= connection->hello_until) {
      log("warn", "process " + std::to_string(connection->process.pid()) +
                      " connected and said nothing; cut");
      connection->is_gone = true;
    }
  for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    auto& r = ranks_[rank];
    if (r.state != State::silent || r.said_silent || now - r.silent_since < kSilentGrace) continue;
    r.said_silent = true;
    orders_.rank_silent(rank, name_of(rank) + " " + r.why_missing);
  }
}

std::vector<OrderTable::Event> HubLoop::take_events() {
  auto events = orders_.take_events();
  for (const auto& event : events) {
    if (const auto* outcome = std::get_if<OrderOutcome>(&event)) {
      ++stats_.outcomes;
      if (!outcome->success) ++stats_.failed;
      continue;
    }
    ++stats_.quiesced;
    const std::scoped_lock lock(shared_.mutex);
    shared_.ids.erase(std::get<OrderTable::Quiesced>(event).id);
  }
  stats_.deadlines = orders_.deadlines();
  return events;
}

void HubLoop::tell(std::vector<OrderTable::Event> events) {
  if (options_.sink == nullptr) return;
  for (auto& event : events) {
    if (auto* outcome = std::get_if<OrderOutcome>(&event))
      options_.sink->order_outcome(std::move(*outcome));
    else
      options_.sink->order_quiesced(std::get<OrderTable::Quiesced>(event).id);
  }
}

void HubLoop::publish() {
  std::string missing;
  for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    const auto& r = ranks_[rank];
    stats_.ranks[rank].joined = r.state == State::ready;
    stats_.ranks[rank].pid = r.state == State::absent ? 0 : r.process.pid();
    if (r.state == State::ready) continue;
    missing += (missing.empty() ? "" : "; ") + name_of(rank) + " ";
    missing += r.state == State::joining  ? "is joining"
               : r.state == State::fitted ? "waits for the others"
                                          : r.why_missing;
  }
  std::size_t queued = 0;
  for (const auto& connection : connections_)
    queued = std::max(queued, connection->socket.queued_bytes());
  const std::scoped_lock lock(shared_.mutex);
  shared_.stats = stats_;
  shared_.queued_bytes = queued;
  shared_.misfit = misfit_;
  shared_.last_refusal = last_refusal_;
  shared_.all_portable = all_portable_;
  if (shared_.missing == missing && !misfit_) return;
  shared_.missing = std::move(missing);
  shared_.changed.notify_all();
}

void HubLoop::wait(MonotonicTime now) {
  std::vector<pollfd> at{{wake_.fd(), POLLIN, 0}};
  const bool listens = listener_.fd() >= 0 && now >= accept_after_;
  if (listens) at.push_back({listener_.fd(), POLLIN, 0});
  const std::size_t first = at.size();
  for (auto& connection : connections_) {
    const short write = connection->socket.queued_bytes() > 0 ? POLLOUT : short{0};
    at.push_back({connection->socket.fd(), static_cast<short>(POLLIN | write), 0});
    at.push_back({connection->process.fd(), POLLIN, 0});
  }
  for (auto& rank : ranks_)
    if (rank.state == State::silent) at.push_back({rank.process.fd(), POLLIN, 0});
  const bool silent_unsaid = std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& r) {
    return r.state == State::silent && !r.said_silent;
  });
  const bool greeting =
      std::any_of(connections_.begin(), connections_.end(), [](const auto& c) { return !c->rank; });
  const bool ticks =
      orders_.next_deadline() || silent_unsaid || greeting || stopping_ || now < accept_after_;
  if (::poll(at.data(), at.size(), ticks ? kTickMs : -1) < 0) return;  // a signal

  if (at[0].revents != 0) wake_.clear();
  // What was said before a death counts: sockets are read before pidfds are looked at.
  const std::size_t num_connections = connections_.size();
  for (std::size_t i = 0; i < num_connections; ++i) {
    auto& connection = *connections_[i];
    const bool died = at[first + 2 * i + 1].revents != 0;
    if (!connection.is_gone && (at[first + 2 * i].revents != 0 || died)) read(connection);
    if (!connection.is_gone && connection.socket.queued_bytes() > 0) flush(connection);
    if (died && connection.rank && ranks_[*connection.rank].connection == &connection)
      on_death(*connection.rank);
    if (died) connection.is_gone = true;
  }
  for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank)
    if (ranks_[rank].state == State::silent && ranks_[rank].process.is_dead()) on_death(rank);
  if (listens && at[1].revents != 0) accept_all();
}

// --- connections --------------------------------------------------------------------------------------

void HubLoop::accept_all() {
  for (;;) {
    UniqueFd fd = listener_.accept();
    if (!fd) {
      if (errno == EAGAIN || errno == EWOULDBLOCK) return;
      if (errno == EINTR || errno == ECONNABORTED) continue;
      log("error", std::string("accept: ") + std::strerror(errno));
      accept_after_ = options_.now() + kAcceptPause;
      return;
    }
    auto process = ProcessWatch::of_peer(fd.get());
    auto connection = std::make_unique<Connection>();
    connection->socket = WireSocket(std::move(fd));
    connection->hello_until = options_.now() + kHelloPatience;
    std::string why;
    const auto strangers = std::count_if(connections_.begin(), connections_.end(),
                                         [](const auto& c) { return !c->rank; });
    if (!process)
      why = process.error().detail;
    else if (static_cast<std::size_t>(strangers) >= kStrangersMax + ranks_.size())
      why = "too many processes are joining";
    else
      connection->process = std::move(*process);
    if (!why.empty())
      refuse(*connection, why);
    else
      connections_.push_back(std::move(connection));
  }
}

void HubLoop::read(Connection& connection) {
  const auto state = connection.socket.receive();
  while (!connection.is_gone) {
    auto frame = connection.socket.next();
    if (!frame) return strange(connection, frame.error().detail);
    if (!*frame) break;
    on_frame(connection, **frame);
  }
  if (connection.is_gone) return;
  if (!connection.socket.descriptors().empty()) return strange(connection, "it sent a descriptor");
  if (state == WireSocket::Read::ended) lost(connection, "closed its connection without a goodbye");
}

void HubLoop::flush(Connection& connection) {
  // If it is gone, reading says so too, after what it said last.
  static_cast<void>(connection.socket.flush());
}

void HubLoop::drop_gone() {
  std::erase_if(connections_, [](const auto& c) { return c->is_gone; });
}

void HubLoop::strange(Connection& connection, const std::string& what) {
  ++stats_.strange_frames;
  log("error", (connection.rank ? name_of(*connection.rank)
                                : "process " + std::to_string(connection.process.pid())) +
                   ": " + what);
  lost(connection, "was cut off for " + what);
}

void HubLoop::refuse(Connection& connection, const std::string& why, const std::string& context) {
  last_refusal_ = "process " + std::to_string(connection.process.pid()) + " was refused: " + context + why;
  log(stopping_ ? "info" : "warn", last_refusal_);
  connection.socket.send(encode(RefusalMessage{why}));
  flush(connection);
  connection.is_gone = true;
  if (connection.rank && ranks_[*connection.rank].connection == &connection)
    free_rank(*connection.rank, "was refused: " + why);
}

void HubLoop::lost(Connection& connection, const std::string& how) {
  connection.is_gone = true;
  if (!connection.rank) return;
  const auto rank = *connection.rank;
  auto& r = ranks_[rank];
  if (r.connection != &connection) return;
  if (r.state != State::ready) return free_rank(rank, how + " while it was joining");
  if (r.process.is_dead()) return on_death(rank);
  r.connection = nullptr;
  r.state = State::silent;
  r.why_missing = how;
  r.silent_since = options_.now();
  r.said_silent = false;
}

}  // namespace kv_offload
