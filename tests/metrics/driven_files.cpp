#include "kv_offload/tests/metrics/driven_engine.hpp"
#include "kv_offload/tests/metrics/driven_workloads.hpp"
#include "kv_offload/tests/support/tier_directory.hpp"
#include "kv_offload/tiers/fs/fs_metrics.hpp"

#include <filesystem>

namespace kv_offload::test {
namespace {

using Definitions = std::vector<MetricDefinition>;

const std::string kFiles = "{tier=\"1:fs\"}";

std::string document(const TierDirectory& directory, const std::string& capacity) {
  return R"("secondary_tiers": [{"type": "fs", "pin_share": 0.4, "root_dir": ")" +
         directory.path() + "\"" + capacity + "}]";
}

/// Scrapes until the sample has this value; the test's own time limit ends it.
Exposition page_with(DrivenEngine& engine, const std::string& sample, double at_least) {
  while (true) {
    Exposition page = engine.scrape();
    const auto found = page.values.find(sample + kFiles);
    if (found != page.values.end() && found->second >= at_least) return page;
  }
}

/// Finds one chunk of an earlier engine, gets more than it may keep, loses one, and meets one that it
/// cannot remove.
Exposition bounded_files(Definitions& definitions) {
  const TierDirectory directory;
  {
    DrivenEngine unbounded(64, document(directory, ""));
    unbounded.store(unbounded.request("r"), keys_named('a', 1));
  }
  // 4 KiB of chunk each, and whatever the file system adds.
  DrivenEngine engine(64, document(directory, R"(, "capacity_bytes": "16 KiB")"));
  page_with((engine.start(), engine), "kv_offload_fs_adopted_chunks_total", 1);
  const auto request = engine.request("r");
  engine.store(request, keys_named('b', 12));
  page_with(engine, "kv_offload_fs_evicted_chunks_total", 8);
  // One file is gone when it is asked for; another one cannot be removed when its turn comes.
  engine.wait(engine->reset());
  const auto files = directory.files(".bin");
  if (files.size() < 2) throw std::runtime_error("too few chunk files are left");
  std::filesystem::remove(files[0]);
  std::filesystem::remove(files[1]);
  std::filesystem::create_directory(files[1]);  // EISDIR
  engine.lookup(engine.request("other"), keys_named('b', 12));
  page_with(engine, "kv_offload_fs_vanished_chunks_total", 1);
  for (unsigned char name = 'c'; name < 'f'; ++name)
    engine.store(engine.request(std::string("more-") + static_cast<char>(name)),
                 keys_named(name, 4));
  definitions = fs_metric_definitions();
  return page_with(engine, "kv_offload_fs_unlink_failures_total", 1);
}

const std::vector<Known> kBoundedFiles = {
    {"kv_offload_fs_capacity_bytes" + kFiles, 16384},
    {"kv_offload_fs_allocated_bytes" + kFiles, 4096, Known::at_least},
    {"kv_offload_fs_resident_chunks" + kFiles, 1, Known::at_least},
    {"kv_offload_fs_leaving_files" + kFiles, 0, Known::at_least},
    {"kv_offload_fs_evicted_chunks_total" + kFiles, 8, Known::at_least},
    {"kv_offload_fs_evicted_bytes_total" + kFiles, 8 * 4096, Known::at_least},
    {"kv_offload_fs_adopted_chunks_total" + kFiles, 1, Known::at_least},
    {"kv_offload_fs_vanished_chunks_total" + kFiles, 1},
    {"kv_offload_fs_unlink_failures_total" + kFiles, 1},
    {"kv_offload_fs_waited_stores_total" + kFiles, 1, Known::at_least},
    {"kv_offload_fs_walk_progress" + kFiles, 1},
};

}  // namespace

std::vector<Workload> file_workloads() { return {{"bounded files", bounded_files, kBoundedFiles}}; }

}  // namespace kv_offload::test
