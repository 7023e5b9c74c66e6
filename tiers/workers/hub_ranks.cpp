#include "kv_offload/tiers/device/worker_layout.hpp"
#include "kv_offload/tiers/workers/hub_loop.hpp"

#include <memory>
#include <mutex>
#include <utility>

// What connections say, and what becomes of ranks.
namespace kv_offload {

// --- what they say --------------------------------------------------------------------------------------

void HubLoop::on_frame(Connection& connection, const Frame& frame) {
  const auto state = connection.rank ? ranks_[*connection.rank].state : State::absent;
  switch (frame.type) {
    case FrameType::hello:
      if (connection.rank) break;
      if (auto hello = parse_hello(frame.payload)) return on_hello(connection, *hello);
      return strange(connection, "a hello that is not well formed");
    case FrameType::layout:
      if (state != State::joining) break;
      if (auto layout = parse_layout(frame.payload))
        return on_layout(connection, std::move(*layout));
      return strange(connection, "a layout that is not well formed");
    case FrameType::report:
      if (state != State::ready) break;
      if (auto report = parse_report(frame.payload)) return on_report(*connection.rank, *report);
      return strange(connection, "a report that is not well formed");
    case FrameType::goodbye:
      if (!connection.rank) break;
      if (auto why = parse_why(frame.payload)) return on_goodbye(connection, *why);
      return strange(connection, "a goodbye that is not well formed");
    default: break;
  }
  strange(connection,
          "a frame of type " + std::to_string(static_cast<int>(frame.type)) + " out of turn");
}

void HubLoop::on_hello(Connection& connection, const HelloMessage& hello) {
  RegionRecord record;
  {
    const std::scoped_lock lock(shared_.mutex);
    record = shared_.record;
  }
  if (stopping_) return refuse(connection, "the engine ends");
  const auto mark = mark_of_process(connection.process.pid());
  if (!mark || mark->start_ticks != hello.start_ticks)
    return refuse(connection,
                  "process " + std::to_string(connection.process.pid()) +
                      " is not the one that says hello, or not to be seen from the engine");
  if (auto error = check_expectation(record, hello.expected))
    return refuse(connection, error->detail,
                  "rank " + std::to_string(hello.rank) + " (found: this engine's, expected: the worker's): ");
  if (hello.rank >= ranks_.size())
    return refuse(connection, "rank: " + std::to_string(hello.rank) + "; expected 0 to " +
                                  std::to_string(ranks_.size() - 1));
  auto& rank = ranks_[hello.rank];
  if (rank.state != State::absent && rank.process.is_dead()) on_death(hello.rank);
  if (rank.state != State::absent)
    return refuse(
        connection,
        "rank " + std::to_string(hello.rank) + " is held by process " +
            std::to_string(rank.process.pid()) +
            (rank.state == State::silent ? ", which " + rank.why_missing + " but lives" : ""));
  auto again = ProcessWatch::of_peer(connection.socket.fd());
  if (!again) return refuse(connection, again.error().detail);
  rank.process = std::move(*again);
  rank.connection = &connection;
  rank.state = State::joining;
  connection.rank = hello.rank;
  connection.socket.send(
      std::make_shared<const std::vector<std::byte>>(encode(WelcomeMessage{record, is_sealed_})),
      options_.region_fd);
  flush(connection);
}

void HubLoop::on_layout(Connection& connection, LayoutMessage layout) {
  auto& rank = ranks_[*connection.rank];
  if (layout.layout.place.rank != *connection.rank)
    return strange(connection, "the layout of another rank");
  rank.layout = std::move(layout);
  rank.state = State::fitted;
  auto& stats = stats_.ranks[*connection.rank];
  stats.region_bytes = rank.layout.region_bytes;
  stats.registered_bytes = rank.layout.registered_bytes;
  judge();
}

void HubLoop::judge() {
  std::vector<RankLayout> layouts;
  bool all_new = true;
  for (const auto& rank : ranks_) {
    if (rank.state != State::fitted && rank.state != State::ready) return;
    all_new = all_new && rank.state == State::fitted;
    layouts.push_back(rank.layout.layout);
  }
  if (auto fit = check_ranks(layouts); !fit) {
    if (all_new) misfit_ = fit.error();
    for (auto& rank : ranks_)
      if (rank.state == State::fitted) refuse(*rank.connection, fit.error().detail);
    return;
  }
  misfit_.reset();
  all_portable_.reset();
  for (const auto& rank : ranks_)
    if (rank.layout.portable) all_portable_ = all_portable_.value_or(true) && *rank.layout.portable;
  std::vector<std::uint32_t> fitted;
  for (std::uint32_t i = 0; i < ranks_.size(); ++i)
    if (ranks_[i].state == State::fitted) {
      ranks_[i].state = State::ready;
      ++stats_.ranks[i].joins;
      fitted.push_back(i);
    }
  publish();  // before anybody hears it: who was told by its worker finds orders accepted
  for (const auto i : fitted) {
    auto& rank = ranks_[i];
    rank.connection->socket.send(encode(ReadyMessage{all_portable_}));
    flush(*rank.connection);
    log("info", name_of(i) + " has joined: " + std::to_string(rank.layout.registered_bytes) +
                    " of " + std::to_string(rank.layout.region_bytes) +
                    " bytes registered with its device");
  }
  log("info", "all " + std::to_string(ranks_.size()) + " ranks have joined and fit together");
  if (listener_.address().is_path()) listener_.close();
}

void HubLoop::on_report(std::uint32_t rank, const ReportMessage& report) {
  if (orders_.report(rank, report) == OrderTable::Counted::dropped) return;
  auto& stats = stats_.ranks[rank];
  (report.is_load ? stats.loaded_bytes : stats.stored_bytes) += report.bytes;
  if (!report.success) ++stats.failed_jobs;
}

void HubLoop::on_goodbye(Connection& connection, const std::string& why) {
  const auto rank = *connection.rank;
  connection.is_gone = true;
  if (ranks_[rank].connection != &connection) return;
  log(ranks_[rank].state == State::ready ? "info" : "warn", name_of(rank) + " leaves: " + why);
  if (ranks_[rank].state == State::ready)
    orders_.rank_over(rank, stopping_ ? OffloadErrc::shutting_down : OffloadErrc::io_error,
                      name_of(rank) + " has left: " + why);
  free_rank(rank, "has left: " + why);
}

void HubLoop::on_death(std::uint32_t rank) {
  auto& r = ranks_[rank];
  if (r.state == State::absent) return;
  log("error", name_of(rank) + " died");
  ++stats_.ranks[rank].deaths;
  if (r.state == State::ready || r.state == State::silent)
    orders_.rank_over(rank, OffloadErrc::io_error, name_of(rank) + " died");
  if (r.connection != nullptr) r.connection->is_gone = true;
  free_rank(rank, "died");
}

void HubLoop::free_rank(std::uint32_t rank, std::string why_missing) {
  auto& r = ranks_[rank];
  if (r.process) why_missing += " (it was pid " + std::to_string(r.process.pid()) + ")";
  if (r.connection != nullptr) r.connection->rank.reset();
  r = Rank{};
  r.why_missing = std::move(why_missing);
  if (stopping_ || listener_.fd() >= 0) return;
  if (auto opened = listener_.open(); !opened) log("error", opened.error().detail);
}

}  // namespace kv_offload
