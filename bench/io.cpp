#include "kv_offload/bench/io.hpp"

#include "kv_offload/bench/io_fio.hpp"
#include "kv_offload/bench/io_floor.hpp"
#include "kv_offload/bench/io_latency.hpp"
#include "kv_offload/bench/io_memory.hpp"
#include "kv_offload/bench/io_obj_floor.hpp"
#include "kv_offload/bench/io_tier.hpp"
#include "kv_offload/bench/markdown.hpp"
#include "kv_offload/bench/median.hpp"
#include "kv_offload/bench/object_store_process.hpp"
#include "kv_offload/bench/progress.hpp"
#include "kv_offload/bench/report.hpp"
#include "kv_offload/bench/text_table.hpp"
#include "kv_offload/messages/byte_size.hpp"
#include "kv_offload/tiers/primary/region.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <ostream>
#include <utility>
#include <vector>

namespace kv_offload::bench {
namespace {

using Clock = std::chrono::steady_clock;

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
  if (options.against_floor)
    contestants.push_back(options.shape.tier == "obj" ? io_obj_floor(options.shape)
                                                      : io_floor(options.shape, dir));
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
  const auto add_rows = [&](const std::string& who) {
    for (const char* name : {"p99 beside stores", "p99 idle", "p50 beside stores", "p50 idle",
                             "loads/s", "stores, MiB/s"})
      block.series.push_back({who + name, {}, {}, {}});
  };
  const auto add_values = [&](std::size_t first, const IoLatencyPair& pair) {
    const double values[] = {pair.beside_stores.quantile_us(0.99),
                             pair.idle.quantile_us(0.99),
                             pair.beside_stores.quantile_us(0.5),
                             pair.idle.quantile_us(0.5),
                             pair.loads_per_s,
                             pair.store_mib_per_s};
    for (const double value : values) block.series[first++].values.push_back(value);
    block.series[first - 5].ratio.push_back(values[0] / values[1]);
    block.series[first - 3].ratio.push_back(values[2] / values[3]);
  };
  add_rows("");
  const std::size_t floor_row = block.series.size();
  if (options.against_floor) add_rows("floor: ");
  for (std::uint32_t round = 0; round < options.pairs; ++round) {
    if (progress.due())
      progress.show("round " + std::to_string(round + 1) + " of " + std::to_string(options.pairs));
    auto pair = measure_io_latency(options.shape, dir, options.load_share, options.seconds);
    if (!pair) return pair.error();
    add_values(0, *pair);
    if (interrupted()) return OffloadError{OffloadErrc::aborted, "interrupted"};
    if (!options.against_floor) continue;
    auto floor = io_floor_latency(options.shape, dir, pair->loads_per_s, options.seconds);
    if (!floor) return floor.error();
    add_values(floor_row, *floor);
    if (interrupted()) return OffloadError{OffloadErrc::aborted, "interrupted"};
  }
  return std::vector<Block>{block};
}

std::vector<Block> memory(const IoOptions& options) {
  Block block{"passes over memory, " + human_bytes(static_cast<double>(options.shape.chunk_bytes)) +
                  " chunks, one thread",
              "GiB/s",
              {}};
  for (std::uint32_t round = 0; round < options.pairs && !interrupted(); ++round) {
    const auto figures =
        measure_io_memory(options.shape.chunk_bytes, kIoMemorySetBytes, static_cast<int>(round));
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

TableRows rows_of(const Block& block, IoWhat what) {
  TableRows rows{{block.title, block.unit, "least", "most", "CPU us/chunk", ratio_heading(what),
                  "least", "most"}};
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

std::vector<TableRows> tables_of(const std::vector<Block>& blocks, IoWhat what) {
  std::vector<TableRows> tables;
  for (const Block& block : blocks) tables.push_back(rows_of(block, what));
  return tables;
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
  const bool moves = options.what != IoWhat::memory;
  const auto refuse = [](const std::string& option, std::uint64_t bytes, const std::string& what) {
    return option + ": " + format_bytes(bytes) + " is not allowed; expected " + what;
  };
  const std::uint64_t chunk_max = moves ? kIoBytesMax : kIoMemorySetBytes;
  if (shape.chunk_bytes < kIoChunkBytesMin || shape.chunk_bytes > chunk_max ||
      shape.chunk_bytes % Region::kRowAlignment != 0)
    return refuse("--chunk-bytes", shape.chunk_bytes,
                  "a multiple of 4 KiB in [" + format_bytes(kIoChunkBytesMin) + ", " +
                      format_bytes(chunk_max) + "]");
  if (!moves) return std::nullopt;
  const std::uint64_t set_min = shape.depth * shape.chunk_bytes;
  const std::string least = std::to_string(shape.depth) + " chunks (--depth) of " +
                            format_bytes(shape.chunk_bytes) + " (--chunk-bytes)";
  if (set_min > kIoBytesMax)
    return "--depth: " + std::to_string(shape.depth) + " is not allowed; expected at most " +
           std::to_string(kIoBytesMax / shape.chunk_bytes) + " with chunks of " +
           format_bytes(shape.chunk_bytes) + " (--chunk-bytes): a set is at most " +
           format_bytes(kIoBytesMax);
  if (shape.set_bytes < set_min || shape.set_bytes > kIoBytesMax)
    return refuse("--set-bytes", shape.set_bytes,
                  byte_range(set_min, kIoBytesMax) + ": at least " + least);
  if (shape.tier != "obj" && shape.store)
    return "--store: has no effect with --tier " + shape.tier + "; it goes with --tier obj";
  if (shape.tier == "obj" && options.what != IoWhat::transfer)
    return std::string("--tier: obj is not allowed with --what latency; expected fs or extent");
  if (shape.tier == "obj" && shape.io)
    return std::string("--io: has no effect with --tier obj, which has no such backends");
  if (shape.tier == "obj" && options.against_fio)
    return std::string("--against-fio: has no effect with --tier obj; fio has no such store");
  if (options.what != IoWhat::transfer) return std::nullopt;
  if (options.against_fio)
    if (const auto why = why_no_fio(shape, false); !why.empty())
      return interrupted() ? why : "--against-fio: " + why;
  return std::nullopt;
}

}  // namespace

int run_io(const IoOptions& given, std::ostream& out, std::ostream& err) {
  IoOptions options = given;
  const auto fail = [&](const std::string& why, int status) {
    err << "kv-offload-bench: " << why << '\n';
    return status;
  };
  if (const auto why = wrong(options))
    return fail(*why, interrupted() ? kCheckFailed : kUsageError);
  if (const auto why = check_writable(options.output.json_file)) return fail(*why, kUsageError);
  if (const auto why = check_writable(options.markdown_file, "--markdown"))
    return fail(*why, kUsageError);
  std::unique_ptr<ObjectStoreProcess> store;
  if (options.shape.tier == "obj" && options.what == IoWhat::transfer && !options.shape.store) {
    auto started = ObjectStoreProcess::start(!options.shape.checksum);  // first of all: it forks
    if (!started) return fail(started.error().detail, kUsageError);
    store = std::move(*started);
    options.shape.store = IoStore{store->endpoint(),
                                  ObjectStoreProcess::kBucket,
                                  "us-east-1",
                                  {},
                                  {"AKID", "secret", {}, {}, {}}};
  }
  const auto start = Clock::now();
  auto dir = WorkDir::open(options.dir);
  if (!dir) return fail(dir.error().detail, kUsageError);
  ProgressLine progress(!options.output.quiet);
  std::vector<Block> blocks;
  if (options.what == IoWhat::memory) {
    blocks = memory(options);
    if (interrupted()) return fail("interrupted", kCheckFailed);
  } else {
    auto measured = options.what == IoWhat::transfer ? transfers(options, *dir, progress)
                                                     : latencies(options, *dir, progress);
    progress.finish();
    if (!measured)
      return fail(to_string(measured.error()), measured.error().code == OffloadErrc::invalid_config
                                                   ? kUsageError
                                                   : kCheckFailed);
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
  if (const auto why = append_markdown(options.markdown_file, tables_of(blocks, options.what)))
    return fail(*why, kUsageError);
  if (const auto why =
          write_json(options.output.json_file, document(blocks, to_seconds(Clock::now() - start))))
    return fail(*why, kUsageError);
  return kHeld;
}

}  // namespace kv_offload::bench
