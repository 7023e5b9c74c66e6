#include "kv_offload/bench/copy_contest.hpp"

#include "kv_offload/bench/copy_threads.hpp"
#include "kv_offload/bench/progress.hpp"
#include "kv_offload/tiers/device/copy_plan.hpp"
#include "kv_offload/tiers/device/host_copy.hpp"
#include "kv_offload/tiers/digest.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <random>
#include <utility>

namespace kv_offload::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::uint32_t kChunksPerJob = 8;  // what a request stores or loads at once
constexpr std::uint32_t kSampleEvery = 8;
constexpr std::byte kSpoilt{0xd5};
constexpr auto kPatience = std::chrono::minutes(1);

/// What the device holds at first: no two pages alike, never kSpoilt throughout.
void fill_page(std::span<std::byte> page, std::uint64_t block) {
  std::uint64_t state = block * 0x9e3779b97f4a7c15ULL + 1;
  std::size_t at = 0;
  for (; at + sizeof state <= page.size(); at += sizeof state) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    std::memcpy(page.data() + at, &state, sizeof state);
  }
  for (; at < page.size(); ++at) page[at] = static_cast<std::byte>(block + at);
}

}  // namespace

struct CopyContest::Ends {
  std::mutex mutex;
  std::condition_variable changed;
  std::uint64_t running = 0;
  std::string error;
};

Expected<std::unique_ptr<CopyContest>> CopyContest::open(const CopyBenchOptions& options,
                                                         CopyDevice& device,
                                                         const PrimaryView& rows,
                                                         std::uint64_t page_bytes) {
  std::unique_ptr<CopyContest> contest(new CopyContest(options, device, rows, page_bytes));
  if (auto prepared = contest->prepare(); !prepared) return prepared.error();
  return contest;
}

Expected<Ok> CopyContest::prepare() {
  const std::uint64_t per_chunk = pages_per_chunk(), num_blocks = per_chunk * options_.chunks;
  for (std::uint64_t b = 0; b < num_blocks; ++b) blocks_.push_back(static_cast<std::uint32_t>(b));
  if (per_chunk > 1)
    std::shuffle(blocks_.begin(), blocks_.end(), std::mt19937_64(1));  // seed: the same every time
  std::vector<std::byte> page(page_bytes_);
  for (std::uint64_t b = 0; b < num_blocks; ++b) {
    fill_page(page, b);
    if (auto written = device_.write(b * page_bytes_, page); !written) return written;
  }

  DeviceWorker::Options worker;
  worker.place.blocks_per_chunk = static_cast<std::uint32_t>(per_chunk);
  worker.caches.tensors = {{"kv", device_.buffer(), page_bytes_, num_blocks, {}}};
  worker.caches.groups = {{{0, page_bytes_, {}, "layer"}}};
  worker.rows = rows_;
  worker.backend = device_.backend();
  ends_ = std::make_shared<Ends>();
  worker.done = [ends = ends_](const CopyResult& result) {
    const std::lock_guard lock(ends->mutex);
    --ends->running;
    if (!result.success) ends->error = result.error;
    ends->changed.notify_all();
  };
  // The same fragments, for whoever is compared.
  auto layout = WorkerLayout::make(worker.caches, worker.place, rows_.payload_bytes, false);
  if (!layout) return layout.error();
  const CopyPlanner planner(worker.caches, *layout, rows_);
  for (const bool is_load : {false, true}) {
    CopyJob all{0, is_load, {blocks_, {static_cast<std::uint32_t>(num_blocks)}, {0}}, {}, 0};
    for (ChunkId c = 0; c < options_.chunks; ++c) all.chunk_ids.push_back(c);
    auto plan = planner.plan(all);
    if (!plan) return plan.error();
    // Runs that lie together by chance or by layout stay apart, so that all shapes are what they
    // are called.
    for (const CopyFragment& f : plan->fragments)
      for (std::uint64_t at = 0; at < f.bytes; at += page_bytes_)
        fragments_[is_load].push_back(
            {f.from + at, f.to + at, std::min(page_bytes_, f.bytes - at)});
  }
  auto started = DeviceWorker::start(std::move(worker));
  if (!started) return started.error();
  worker_ = std::move(*started);
  return Ok{};
}

Expected<Ok> CopyContest::pass_of_worker(bool is_load) {
  const std::uint64_t per_chunk = pages_per_chunk();
  for (std::uint32_t first = 0; first < options_.chunks; first += kChunksPerJob) {
    const std::uint32_t chunks = std::min(kChunksPerJob, options_.chunks - first);
    CopyJob job{
        next_job_++, is_load, {{}, {static_cast<std::uint32_t>(chunks * per_chunk)}, {0}}, {}, 0};
    const auto begin = blocks_.begin() + static_cast<std::ptrdiff_t>(first * per_chunk);
    job.blocks.block_ids.assign(begin, begin + static_cast<std::ptrdiff_t>(chunks * per_chunk));
    for (std::uint32_t c = 0; c < chunks; ++c) job.chunk_ids.push_back(first + c);
    {
      const std::lock_guard lock(ends_->mutex);
      ++ends_->running;
    }
    if (auto accepted = worker_->submit(std::move(job)); !accepted) {
      const std::lock_guard lock(ends_->mutex);
      --ends_->running;
      return accepted;
    }
  }
  std::unique_lock lock(ends_->mutex);
  if (!ends_->changed.wait_for(lock, kPatience, [this] { return ends_->running == 0; }))
    return {OffloadErrc::deadline, "copies did not end within a minute"};
  if (!ends_->error.empty()) return {OffloadErrc::io_error, ends_->error};
  return Ok{};
}

void CopyContest::pass_with_digest(bool is_load) {
  static const ChunkDigester digester("kv-offload-bench");
  const OffloadKey key = *OffloadKey::make(std::vector<std::byte>(32), 0);
  const std::uint64_t per_chunk = pages_per_chunk();
  in_threads(options_.threads, options_.chunks, [&](std::size_t first, std::size_t end) {
    volatile std::uint8_t kept = 0;  // so that no digest is optimised away
    DigestStream stream;
    for (std::size_t c = first; c < end; ++c) {
      stream.begin();
      for (std::uint64_t p = 0; p < per_chunk; ++p) {
        const CopyFragment& f = fragments_[is_load][c * per_chunk + p];
        CopyThrough copy({f.to, f.bytes}, {f.from, f.bytes}, options_.chunk_bytes);
        while (!copy.done()) stream.take(copy.next());
      }
      kept = static_cast<std::uint8_t>(
          kept + std::to_integer<std::uint8_t>(stream.finish(digester, key).value[0]));
    }
  });
}

Expected<Ok> CopyContest::pass(CopyWho who, bool is_load) {
  switch (who) {
    case CopyWho::worker: return pass_of_worker(is_load);
    case CopyWho::plain: return device_.copy_plainly(fragments_[is_load], is_load);
    case CopyWho::digest: pass_with_digest(is_load); break;
  }
  return Ok{};
}

Expected<Ok> CopyContest::spoil_sample(bool is_load) {
  const std::vector<std::byte> spoilt(page_bytes_, kSpoilt);
  for (std::uint32_t c = next_sample_ % kSampleEvery; c < options_.chunks; c += kSampleEvery)
    for (std::uint64_t p = 0; p < pages_per_chunk(); ++p) {
      if (!is_load) {
        std::memset(rows_.row(c).data() + p * page_bytes_, std::to_integer<int>(kSpoilt),
                    page_bytes_);
        continue;
      }
      if (auto done = device_.write(blocks_[c * pages_per_chunk() + p] * page_bytes_, spoilt);
          !done)
        return done;
    }
  return Ok{};
}

Expected<Ok> CopyContest::compare_sample(bool is_load) {
  std::vector<std::byte> expected(page_bytes_), found(page_bytes_);
  for (std::uint32_t c = next_sample_ % kSampleEvery; c < options_.chunks; c += kSampleEvery) {
    bool is_right = true;
    for (std::uint64_t p = 0; p < pages_per_chunk(); ++p) {
      const std::uint64_t block = blocks_[c * pages_per_chunk() + p];
      fill_page(expected, block);
      if (is_load) {
        if (auto done = device_.read(block * page_bytes_, found); !done) return done;
      } else {
        std::memcpy(found.data(), rows_.row(c).data() + p * page_bytes_, page_bytes_);
      }
      is_right = is_right && found == expected;
    }
    ++compared_;
    if (!is_right) ++wrong_;
  }
  ++next_sample_;
  return Ok{};
}

Expected<double> CopyContest::measure(CopyWho who, bool is_load) {
  if (auto done = spoil_sample(is_load); !done) return done.error();
  std::uint64_t bytes = 0;
  const auto start = Clock::now();
  double seconds = 0;
  do {
    if (auto done = pass(who, is_load); !done) return done.error();
    bytes += options_.chunk_bytes * options_.chunks;
    seconds = to_seconds(Clock::now() - start);
  } while (seconds < options_.seconds && !interrupted());
  if (auto done = compare_sample(is_load); !done) return done.error();
  return static_cast<double>(bytes) / seconds / static_cast<double>(1U << 30);
}

}  // namespace kv_offload::bench
