#include "kv_offload/bench/workers_round.hpp"

#include "kv_offload/bench/progress.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <unistd.h>

namespace kv_offload::bench {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr std::byte kPoison{0xa5};

OffloadError broken(std::string what) { return {OffloadErrc::engine_failed, std::move(what)}; }

}  // namespace

WorkersRound::WorkersRound(const WorkersOptions& options, std::uint32_t round)
    : options_(options),
      round_(round),
      page_bytes_(options.chunk_bytes / options.workers / options.blocks_per_chunk / WorkerDevice::kTensors),
      source_chunks_(std::min<std::uint64_t>(options.chunks, 4ULL * options.batch + 1)),  // no multiple of a batch
      random_(options.seed * 0x9e3779b97f4a7c15ULL + round),
      socket_("@kv-offload-bench-" + std::to_string(::getpid()) + "-" + std::to_string(round)) {
  const std::uint64_t copies = (options.chunks + options.batch - 1) / options.batch;
  kill_at_ = random_.below(2 * copies);
}

std::optional<OffloadError> WorkersRound::spawn(std::uint32_t rank) {
  BenchWorkerOptions worker;
  worker.socket = socket_;
  worker.rank = rank;
  worker.world_size = options_.workers;
  worker.blocks_per_chunk = options_.blocks_per_chunk;
  worker.page_bytes = page_bytes_;
  worker.num_blocks = (source_chunks_ + options_.window * options_.batch) * options_.blocks_per_chunk;
  worker.device_fd = devices_[rank]->fd();
  auto process = SpawnedWorker::start(worker);
  if (!process) return process.error();
  workers_[rank] = std::move(*process);
  return std::nullopt;
}

std::optional<OffloadError> WorkersRound::start() {
  workers_.resize(options_.workers);
  for (std::uint32_t rank = 0; rank < options_.workers; ++rank) {
    auto device = WorkerDevice::create(
        page_bytes_, (source_chunks_ + options_.window * options_.batch) * options_.blocks_per_chunk);
    if (!device) return device.error();
    (*device)->fill(source_chunks_ * options_.blocks_per_chunk, options_.seed * 1000 + rank);
    devices_.push_back(std::move(*device));
    if (auto error = spawn(rank)) return error;
  }
  EngineConfig config;
  config.chunk_bytes = options_.chunk_bytes;
  config.cpu_bytes_to_use = config.row_bytes() * options_.chunks;
  config.identity.blocks_per_file = options_.blocks_per_chunk;
  config.offload_prompt_only = false;
  config.log_level = "warn";
  if (options_.output.quiet || options_.kill) config.log = [](const std::string&, const std::string&) {};
  config.workers = WorkersConfig{options_.workers, socket_, {}, 60s};
  auto engine = OffloadEngine::start(std::move(config));
  if (!engine) return engine.error();
  engine_ = std::move(*engine);
  auto request = engine_->new_request({.req_id = "bench"}).get();
  if (!request) return request.error();
  request_ = *request;
  return std::nullopt;
}

KeyList WorkersRound::keys_of(std::uint64_t first, std::uint64_t count) const {
  KeyList keys;
  for (std::uint64_t i = first; i < first + count; ++i) {
    const std::uint64_t name[2] = {i, options_.seed};
    keys.push_back(*OffloadKey::make(std::as_bytes(std::span(name)), 0));
  }
  return keys;
}

BlockList WorkersRound::blocks_at(std::uint64_t first_block, std::uint64_t chunks) const {
  BlockList list;
  for (std::uint64_t i = 0; i < chunks * options_.blocks_per_chunk; ++i)
    list.block_ids.push_back(static_cast<std::uint32_t>(first_block + i));
  list.group_sizes = {static_cast<std::uint32_t>(list.block_ids.size())};
  list.first_blocks = {0};
  return list;
}

std::optional<OffloadError> WorkersRound::begin(Pass pass, std::uint64_t first) {
  Copy copy;
  copy.first = first;
  copy.count = std::min<std::uint64_t>(options_.batch, options_.chunks - first);
  copy.since = Clock::now();
  const auto keys = keys_of(first, copy.count);
  if (pass == Pass::store) {
    BlockList blocks = blocks_at(0, 0);
    for (std::uint64_t i = 0; i < copy.count; ++i) {
      const BlockList one = blocks_at(source_of(first + i), 1);
      blocks.block_ids.insert(blocks.block_ids.end(), one.block_ids.begin(), one.block_ids.end());
    }
    blocks.group_sizes = {static_cast<std::uint32_t>(blocks.block_ids.size())};
    auto plan = engine_->prepare_store(request_, keys).get();
    if (!plan) return plan.error();
    if (plan->chunk_ids.size() != copy.count) return broken("a chunk that was never stored was there already");
    copy.lease = plan->lease;
    copy.store = engine_->store_blocks(plan->lease, std::move(blocks));
  } else {
    // A place on the devices that no copy of the window has.
    std::vector<bool> taken(options_.window);
    for (const Copy& other : window_) taken[other.target] = true;
    copy.target = static_cast<std::uint64_t>(std::find(taken.begin(), taken.end(), false) - taken.begin());
    BlockList blocks = blocks_at((source_chunks_ + copy.target * options_.batch) * options_.blocks_per_chunk, copy.count);
    if (pass == Pass::compare)
      for (const auto& device : devices_)
        for (std::uint32_t t = 0; t < WorkerDevice::kTensors; ++t)
          for (const std::uint32_t block : blocks.block_ids) std::ranges::fill(device->page(t, block), kPoison);
    auto plan = engine_->prepare_load(request_, keys).get();
    if (!plan) return plan.error();
    if (plan->chunk_ids.size() != copy.count) return broken("a stored chunk was not found again");
    copy.lease = plan->lease;
    copy.load = engine_->load_blocks(plan->lease, std::move(blocks));
  }
  window_.push_back(std::move(copy));
  return std::nullopt;
}

/// The oldest copy of the window. One that fails is done again, if somebody was killed; else nothing may fail.
std::optional<OffloadError> WorkersRound::settle(Pass pass, WorkersFigures& figures) {
  Copy copy = std::move(window_.front());
  window_.pop_front();
  auto& direction = pass == Pass::store ? figures.stores : figures.loads;
  std::optional<OffloadError> error;
  if (pass == Pass::store) {
    const auto done = std::move(*copy.store).get();
    if (!done) error = done.error();
    else if (done->published != copy.count) return broken("a store was published in part");
  } else if (const auto done = std::move(*copy.load).get(); !done) {
    error = done.error();
  }
  if (!error) {
    if (pass == Pass::compare) return compare(copy, figures), std::nullopt;
    direction.copies.record(Clock::now() - copy.since);
    direction.chunks += copy.count;
    return std::nullopt;
  }
  if (!dead_) return error;
  again_.push_back(copy.first);
  if (error->code == OffloadErrc::io_error || error->code == OffloadErrc::deadline) {
    ++direction.failed;  // its lease ends by itself
    return std::nullopt;
  }
  ++direction.refused;
  if (pass == Pass::store) {
    if (const auto ended = engine_->complete_store(copy.lease, {.success = false}).get(); !ended) return ended.error();
  } else if (const auto ended = engine_->complete_load(copy.lease).get(); !ended) {
    return ended.error();
  }
  return std::nullopt;
}

/// What the devices got against what they had.
void WorkersRound::compare(const Copy& copy, WorkersFigures& figures) {
  const std::uint64_t target = (source_chunks_ + copy.target * options_.batch) * options_.blocks_per_chunk;
  for (std::uint64_t i = 0; i < copy.count; ++i) {
    bool same = true;
    for (const auto& device : devices_)
      for (std::uint32_t t = 0; t < WorkerDevice::kTensors; ++t)
        for (std::uint32_t j = 0; j < options_.blocks_per_chunk; ++j) {
          const auto want = device->page(t, source_of(copy.first + i) + j);
          const auto got = device->page(t, target + i * options_.blocks_per_chunk + j);
          same = same && std::memcmp(want.data(), got.data(), want.size()) == 0;
        }
    ++figures.compared_chunks;
    if (!same) ++figures.mismatches;
  }
}

void WorkersRound::kill_when_due() {
  if (!options_.kill || begun_++ != kill_at_) return;
  dead_ = static_cast<std::uint32_t>(random_.below(options_.workers));
  workers_[*dead_]->kill();
}

/// Waits until the engine has proof of the death, and of a new worker in the rank.
std::optional<OffloadError> WorkersRound::replace_dead_worker() {
  const auto rank_becomes = [&](bool joined, std::uint64_t joins) -> std::optional<OffloadError> {
    for (const auto deadline = Clock::now() + 60s; Clock::now() < deadline; std::this_thread::sleep_for(1ms)) {
      const auto stats = engine_->stats().get();
      if (!stats) return stats.error();
      const auto& rank = stats->scheduler.workers.ranks.at(*dead_);
      if (rank.joined == joined && rank.joins == joins) return std::nullopt;
    }
    return broken("rank " + std::to_string(*dead_) + " is not " + (joined ? "joined again" : "known to be dead"));
  };
  if (const int status = workers_[*dead_]->wait(); status != -9)
    return broken("the killed worker ended with " + std::to_string(status));
  if (auto error = rank_becomes(false, 1)) return error;
  if (auto error = spawn(*dead_)) return error;
  if (auto error = rank_becomes(true, 2)) return error;
  dead_.reset();
  return std::nullopt;
}

std::optional<OffloadError> WorkersRound::run_pass(Pass pass, WorkersFigures& figures) {
  std::deque<std::uint64_t> todo;
  for (std::uint64_t first = 0; first < options_.chunks; first += options_.batch) todo.push_back(first);
  if (pass != Pass::store)  // in another order than they were stored in
    for (std::size_t i = todo.size(); i > 1; --i) std::swap(todo[i - 1], todo[random_.below(i)]);
  const auto start = Clock::now();
  while (!todo.empty() || !window_.empty()) {
    if (interrupted()) return broken("interrupted");
    if (!todo.empty() && window_.size() < options_.window) {
      kill_when_due();
      if (auto error = begin(pass, todo.front())) return error;
      todo.pop_front();
      continue;
    }
    if (auto error = settle(pass, figures)) return error;
    if (!again_.empty() && window_.empty()) {
      if (auto error = replace_dead_worker()) return error;
      todo.insert(todo.end(), again_.begin(), again_.end());
      again_.clear();
    }
  }
  if (pass == Pass::compare) return std::nullopt;
  auto& direction = pass == Pass::store ? figures.stores : figures.loads;
  direction.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return std::nullopt;
}

/// Everything ends in order, and the engine's books are right.
std::optional<OffloadError> WorkersRound::finish(WorkersFigures& figures) {
  if (dead_)
    if (auto error = replace_dead_worker()) return error;
  if (auto done = engine_->request_finished(request_).get(); !done) return done.error();
  const auto stats = engine_->stats().get();
  if (!stats) return stats.error();
  figures.promises = check_promises(*stats, true);
  if (!engine_->shutdown()) return broken("the engine did not end in order");
  engine_.reset();
  for (std::uint32_t rank = 0; rank < options_.workers; ++rank)
    if (const int status = workers_[rank]->wait(); status != kHeld)
      return broken("worker " + std::to_string(rank) + " ended with " + std::to_string(status));
  return std::nullopt;
}

Expected<WorkersFigures> WorkersRound::run() {
  WorkersFigures figures;
  if (auto error = start()) return *error;
  for (const Pass pass : {Pass::store, Pass::compare, Pass::load})
    if (auto error = run_pass(pass, figures)) return *error;
  if (auto error = finish(figures)) return *error;
  return figures;
}

}  // namespace kv_offload::bench
