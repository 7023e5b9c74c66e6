// Does a worker that is killed in the middle of its copies leave anything behind, or anything wrong?
//   crash_drill [--rounds R] [--chunks N] [--workers W] [--chunk-bytes B] [--seed S]
// A round: one scheduler, W worker processes, N chunks from device to rows, verified, and back, verified. In its middle
// one worker is killed; a new process takes its rank, and the chunks that failed go again. Rounds take turns in how:
// killed at work; killed while its copies stand still; the same after the orders' deadline; and in what they share:
// memory without a name behind an abstract socket, a file and a socket under paths.
#include "kv_offload/tests/workers/left_behind.hpp"
#include "kv_offload/tests/workers/scene.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <stdlib.h>
#include <string>
#include <thread>
#include <variant>
#include <vector>

namespace kv_offload::test {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kUnitChunks = 16;  // of one order
constexpr std::uint32_t kUnitsAtOnce = 8;
constexpr std::uint32_t kChunksMin = kUnitChunks * (2 * kUnitsAtOnce + 1);
constexpr std::uint32_t kRows = 2 * kUnitChunks * kUnitsAtOnce;

struct Settings {
  std::uint64_t rounds = 6, chunks = 1000, workers = 4, chunk_bytes = 32 << 10, seed = 0;
};

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "crash_drill: %s\n", what.c_str());
  std::exit(1);
}
void must(bool holds, const std::string& what) {
  if (!holds) fail(what);
}

/// Dead, whether or not it has been reaped: asked of the kernel, not of the hub.
bool is_dead(pid_t pid) {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
         info.si_pid == pid;
}

/// What the hub says, for the drill's thread. Looks, at the moment of each quiesced, whether it may be said.
class Events final : public WorkerOrderSink {
 public:
  using Event = std::variant<OrderOutcome, std::uint64_t>;
  void order_outcome(OrderOutcome outcome) override { push(std::move(outcome)); }
  void order_quiesced(std::uint64_t id) override {
    {
      const std::scoped_lock lock(mutex_);
      if (trapped_.contains(id) && !is_dead(victim_))
        early_ = "order " + std::to_string(id) +
                 " was said to be quiesced while a worker that lives could still copy for it";
    }
    push(id);
  }
  std::optional<Event> next() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, 60s, [&] { return !events_.empty(); })) return std::nullopt;
    Event event = std::move(events_.front());
    events_.pop_front();
    must(early_.empty(), early_);
    return event;
  }
  [[nodiscard]] bool empty() {
    const std::scoped_lock lock(mutex_);
    return events_.empty();
  }
  void trap(std::uint64_t id, pid_t victim) {
    const std::scoped_lock lock(mutex_);
    victim_ = victim;
    trapped_.insert(id);
  }

 private:
  void push(Event event) {
    const std::scoped_lock lock(mutex_);
    events_.push_back(std::move(event));
    changed_.notify_one();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Event> events_;
  std::set<std::uint64_t> trapped_;
  pid_t victim_ = -1;
  std::string early_;
};

std::uint64_t pattern(std::uint64_t round, std::uint64_t chunk, std::uint64_t rank) {
  std::uint64_t x = (round << 48) ^ (chunk << 16) ^ (rank + 1);
  x *= 0x9e3779b97f4a7c15ULL;
  return x ^ (x >> 29);
}
void paint(std::byte* at, std::uint64_t bytes, std::uint64_t value) {
  auto* words = reinterpret_cast<std::uint64_t*>(at);
  std::fill(words, words + bytes / 8, value);
}
bool painted(const std::byte* at, std::uint64_t bytes, std::uint64_t value) {
  const auto* words = reinterpret_cast<const std::uint64_t*>(at);
  std::uint64_t differs = 0;
  for (std::uint64_t i = 0; i < bytes / 8; ++i) differs |= words[i] ^ value;
  return differs == 0;
}

struct Totals {
  std::uint64_t stored = 0, loaded = 0, failed = 0, by_deadline = 0, trapped = 0;
};

class Round {
 public:
  Round(const Settings& settings, std::uint64_t number, const std::string& folder, Totals& totals)
      : settings_(settings),
        number_(number),
        totals_(totals),
        random_(settings.seed + number),
        workers_(static_cast<std::uint32_t>(settings.workers)),
        stage_({workers_, 1, settings.chunk_bytes / settings.workers,
                2 * kUnitChunks * kUnitsAtOnce, 1}),
        socket_(number % 2 == 0 ? unique_socket() : folder + "/engine.sock"),
        fleet_(stage_, socket_),
        rows_used_(kRows, 0) {
    RegionOptions options;
    options.num_chunks = kRows;
    options.chunk_bytes = settings.chunk_bytes;
    options.threads = 1;
    RegionSharing sharing;
    sharing.record.engine_id = "drill-" + std::to_string(number);
    sharing.record.world_size = workers_;
    if (number % 2 == 1) sharing.file = folder + "/rows";
    options.shared = sharing;
    auto region = Region::create(options);
    must(region.has_value(), region ? "" : region.error().detail);
    region_ = std::move(*region);
    WorkerHub::Options hub;
    hub.socket = socket_;
    hub.record = *region_->record();
    hub.region_fd = region_->fd();
    hub.sink = &events_;
    if (std::getenv("KV_OFFLOAD_WORKER_LOG") != nullptr)
      hub.log = [](const std::string& level, const std::string& line) {
        std::fprintf(stderr, "%s: %s\n", level.c_str(), line.c_str());
      };
    auto started = WorkerHub::start(std::move(hub));
    must(started.has_value(), started ? "" : started.error().detail);
    hub_ = std::move(*started);
    fleet_.spawn_all();
    join();
    for (std::uint32_t row = kRows; row-- > 0;) free_rows_.push_back(row);
    for (std::uint32_t block = 0; block < kUnitsAtOnce; ++block) free_places_.push_back(block);
  }

  void run() {
    const std::uint64_t units = (settings_.chunks + kUnitChunks - 1) / kUnitChunks;
    for (std::uint64_t unit = 0; unit < units; ++unit) waiting_.push_back(unit);
    // Early enough that the victim, told to stand still, is given something to stand still with.
    const std::uint64_t kill_at =
        std::clamp<std::uint64_t>(units * (20 + random_() % 60) / 100, 1, units - 2 * kUnitsAtOnce);
    bool killed = false;
    while (done_ < units) {
      while (!waiting_.empty() && !free_places_.empty()) begin_store(take_next());
      if (!killed && done_ >= kill_at) {
        killed = true;
        crash();
        continue;
      }
      one_event();
    }
    must(killed, "no worker was killed");
    must(orders_.empty(), "orders are left");
    must(std::all_of(rows_used_.begin(), rows_used_.end(), [](int n) { return n == 0; }),
         "rows are left");
    finish();
  }

 private:
  struct Unit {
    std::uint64_t number = 0;
    std::uint32_t place =
        0;  // its blocks on the device: [2 place] as source, [2 place + 1] as target
    std::vector<ChunkId> rows;
  };
  struct Out {
    Unit unit;
    bool is_load = false;
    bool is_trapped = false;
    bool success = false;
    bool has_outcome = false;
  };

  std::uint64_t take_next() {
    const auto unit = waiting_.front();
    waiting_.pop_front();
    return unit;
  }
  std::uint64_t chunk_of(const Unit& unit, std::uint32_t i) const {
    return unit.number * kUnitChunks + i;
  }
  std::byte* slot(ChunkId row, std::uint32_t rank) {
    return region_->view().row(row).data() + rank * stage_.slot_bytes();
  }
  void join() {
    auto joined = hub_->wait_joined(60s);
    must(joined.has_value(), joined ? "" : joined.error().detail);
  }

  void begin_store(std::uint64_t number) {
    Unit unit{number, free_places_.back(), {}};
    free_places_.pop_back();
    for (std::uint32_t i = 0; i < kUnitChunks; ++i) {
      const ChunkId row =
          free_rows_.back();  // the one that was freed last: whoever is late writes into it
      free_rows_.pop_back();
      must(rows_used_[row]++ == 0,
           "row " + std::to_string(row) + " was given out while it was in use");
      unit.rows.push_back(row);
      for (std::uint32_t rank = 0; rank < workers_; ++rank)
        paint(block(unit, i, rank, false), stage_.slot_bytes(),
              pattern(number_, chunk_of(unit, i), rank));
    }
    submit(std::move(unit), false);
  }
  std::byte* block(const Unit& unit, std::uint32_t i, std::uint32_t rank, bool target) {
    return stage_.block(rank, 0, block_id(unit, i, target));
  }
  static std::uint32_t block_id(const Unit& unit, std::uint32_t i, bool target) {
    return (2 * unit.place + (target ? 1 : 0)) * kUnitChunks + i;
  }

  void submit(Unit unit, bool is_load) {
    WorkerOrder order;
    order.id = ++last_id_;
    order.is_load = is_load;
    for (std::uint32_t i = 0; i < kUnitChunks; ++i)
      order.blocks.block_ids.push_back(block_id(unit, i, is_load));
    order.blocks.group_sizes = {kUnitChunks};
    order.blocks.first_blocks = {0};
    order.chunk_ids = unit.rows;
    order.deadline = std::chrono::steady_clock::now() + patience_;
    if (is_trapping_) {
      events_.trap(order.id, fleet_.pid(victim_));
      ++totals_.trapped;
    }
    const auto id = order.id;
    orders_.emplace(id, Out{std::move(unit), is_load, is_trapping_, false, false});
    auto accepted = hub_->submit(std::move(order));
    if (accepted) return;
    must(killing_, accepted.error().detail);
    give_back(orders_.extract(id).mapped().unit);  // refused while a rank is missing
  }

  void give_back(const Unit& unit) {
    waiting_.push_front(unit.number);
    release(unit);
  }
  void release(const Unit& unit) {
    for (const ChunkId row : unit.rows) {
      --rows_used_[row];
      free_rows_.push_back(row);
    }
    free_places_.push_back(unit.place);
  }

  void one_event() {
    auto event = events_.next();
    must(event.has_value(),
         "nothing was heard for a minute; " + std::to_string(orders_.size()) + " orders are out");
    if (auto* outcome = std::get_if<OrderOutcome>(&*event)) {
      auto& out = orders_.at(outcome->id);
      must(!out.has_outcome, "an outcome came twice");
      out.has_outcome = true;
      out.success = outcome->success;
      if (outcome->success) return;
      must(killing_, "an order failed while everybody lived: " + outcome->error);
      ++totals_.failed;
      if (outcome->errc == OffloadErrc::deadline) ++totals_.by_deadline;
      return;
    }
    auto node = orders_.extract(std::get<std::uint64_t>(*event));
    must(!node.empty() && node.mapped().has_outcome, "quiesced came before its outcome, or twice");
    on_quiesced(std::move(node.mapped()));
  }

  void on_quiesced(Out out) {
    if (!out.success) return give_back(out.unit);
    for (std::uint32_t i = 0; i < kUnitChunks; ++i)
      for (std::uint32_t rank = 0; rank < workers_; ++rank) {
        const std::byte* at =
            out.is_load ? block(out.unit, i, rank, true) : slot(out.unit.rows[i], rank);
        must(painted(at, stage_.slot_bytes(), pattern(number_, chunk_of(out.unit, i), rank)),
             std::string(out.is_load ? "device" : "row") + ": chunk " +
                 std::to_string(chunk_of(out.unit, i)) + " of rank " + std::to_string(rank) +
                 " has other bytes");
        if (!out.is_load) paint(block(out.unit, i, rank, true), stage_.slot_bytes(), 0);
      }
    if (!out.is_load) {
      totals_.stored += kUnitChunks;
      return submit(std::move(out.unit), true);
    }
    totals_.loaded += kUnitChunks;
    ++done_;
    release(out.unit);
  }

  void hear_or_pause() {
    if (!events_.empty()) return one_event();
    std::this_thread::sleep_for(100us);
  }

  void crash() {
    victim_ = static_cast<std::uint32_t>(random_() % workers_);
    killing_ = true;
    const auto how = number_ % 3;
    if (how > 0) {
      while (free_places_.size() < kUnitsAtOnce / 2) one_event();
      fleet_.board(victim_).hang = 1;
      // What was begun before may still end. Whatever is ordered from here on stands still at the victim.
      is_trapping_ = true;
      patience_ = how == 2 ? Duration(50ms) : Duration(10s);
      while (!waiting_.empty() && !free_places_.empty()) begin_store(take_next());
      while (fleet_.board(victim_).hanging == 0) hear_or_pause();
      if (how == 2)  // by deadline, and none of them is quiesced
        while (std::any_of(orders_.begin(), orders_.end(), [](const auto& o) {
          return o.second.is_trapped && !o.second.has_outcome;
        }))
          hear_or_pause();
      patience_ = 10s;
      is_trapping_ = false;
    }
    fleet_.kill(victim_);
    while (!orders_.empty()) one_event();  // each has its two ends
    must(comes_true([&] { return !hub_->stats().ranks[victim_].joined; }),
         "the hub does not notice a death");
    fleet_.spawn(victim_);
    join();
    killing_ = false;
  }

  void finish() {
    const auto stats = hub_->stats();
    must(stats.orders == stats.outcomes && stats.orders == stats.quiesced,
         "orders, outcomes and quiesced differ");
    must(stats.ranks[victim_].deaths == 1 && stats.ranks[victim_].joins == 2,
         "one death and two joins were expected");
    must(stats.strange_frames == 0, "strange frames");
    must(hub_->stop(30s), "a worker neither ended nor died");
    for (std::uint32_t rank = 0; rank < workers_; ++rank)
      must(fleet_.reap(rank) == 0, "worker " + std::to_string(rank) + " did not end well");
    must(::waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD, "a process is left");
  }

  const Settings& settings_;
  const std::uint64_t number_;
  Totals& totals_;
  std::mt19937_64 random_;
  const std::uint32_t workers_;
  Stage stage_;
  const std::string socket_;
  Fleet fleet_;
  Events events_;
  std::unique_ptr<Region> region_;
  std::unique_ptr<WorkerHub> hub_;
  std::vector<ChunkId> free_rows_;
  std::vector<std::uint32_t> free_places_;
  std::vector<int> rows_used_;  // the shadow count: orders that may touch the row
  std::deque<std::uint64_t> waiting_;
  std::map<std::uint64_t, Out> orders_;
  std::uint64_t last_id_ = 0;
  std::uint64_t done_ = 0;
  std::uint32_t victim_ = 0;
  bool killing_ = false;
  bool is_trapping_ = false;
  Duration patience_ = 10s;
};

int run(const Settings& settings) {
  std::string name = (std::filesystem::temp_directory_path() / "kv_offload_drill_XXXXXX").string();
  must(::mkdtemp(name.data()) != nullptr, "mkdtemp");
  Totals totals;
  std::thread([] {}).join();  // a sanitizer starts a thread of its own with the first one
  const auto begin = std::chrono::steady_clock::now();
  const auto before = Holdings::now(name, "kvo-test-" + std::to_string(::getpid()));
  for (std::uint64_t round = 0; round < settings.rounds; ++round) {
    std::printf("round %" PRIu64 " of %" PRIu64 ", seed %" PRIu64 "\n", round + 1, settings.rounds,
                settings.seed + round);
    std::fflush(stdout);
    std::make_unique<Round>(settings, round, name, totals)->run();
    std::string left;
    // A thread that was joined is in /proc a moment longer.
    comes_true(
        [&] {
          return (left =
                      Holdings::now(name, "kvo-test-" + std::to_string(::getpid())).beyond(before))
              .empty();
        },
        5s);
    must(left.empty(), "left behind: " + left);
  }
  ::rmdir(name.c_str());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::printf("%" PRIu64 " rounds, %" PRIu64 " workers, chunks of %" PRIu64 " bytes: %" PRIu64
              " stored, %" PRIu64 " loaded, all verified; orders failed and done again %" PRIu64
              " (by deadline %" PRIu64 "), trapped %" PRIu64 "; nothing left behind; %.1f s\n",
              settings.rounds, settings.workers, settings.chunk_bytes, totals.stored, totals.loaded,
              totals.failed, totals.by_deadline, totals.trapped, took.count());
  return 0;
}

}  // namespace
}  // namespace kv_offload::test

int main(int argc, char** argv) {
  kv_offload::test::Settings settings;
  settings.seed = std::random_device{}();
  const std::map<std::string, std::uint64_t*> names = {{"--rounds", &settings.rounds},
                                                       {"--chunks", &settings.chunks},
                                                       {"--workers", &settings.workers},
                                                       {"--chunk-bytes", &settings.chunk_bytes},
                                                       {"--seed", &settings.seed}};
  for (int i = 1; i + 1 < argc; i += 2) {
    const auto at = names.find(argv[i]);
    if (at == names.end()) break;
    *at->second = std::strtoull(argv[i + 1], nullptr, 10);
    if (i + 2 == argc - 1) break;
  }
  const bool known = argc % 2 == 1 && [&] {
    for (int i = 1; i < argc; i += 2)
      if (!names.contains(argv[i])) return false;
    return true;
  }();
  if (!known || settings.workers == 0 || settings.rounds == 0 ||
      settings.chunks < kv_offload::test::kChunksMin ||
      settings.chunk_bytes % (settings.workers * 8) != 0 || settings.chunk_bytes == 0) {
    std::fprintf(stderr,
                 "usage: %s [--rounds R] [--chunks N] [--workers W] [--chunk-bytes B] [--seed S]; "
                 "N is at least %" PRIu32 ", B divides by 8 W\n",
                 argv[0], kv_offload::test::kChunksMin);
    return 2;
  }
  return kv_offload::test::run(settings);
}
