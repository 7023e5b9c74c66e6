#include "kv_offload/bench/workers.hpp"

#include "kv_offload/bench/progress.hpp"
#include "kv_offload/bench/report.hpp"
#include "kv_offload/bench/text_table.hpp"
#include "kv_offload/bench/workers_round.hpp"
#include "kv_offload/messages/byte_size.hpp"

#include <chrono>
#include <filesystem>
#include <ostream>
#include <vector>

namespace kv_offload::bench {
namespace {

/// What a process may leave behind: descriptors of its own, and names in the memory file system.
struct Traces {
  std::size_t descriptors = 0, shared_files = 0;
  friend bool operator==(const Traces&, const Traces&) = default;
};

std::size_t entries_of(const char* directory) {
  std::error_code error;
  std::size_t n = 0;
  for (std::filesystem::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) ++n;
  return n;
}

Traces traces_now() { return {entries_of("/proc/self/fd"), entries_of("/dev/shm")}; }

double mib_per_s(const WorkersFigures::Direction& d, std::uint64_t chunk_bytes) {
  return d.seconds == 0 ? 0 : static_cast<double>(d.chunks * chunk_bytes) / d.seconds / (1024 * 1024);
}

Json to_json(const WorkersFigures::Direction& d, std::uint64_t chunk_bytes) {
  return {{"chunks", d.chunks},         {"seconds", d.seconds},   {"mib_s", mib_per_s(d, chunk_bytes)},
          {"failed_copies", d.failed},  {"refused_copies", d.refused},
          {"p50_us", d.copies.quantile_us(0.5)}, {"p99_us", d.copies.quantile_us(0.99)}};
}

void print(std::ostream& out, const WorkersOptions& options, const std::vector<WorkersFigures>& rounds) {
  TextTable table;
  table.row({"round", "chunks", "MiB/s", "copy p50", "p99", "failed", "refused"});
  for (std::size_t r = 0; r < rounds.size(); ++r)
    for (const bool is_load : {false, true}) {
      const auto& d = is_load ? rounds[r].loads : rounds[r].stores;
      table.row({std::to_string(r + 1) + (is_load ? " loads" : " stores"), with_commas(d.chunks),
                 fixed(mib_per_s(d, options.chunk_bytes), 0), human_us(d.copies.quantile_us(0.5)),
                 human_us(d.copies.quantile_us(0.99)), std::to_string(d.failed), std::to_string(d.refused)});
    }
  table.print(out);
}

int usage_error(std::ostream& err, const std::string& line) {
  err << "kv-offload-bench: " << line << '\n';
  return kUsageError;
}

}  // namespace

int run_workers(const WorkersOptions& options, std::ostream& out, std::ostream& err) {
  const auto start = std::chrono::steady_clock::now();
  if (const auto error = check_writable(options.output.json_file)) return usage_error(err, *error);
  const std::uint64_t parts = std::uint64_t{options.workers} * options.blocks_per_chunk * WorkerDevice::kTensors;
  if (options.chunk_bytes % parts != 0)
    return usage_error(err, "--chunk-bytes: " + format_bytes(options.chunk_bytes) + " is not allowed; expected a multiple of " +
                                std::to_string(parts) + ": workers x blocks per chunk x 2 tensors");
  ProgressLine progress(!options.output.quiet);
  std::vector<WorkersFigures> rounds;
  std::vector<PromiseCheck> promises;
  std::uint64_t mismatches = 0, compared = 0;
  const Traces before = traces_now();
  for (std::uint32_t r = 0; r < options.rounds; ++r) {
    if (progress.due()) progress.show("round " + std::to_string(r + 1) + " of " + std::to_string(options.rounds));
    auto figures = WorkersRound(options, r).run();
    if (!figures) {
      progress.finish();
      err << "kv-offload-bench: round " << r + 1 << " (seed " << options.seed << "): " << to_string(figures.error()) << '\n';
      return figures.error().code == OffloadErrc::invalid_config ? kUsageError : kCheckFailed;
    }
    mismatches += figures->mismatches;
    compared += figures->compared_chunks;
    for (const auto& check : figures->promises) {
      const auto same = std::find_if(promises.begin(), promises.end(), [&](const auto& p) { return p.number == check.number; });
      if (same == promises.end()) promises.push_back(check);
      else if (same->held) *same = check;
    }
    rounds.push_back(std::move(*figures));
  }
  progress.finish();
  const Traces after = traces_now();
  const std::string left = std::to_string(after.descriptors) + " descriptors and " + std::to_string(after.shared_files) +
                           " names in /dev/shm, before " + std::to_string(before.descriptors) + " and " +
                           std::to_string(before.shared_files);
  if (!options.output.quiet) {
    print(out, options, rounds);
    print_promises(out, promises);
    out << with_commas(compared) << " chunks compared, " << mismatches << " differ; left behind: "
        << (before == after ? "nothing" : left) << '\n';
  }
  promises.push_back({0, "every byte came back as it was", mismatches == 0, std::to_string(mismatches) + " chunks differ"});
  promises.push_back({0, "nothing is left behind", before == after, left});
  if (!all_held(promises) && options.output.quiet) print_promises(err, promises);
  Json json = document_head(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  json["promises"] = bench::to_json(promises);
  json["workers"] = options.workers;
  json["chunk_bytes"] = options.chunk_bytes;
  json["compared_chunks"] = compared;
  json["mismatches"] = mismatches;
  json["rounds"] = Json::array();
  for (const auto& round : rounds)
    json["rounds"].push_back({{"stores", to_json(round.stores, options.chunk_bytes)},
                              {"loads", to_json(round.loads, options.chunk_bytes)}});
  if (const auto error = write_json(options.output.json_file, json)) return usage_error(err, *error);
  return all_held(promises) ? kHeld : kCheckFailed;
}

}  // namespace kv_offload::bench
