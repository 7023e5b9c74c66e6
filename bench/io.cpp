#include "kv_offload/bench/io.hpp"

#include "kv_offload/bench/io_fio.hpp"
#include "kv_offload/bench/io_floor.hpp"
#include "kv_offload/bench/io_latency.hpp"
#include "kv_offload/bench/io_memory.hpp"
#include "kv_offload/bench/io_tier.hpp"
#include "kv_offload/bench/progress.hpp"
#include "kv_offload/bench/report.hpp"
#include "kv_offload/bench/text_table.hpp"
#include "kv_offload/tiers/primary/region.hpp"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <ostream>
#include <utility>
#include <vector>

namespace kv_offload::bench {
namespace {

using Clock = std::chrono::steady_clock;
/// The working set of the passes over memory: many times the last-level cache.
constexpr std::uint64_t kMemorySetBytes = std::uint64_t{512} << 20;

/// One line of the result: a number of values per round, first of which is ours where there is a ratio.
struct Series {
  std::string name;
  std::vector<double> values;
  std::vector<double> cpu_us;  ///< empty: not known
  std::vector<double>
      ratio;  ///< of the first contestant to this one, round by round; empty for the first
};

struct Block {
  std::string title, unit;
  std::vector<Series> series;
};

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double least(const std::vector<double>& values) {
  return *std::min_element(values.begin(), values.end());
}
double most(const std::vector<double>& values) {
  return *std::max_element(values.begin(), values.end());
}

/// Ratios of the first series to each other, pair by pair.
void compare(Block& block) {
  for (std::size_t s = 1; s < block.series.size(); ++s)
    for (std::size_t r = 0; r < block.series[s].values.size(); ++r)
      block.series[s].ratio.push_back(block.series[0].values[r] / block.series[s].values[r]);
}

std::string shape_text(const IoShape& shape) {
  return shape.tier + ", " + human_bytes(static_cast<double>(shape.chunk_bytes)) +
         " chunks, depth " + std::to_string(shape.depth) + (shape.checksum ? "" : ", no digest") +
         (shape.io ? ", io: " + *shape.io : std::string());
}

Expected<std::vector<Block>> transfers(const IoOptions& options, const WorkDir& dir,
                                       ProgressLine& progress) {
  std::vector<std::unique_ptr<IoContestant>> contestants;
  contestants.push_back(io_tier(options.shape, dir));
  if (options.engine) contestants.push_back(io_engine(options.shape, dir));
  if (options.against_floor) contestants.push_back(io_floor(options.shape, dir));
  if (options.against_floor && options.shape.tier == "extent" &&
      why_no_fio(options.shape, true).empty())
    contestants.push_back(io_fio(options.shape, dir, true));
  if (options.against_fio) contestants.push_back(io_fio(options.shape, dir, false));

  std::vector<Block> blocks(2);
  for (const bool is_load : {false, true}) {
    Block& block = blocks[is_load ? 1 : 0];
    block.title = std::string(is_load ? "load, " : "store, ") + shape_text(options.shape);
    block.unit = "MiB/s";
    for (const auto& contestant : contestants)
      block.series.push_back({contestant->name(), {}, {}, {}});
  }
  for (std::uint32_t round = 0; round < options.pairs; ++round) {
    for (const bool is_load : {false, true}) {
      for (std::size_t i = 0; i < contestants.size(); ++i) {
        const std::size_t which = (i + round) % contestants.size();  // nobody is always first
        if (progress.due())
          progress.show("round " + std::to_string(round + 1) + " of " +
                        std::to_string(options.pairs) + ": " + contestants[which]->name() +
                        (is_load ? ", load" : ", store"));
        auto figure = is_load ? contestants[which]->load() : contestants[which]->store();
        if (!figure) return figure.error();
        Series& series = blocks[is_load ? 1 : 0].series[which];
        series.values.push_back(figure->mib_per_s);
        if (figure->cpu_us_per_chunk > 0) series.cpu_us.push_back(figure->cpu_us_per_chunk);
        if (interrupted()) return OffloadError{OffloadErrc::aborted, "interrupted"};
      }
    }
  }
  for (Block& block : blocks) compare(block);
  return blocks;
}

Expected<std::vector<Block>> latencies(const IoOptions& options, const WorkDir& dir,
                                       ProgressLine& progress) {
  Block block{"latency of loads, " + shape_text(options.shape), "us", {}};
  for (const char* name : {"p99 beside stores", "p99 idle", "p50 beside stores", "p50 idle",
                           "loads/s", "stores, MiB/s"})
    block.series.push_back({name, {}, {}, {}});
  for (std::uint32_t round = 0; round < options.pairs; ++round) {
    if (progress.due())
      progress.show("round " + std::to_string(round + 1) + " of " + std::to_string(options.pairs));
    auto pair = measure_io_latency(options.shape, dir, options.load_share, options.seconds);
    if (!pair) return pair.error();
    const double values[] = {pair->beside_stores.quantile_us(0.99),
                             pair->idle.quantile_us(0.99),
                             pair->beside_stores.quantile_us(0.5),
                             pair->idle.quantile_us(0.5),
                             pair->loads_per_s,
                             pair->store_mib_per_s};
    for (std::size_t s = 0; s < block.series.size(); ++s)
      block.series[s].values.push_back(values[s]);
    block.series[1].ratio.push_back(values[0] / values[1]);
    block.series[3].ratio.push_back(values[2] / values[3]);
    if (interrupted()) return OffloadError{OffloadErrc::aborted, "interrupted"};
  }
  return std::vector<Block>{block};
}

std::vector<Block> memory(const IoOptions& options) {
  Block block{"passes over memory, " + human_bytes(static_cast<double>(options.shape.chunk_bytes)) +
                  " chunks, one thread",
              "GiB/s",
              {}};
  for (std::uint32_t round = 0; round < options.pairs; ++round) {
    const auto figures =
        measure_io_memory(options.shape.chunk_bytes, kMemorySetBytes, static_cast<int>(round));
    if (block.series.empty())
      for (const auto& figure : figures) block.series.push_back({figure.name, {}, {}, {}});
    for (std::size_t i = 0; i < figures.size(); ++i)
      block.series[i].values.push_back(figures[i].gib_per_s);
    // Against the pass that must be made anyway: digest to read, copy and digest to copy.
    if (figures.size() == 4) {
      block.series[0].ratio.push_back(figures[1].gib_per_s / figures[0].gib_per_s);
      block.series[2].ratio.push_back(figures[3].gib_per_s / figures[2].gib_per_s);
    }
  }
  return {block};
}

/// What the ratio column compares, as its heading.
const char* ratio_heading(IoWhat what) {
  switch (what) {
    case IoWhat::transfer: return "tier / this";
    case IoWhat::latency: return "beside stores / this";
    case IoWhat::memory: return "with digest / this";
  }
  return "";
}

std::vector<std::vector<std::string>> rows_of(const Block& block, IoWhat what) {
  std::vector<std::vector<std::string>> rows{{block.title, block.unit, "least", "most",
                                              "CPU us/chunk", ratio_heading(what), "least",
                                              "most"}};
  for (const Series& s : block.series) {
    const int digits = median(s.values) < 100 ? 2 : 0;
    std::vector<std::string> row{s.name, fixed(median(s.values), digits),
                                 fixed(least(s.values), digits), fixed(most(s.values), digits),
                                 s.cpu_us.empty() ? "-" : fixed(median(s.cpu_us), 1)};
    for (const double v : s.ratio.empty()
                              ? std::vector<double>{}
                              : std::vector<double>{median(s.ratio), least(s.ratio), most(s.ratio)})
      row.push_back(fixed(v, 2));
    while (row.size() < rows.front().size()) row.emplace_back("-");
    rows.push_back(std::move(row));
  }
  return rows;
}

std::optional<std::string> append_markdown(const std::optional<std::string>& file,
                                           const std::vector<Block>& blocks, IoWhat what) {
  if (!file) return std::nullopt;
  std::ofstream out(*file, std::ios::app);
  for (const Block& block : blocks) {
    const auto rows = rows_of(block, what);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      for (const auto& cell : rows[r]) out << "| " << cell << ' ';
      out << "|\n";
      if (r > 0) continue;
      for (std::size_t c = 0; c < rows[0].size(); ++c) out << (c == 0 ? "|---" : "|--:");
      out << "|\n";
    }
    out << '\n';
  }
  out.flush();
  if (out) return std::nullopt;
  return *file + ": cannot be written";
}

Json document(const std::vector<Block>& blocks, double wall_seconds) {
  Json json = document_head(wall_seconds);
  json["blocks"] = Json::array();
  for (const Block& block : blocks) {
    Json entry{{"title", block.title}, {"unit", block.unit}, {"series", Json::array()}};
    for (const Series& s : block.series) {
      Json series{{"name", s.name}, {"median", median(s.values)}, {"values", s.values}};
      if (!s.cpu_us.empty()) series["cpu_us_per_chunk"] = median(s.cpu_us);
      if (!s.ratio.empty()) series["ratio"] = {{"median", median(s.ratio)}, {"values", s.ratio}};
      entry["series"].push_back(std::move(series));
    }
    json["blocks"].push_back(std::move(entry));
  }
  return json;
}

/// The first thing that cannot be measured as asked.
std::optional<std::string> wrong(const IoOptions& options) {
  const IoShape& shape = options.shape;
  if (shape.chunk_bytes % Region::kRowAlignment != 0)
    return "--chunk-bytes: " + std::to_string(shape.chunk_bytes) +
           " is not allowed; expected a multiple of 4 KiB";
  if (options.what == IoWhat::memory) return std::nullopt;
  if (shape.chunks() < shape.depth)
    return "--set-bytes: " + human_bytes(static_cast<double>(shape.set_bytes)) +
           " is not allowed; expected at least " + std::to_string(shape.depth) + " chunks";
  if (options.what != IoWhat::transfer) return std::nullopt;
  if (options.against_fio)
    if (const auto why = why_no_fio(shape, false); !why.empty()) return "--against-fio: " + why;
  return std::nullopt;
}

}  // namespace

int run_io(const IoOptions& options, std::ostream& out, std::ostream& err) {
  const auto fail = [&](const std::string& why, int status) {
    err << "kv-offload-bench: " << why << '\n';
    return status;
  };
  if (const auto why = wrong(options)) return fail(*why, kUsageError);
  for (const auto& file : {options.output.json_file, options.markdown_file})
    if (const auto why = check_writable(file)) return fail(*why, kUsageError);
  const auto start = Clock::now();
  auto dir = WorkDir::open(options.dir);
  if (!dir) return fail(dir.error().detail, kUsageError);
  ProgressLine progress(!options.output.quiet);
  std::vector<Block> blocks;
  if (options.what == IoWhat::memory) {
    blocks = memory(options);
  } else {
    auto measured = options.what == IoWhat::transfer ? transfers(options, *dir, progress)
                                                     : latencies(options, *dir, progress);
    progress.finish();
    if (!measured) return fail(to_string(measured.error()), kCheckFailed);
    blocks = std::move(*measured);
  }
  if (!options.output.quiet) {
    if (options.what == IoWhat::transfer && options.against_floor && options.shape.tier == "extent")
      if (const auto why = why_no_fio(options.shape, true); !why.empty())
        out << "without fio-fixed: " << why << "\n\n";
    for (const Block& block : blocks) {
      TextTable table;
      for (auto& row : rows_of(block, options.what)) table.row(std::move(row));
      table.print(out);
      out << '\n';
    }
    out << "medians of " << options.pairs << " rounds; ratios are taken within a round\n";
  }
  if (const auto why = append_markdown(options.markdown_file, blocks, options.what))
    return fail(*why, kUsageError);
  if (const auto why =
          write_json(options.output.json_file, document(blocks, to_seconds(Clock::now() - start))))
    return fail(*why, kUsageError);
  return kHeld;
}

}  // namespace kv_offload::bench
