#pragma once

#include "kv_offload/tests/support/gate.hpp"
#include "kv_offload/tiers/device/device_worker.hpp"
#include "kv_offload/tiers/device/host_backend.hpp"
#include "kv_offload/tiers/device/worker_layout.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace kv_offload::test {

using namespace std::chrono_literals;

constexpr Duration kPatience = 30s;  // what a test waits for something that comes at once
constexpr std::byte kPoison{0xd5};

/// Rows of a primary tier, poisoned, with what an engine counts per slot.
class TestRows {
 public:
  TestRows(ChunkId num_chunks, std::uint64_t payload_bytes, std::uint64_t row_bytes = 0)
      : row_bytes_(row_bytes != 0 ? row_bytes : (payload_bytes + 4095) / 4096 * 4096),
        payload_bytes_(payload_bytes),
        bytes(num_chunks * row_bytes_, kPoison),
        in_use(num_chunks) {}
  PrimaryView view() {
    return {bytes.data(), row_bytes_, payload_bytes_, static_cast<ChunkId>(in_use.size()),
            in_use.data()};
  }
  [[nodiscard]] bool unused() const {
    return std::all_of(in_use.begin(), in_use.end(), [](const auto& count) { return count == 0; });
  }

 private:
  std::uint64_t row_bytes_, payload_bytes_;

 public:
  std::vector<std::byte> bytes;
  std::vector<std::atomic<std::uint32_t>> in_use;
};

/// Device buffers of one rank in host memory.
class TestCaches {
 public:
  TestCaches& tensor(std::uint64_t page_bytes, std::uint64_t num_blocks,
                     const std::string& name = "kv") {
    auto& memory = memory_.emplace_back(page_bytes * num_blocks, kPoison);
    caches.tensors.push_back(
        {name + std::to_string(caches.tensors.size()), memory.data(), page_bytes, num_blocks, {}});
    return *this;
  }
  /// Of the next group; page_bytes 0: the tensor's.
  TestCaches& ref(std::size_t group, std::uint32_t tensor, std::uint64_t page_bytes = 0,
                  std::optional<PageMapping> mapping = {}) {
    if (caches.groups.size() <= group) caches.groups.resize(group + 1);
    caches.groups[group].push_back(
        {tensor, page_bytes != 0 ? page_bytes : caches.tensors[tensor].page_bytes,
         std::move(mapping), "layer." + std::to_string(tensor)});
    return *this;
  }
  std::vector<std::byte>& memory(std::size_t tensor) { return memory_[tensor]; }
  /// Bytes of which no two neighbours, pages or tensors look alike.
  TestCaches& fill(std::uint64_t seed) {
    for (auto& memory : memory_)
      for (std::byte& b : memory) {
        seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
        b = static_cast<std::byte>(seed >> 56);
      }
    return *this;
  }

  KvCaches caches;

 private:
  std::vector<std::vector<std::byte>>
      memory_;  // buffers stay where they are when the outer vector grows
};

/// Ends of jobs, as they come.
class TestEnds {
 public:
  std::function<void(CopyResult)> sink() {
    return [this](CopyResult result) {
      const std::lock_guard lock(mutex_);
      order_.push_back(result.id);
      ends_[result.id].push_back(std::move(result));
      changed_.notify_all();
    };
  }
  CopyResult wait_for(std::uint64_t id) {
    std::unique_lock lock(mutex_);
    REQUIRE(changed_.wait_for(lock, kPatience, [&] { return ends_.contains(id); }));
    REQUIRE(ends_[id].size() == 1);
    return ends_[id].front();
  }
  std::size_t count() {
    const std::lock_guard lock(mutex_);
    return order_.size();
  }
  std::vector<std::uint64_t> order() {
    const std::lock_guard lock(mutex_);
    return order_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, std::vector<CopyResult>> ends_;
  std::vector<std::uint64_t> order_;
};

/// Lines of a log.
class TestLog {
 public:
  std::function<void(const std::string&, const std::string&)> sink() {
    return [this](const std::string& level, const std::string& line) {
      const std::lock_guard lock(mutex_);
      lines_.push_back(level + ": " + line);
    };
  }
  bool has(const std::string& level, const std::string& part) {
    const std::lock_guard lock(mutex_);
    return std::any_of(lines_.begin(), lines_.end(), [&](const std::string& line) {
      return line.starts_with(level + ": ") && line.find(part) != std::string::npos;
    });
  }
  std::string text() {
    const std::lock_guard lock(mutex_);
    std::string all;
    for (const auto& line : lines_) all += line + '\n';
    return all;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

/// One line that holds all of these parts?
inline bool says(const std::string& line, std::initializer_list<const char*> parts) {
  if (line.find('\n') != std::string::npos) return false;
  return std::all_of(parts.begin(), parts.end(),
                     [&](const char* part) { return line.find(part) != std::string::npos; });
}

inline CopyJob store_job(std::uint64_t id, BlockList blocks, std::vector<ChunkId> chunks,
                         DeviceEventHandle after = 0) {
  return {id, false, std::move(blocks), std::move(chunks), after};
}
inline CopyJob load_job(std::uint64_t id, BlockList blocks, std::vector<ChunkId> chunks,
                        DeviceEventHandle after = 0) {
  return {id, true, std::move(blocks), std::move(chunks), after};
}

/// What a layout makes of these buffers, whatever chunk_bytes that is.
inline std::uint64_t chunk_bytes_of(const KvCaches& caches, const WorkerPlace& place) {
  std::uint64_t bytes = 0;
  for (std::size_t t = 0; t < caches.tensors.size(); ++t) {
    std::uint64_t page = caches.tensors[t].page_bytes;
    if (place.layout == ChunkLayout::canonical) {
      page = 0;
      for (const auto& group : caches.groups)
        for (const auto& ref : group)
          if (ref.tensor == t && ref.mapping)
            page = std::max(page, ref.mapping->canonical_page_bytes);
    }
    bytes += page * place.blocks_per_chunk;
  }
  return place.layout == ChunkLayout::sharded ? bytes * place.world_size : bytes;
}

/// What a job should do, byte by byte, on the memory itself. Shares no code with the plan.
inline void copy_naively(const KvCaches& caches, const WorkerPlace& place, const PrimaryView& rows,
                         const CopyJob& job) {
  if (!job.is_load && place.layout == ChunkLayout::replicated && place.rank != 0) return;
  std::vector<std::uint64_t> row_pages, offsets;
  std::uint64_t slot = 0;
  for (std::size_t t = 0; t < caches.tensors.size(); ++t) {
    std::uint64_t page = caches.tensors[t].page_bytes;
    if (place.layout == ChunkLayout::canonical) {
      page = 0;
      for (const auto& group : caches.groups)
        for (const auto& ref : group)
          if (ref.tensor == t) page = std::max(page, ref.mapping->canonical_page_bytes);
    }
    row_pages.push_back(page);
    offsets.push_back(slot);
    slot += page * place.blocks_per_chunk;
  }
  const std::uint64_t slot_offset = place.layout == ChunkLayout::sharded ? slot * place.rank : 0;
  std::size_t block = 0, first_chunk = 0;
  for (std::size_t g = 0; g < caches.groups.size(); ++g) {
    std::uint64_t at = job.blocks.first_blocks[g] % place.blocks_per_chunk;
    std::size_t used_chunks = 0;
    for (std::uint32_t i = 0; i < job.blocks.group_sizes[g]; ++i, ++at, ++block) {
      const ChunkId chunk = job.chunk_ids[first_chunk + at / place.blocks_per_chunk];
      used_chunks = at / place.blocks_per_chunk + 1;
      const std::uint64_t in_chunk = at % place.blocks_per_chunk;
      for (const KvRef& ref : caches.groups[g]) {
        std::byte* const page = caches.tensors[ref.tensor].data +
                                job.blocks.block_ids[block] * caches.tensors[ref.tensor].page_bytes;
        std::byte* const row = rows.row(chunk).data() + slot_offset + offsets[ref.tensor] +
                               in_chunk * row_pages[ref.tensor];
        const auto move = [&](std::uint64_t local, std::uint64_t canonical) {
          if (job.is_load)
            page[local] = row[canonical];
          else
            row[canonical] = page[local];
        };
        if (place.layout != ChunkLayout::canonical) {
          for (std::uint64_t b = 0; b < ref.page_bytes; ++b) move(b, b);
          continue;
        }
        const std::uint64_t number = std::uint64_t{chunk} * place.blocks_per_chunk + in_chunk;
        if (!job.is_load && number % ref.mapping->num_writers != ref.mapping->writer) continue;
        for (const PageRun& run : ref.mapping->runs)
          for (std::uint64_t f = 0; f < run.count; ++f)
            for (std::uint64_t b = 0; b < run.fragment_bytes; ++b)
              move(run.local_offset + f * run.local_stride + b,
                   run.canonical_offset + f * run.canonical_stride + b);
      }
    }
    first_chunk += used_chunks;
  }
}

/// A worker on the host, with rows and ends of its own unless it is given some.
struct TestWorker {
  explicit TestWorker(TestCaches& c, WorkerPlace place, TestRows& rows,
                      std::shared_ptr<DeviceBackend> backend = nullptr) {
    options.place = place;
    options.caches = c.caches;
    options.rows = rows.view();
    options.backend = std::move(backend);
    options.done = ends.sink();
    options.log = log.sink();
  }
  void start() {
    auto started = DeviceWorker::start(options);
    if (!started) FAIL(to_string(started.error()));
    worker = std::move(*started);
  }
  /// Submits and waits for the end.
  CopyResult run(CopyJob job) {
    const std::uint64_t id = job.id;
    auto accepted = worker->submit(std::move(job));
    if (!accepted) FAIL(to_string(accepted.error()));
    return ends.wait_for(id);
  }
  std::string refusal(CopyJob job) {
    auto accepted = worker->submit(std::move(job));
    REQUIRE_FALSE(accepted);
    return to_string(accepted.error());
  }

  TestEnds ends;
  TestLog log;
  DeviceWorker::Options options;
  std::unique_ptr<DeviceWorker> worker;  // first to go
};

}  // namespace kv_offload::test
