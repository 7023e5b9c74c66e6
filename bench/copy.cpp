#include "kv_offload/bench/copy.hpp"

#include "kv_offload/bench/copy_contest.hpp"
#include "kv_offload/bench/copy_device.hpp"
#include "kv_offload/bench/median.hpp"
#include "kv_offload/bench/progress.hpp"
#include "kv_offload/bench/report.hpp"
#include "kv_offload/bench/text_table.hpp"
#include "kv_offload/messages/byte_size.hpp"
#include "kv_offload/tiers/device/host_copy.hpp"

#include <algorithm>
#include <chrono>
#include <ostream>
#include <utility>
#include <vector>

namespace kv_offload::bench {
namespace {

using Clock = std::chrono::steady_clock;

/// A shape in a direction: ours and what it is compared to, a value per round.
struct Point {
  std::string shape;
  bool is_load = false, digest = false;
  std::vector<double> ours, plain;

  [[nodiscard]] std::vector<double> ratios() const {
    std::vector<double> all;
    for (std::size_t r = 0; r < ours.size(); ++r) all.push_back(ours[r] / plain[r]);
    return all;
  }
  [[nodiscard]] std::string name() const {
    return shape + (is_load ? ", load" : ", store") + (digest ? ", digest" : "");
  }
};

struct Measured {
  std::vector<Point> points;
  std::uint64_t compared = 0, wrong = 0;
  std::string plain_name;
};

std::optional<std::string> wrong(const CopyBenchOptions& o) {
  const auto refuse = [](const std::string& option, std::uint64_t bytes,
                         const std::string& expected) {
    return option + ": " + format_bytes(bytes) + " is not allowed; expected " + expected;
  };
  if (o.fragment_bytes < kCopyFragmentBytesMin || o.fragment_bytes > o.chunk_bytes)
    return refuse(
        "--fragment-bytes", o.fragment_bytes,
        byte_range(kCopyFragmentBytesMin, o.chunk_bytes) + ": at most a chunk (--chunk-bytes)");
  if (o.chunk_bytes % o.fragment_bytes != 0)
    return refuse("--fragment-bytes", o.fragment_bytes,
                  "a divisor of --chunk-bytes, which is " + format_bytes(o.chunk_bytes));
  if (o.chunks > kCopyBytesMax / o.chunk_bytes)
    return "--chunks: " + std::to_string(o.chunks) + " is not allowed; expected at most " +
           std::to_string(kCopyBytesMax / o.chunk_bytes) + " with chunks of " +
           format_bytes(o.chunk_bytes) + " (--chunk-bytes): rows are at most " +
           format_bytes(kCopyBytesMax);
  if (o.chunks * (o.chunk_bytes / o.fragment_bytes) > (std::uint64_t{1} << 22))
    return refuse("--fragment-bytes", o.fragment_bytes, "at most 4194304 fragments in all chunks");
  return std::nullopt;
}

Expected<Ok> measure_shape(const CopyBenchOptions& options, CopyDevice& device,
                           const PrimaryView& rows, std::uint64_t page_bytes,
                           const std::string& shape, ProgressLine& progress, Measured& measured) {
  auto contest = CopyContest::open(options, device, rows, page_bytes);
  if (!contest) return contest.error();
  std::vector<Point> points;
  for (const bool is_load : {false, true})
    for (const bool digest : {false, true})
      if (!digest || device.is_host()) points.push_back({shape, is_load, digest, {}, {}});
  for (std::uint32_t round = 0; round < options.rounds; ++round)
    for (Point& point : points) {
      if (progress.due())
        progress.show("round " + std::to_string(round + 1) + " of " +
                      std::to_string(options.rounds) + ": " + point.name());
      const CopyWho ours = point.digest ? CopyWho::digest : CopyWho::worker;
      for (const bool second : {false, true}) {
        const bool is_ours = (round % 2 == 0) != second;  // nobody is always first
        auto figure = (*contest)->measure(is_ours ? ours : CopyWho::plain, point.is_load);
        if (!figure) return figure.error();
        (is_ours ? point.ours : point.plain).push_back(*figure);
        if (interrupted()) return {OffloadErrc::aborted, "interrupted"};
      }
    }
  measured.compared += (*contest)->compared();
  measured.wrong += (*contest)->wrong();
  std::move(points.begin(), points.end(), std::back_inserter(measured.points));
  return Ok{};
}

Expected<Measured> measure(const CopyBenchOptions& options, ProgressLine& progress) {
  const std::uint64_t bytes = options.chunk_bytes * options.chunks;
  auto device = options.backend == "cuda" ? open_cuda_device(bytes)
                                          : open_host_device(bytes, options.threads);
  if (!device) return device.error();
  RegionOptions region_options;
  region_options.num_chunks = options.chunks;
  region_options.chunk_bytes = options.chunk_bytes;
  auto region = Region::create(region_options);
  if (!region) return region.error();
  Measured measured;
  measured.plain_name = (*device)->plain_name();
  const PrimaryView rows = (*region)->view();
  const auto human = [](std::uint64_t b) { return human_bytes(static_cast<double>(b)); };
  if (auto done = measure_shape(options, **device, rows, options.chunk_bytes,
                                human(options.chunk_bytes) + " chunks", progress, measured);
      !done)
    return done.error();
  if (options.fragment_bytes != options.chunk_bytes)
    if (auto done = measure_shape(options, **device, rows, options.fragment_bytes,
                                  human(options.fragment_bytes) + " scattered", progress, measured);
        !done)
      return done.error();
  return measured;
}

void print(std::ostream& out, const CopyBenchOptions& options, const Measured& measured) {
  TextTable table;
  table.row({options.backend + ", " + std::to_string(options.threads) + " thread(s), GiB/s", "ours",
             measured.plain_name, "ratio", "least", "most"});
  for (const Point& point : measured.points) {
    const auto ratios = point.ratios();
    table.row({point.name(), fixed(median(point.ours), 2), fixed(median(point.plain), 2),
               fixed(median(ratios), 2), fixed(*std::min_element(ratios.begin(), ratios.end()), 2),
               fixed(*std::max_element(ratios.begin(), ratios.end()), 2)});
  }
  table.print(out);
  out << "\nmedians of " << options.rounds << " rounds; ratios are taken within a round; "
      << with_commas(measured.compared) << " chunks compared, " << measured.wrong << " wrong\n";
}

Json document(const CopyBenchOptions& options, const Measured& measured, double wall_seconds) {
  Json json = document_head(wall_seconds);
  json["backend"] = options.backend;
  json["threads"] = options.threads;
  json["rounds"] = options.rounds;
  json["copy_path"] = std::string(to_string(best_copy_path()));
  json["points"] = Json::array();
  for (const Point& point : measured.points) {
    const auto ratios = point.ratios();
    json["points"].push_back({{"shape", point.shape},
                              {"direction", point.is_load ? "load" : "store"},
                              {"digest", point.digest},
                              {"ours_gib_s", median(point.ours)},
                              {"plain_gib_s", median(point.plain)},
                              {"plain", measured.plain_name},
                              {"ratio", {{"median", median(ratios)}, {"values", ratios}}}});
  }
  json["promises"] = Json::array({{{"name", "every byte compared is the one that was copied"},
                                   {"held", measured.wrong == 0}}});
  return json;
}

}  // namespace

int run_copy(const CopyBenchOptions& options, std::ostream& out, std::ostream& err) {
  const auto fail = [&](const std::string& why, int status) {
    err << "kv-offload-bench: " << why << '\n';
    return status;
  };
  if (const auto why = wrong(options)) return fail(*why, kUsageError);
  if (const auto why = check_writable(options.output.json_file)) return fail(*why, kUsageError);
  const auto start = Clock::now();
  ProgressLine progress(!options.output.quiet);
  auto measured = measure(options, progress);
  progress.finish();
  if (!measured) {
    const auto code = measured.error().code;
    const bool usage = code == OffloadErrc::unsupported || code == OffloadErrc::invalid_config;
    return fail(to_string(measured.error()), usage ? kUsageError : kCheckFailed);
  }
  if (!options.output.quiet) print(out, options, *measured);
  if (const auto why = write_json(options.output.json_file,
                                  document(options, *measured, to_seconds(Clock::now() - start))))
    return fail(*why, kUsageError);
  if (measured->wrong > 0)
    return fail("copied bytes: " + std::to_string(measured->wrong) + " of " +
                    std::to_string(measured->compared) + " chunks compared are not what was copied",
                kCheckFailed);
  return kHeld;
}

}  // namespace kv_offload::bench
