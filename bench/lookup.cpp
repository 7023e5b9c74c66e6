#include "kv_offload/bench/lookup.hpp"

#include "kv_offload/actors/offload_engine.hpp"
#include "kv_offload/bench/lookup_facade.hpp"
#include "kv_offload/bench/lookup_floor.hpp"
#include "kv_offload/bench/lookup_index.hpp"
#include "kv_offload/bench/markdown.hpp"
#include "kv_offload/bench/median.hpp"
#include "kv_offload/bench/progress.hpp"
#include "kv_offload/bench/report.hpp"
#include "kv_offload/bench/text_table.hpp"
#include "kv_offload/messages/pending.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <ostream>
#include <utility>

namespace kv_offload::bench {
namespace {

using Clock = std::chrono::steady_clock;

/// Of one configuration, a value per round.
struct Samples {
  std::vector<double> p50, p99, keys_per_s;
};
struct Shape {
  std::uint64_t keys;
  std::uint32_t threads, batch;
  friend auto operator<=>(const Shape&, const Shape&) = default;
};

class LookupBench {
 public:
  explicit LookupBench(const LookupBenchOptions& options)
      : options_(options), progress_(!options.output.quiet) {}

  /// Nullopt, or what went wrong.
  std::optional<std::string> run() {
    const std::string eviction = options_.eviction.value_or("lru");
    for (const std::uint64_t keys : options_.index_keys) {
      show("index, " + with_commas(keys) + " keys");
      auto figure = measure_index(keys, eviction, options_.seconds / 2, options_.seed);
      if (!figure) return to_string(figure.error());
      if (figure->wrong > 0) return "index of " + with_commas(keys) + " keys: a key was not found";
      index_.emplace_back(keys, *figure);
      if (interrupted()) return "interrupted";
    }
    for (const std::uint64_t keys : options_.keys) {
      show("storing " + with_commas(keys) + " keys");
      const std::uint64_t before = allocated_bytes();
      auto engine = lookup_engine(keys, eviction);
      if (!engine) return to_string(engine.error());
      bytes_per_chunk_[keys] =
          static_cast<double>(allocated_bytes() - before) / static_cast<double>(keys);
      idle_cpu_[keys] = idle_cpu_percent(options_.seconds);
      for (std::uint32_t round = 0; round < options_.rounds; ++round)
        if (auto error = run_round(**engine, keys)) return error;
    }
    return std::nullopt;
  }

  [[nodiscard]] std::vector<TableRows> tables() const {
    TableRows index{{"index alone", "M keys/s, prompts of 512", "random", "evict, ns a victim",
                     "and replace", "bytes a key"}};
    for (const auto& [keys, f] : index_)
      index.push_back({with_commas(keys) + " keys", fixed(f.prompt_keys_per_s / 1e6, 1),
                       fixed(f.random_keys_per_s / 1e6, 1), fixed(f.evict_ns, 0),
                       fixed(f.replace_ns, 0), fixed(f.bytes_per_key, 0)});
    TableRows floor{
        {"round trip between two threads, us", "p50", "p99"},
        {"condition variables", fixed(median(condvar_.p50), 1), fixed(median(condvar_.p99), 1)},
        {"the facade's slots", fixed(median(slot_.p50), 1), fixed(median(slot_.p99), 1)}};
    TableRows facade{
        {"facade: keys, callers, batch", "p50 us", "p99 us", "p50 / floor", "M keys/s"}};
    for (const auto& [shape, s] : facade_)
      facade.push_back({with_commas(shape.keys) + ", " + std::to_string(shape.threads) + ", " +
                            std::to_string(shape.batch),
                        fixed(median(s.p50), 1), fixed(median(s.p99), 1),
                        fixed(median(s.p50) / floor_us(shape), 2),
                        fixed(median(s.keys_per_s) / 1e6, 2)});
    TableRows idle{{"idle engine", "% of a core", "bytes a key"}};
    for (const auto& [keys, percent] : idle_cpu_)
      idle.push_back(
          {with_commas(keys) + " keys", fixed(percent, 2), fixed(bytes_per_chunk_.at(keys), 0)});
    return {index, floor, facade, idle};
  }

  [[nodiscard]] Json document(double wall_seconds) const {
    Json json = document_head(wall_seconds);
    json["index"] = Json::array();
    for (const auto& [keys, f] : index_)
      json["index"].push_back({{"keys", keys},
                               {"prompt_keys_per_s", f.prompt_keys_per_s},
                               {"random_keys_per_s", f.random_keys_per_s},
                               {"evict_ns", f.evict_ns},
                               {"replace_ns", f.replace_ns},
                               {"bytes_per_key", f.bytes_per_key}});
    json["round_trip_us"] = {
        {"condvar", {{"p50", median(condvar_.p50)}, {"p99", median(condvar_.p99)}}},
        {"slot", {{"p50", median(slot_.p50)}, {"p99", median(slot_.p99)}}}};
    json["points"] = Json::array();
    for (const auto& [shape, s] : facade_)
      json["points"].push_back({{"keys", shape.keys},
                                {"batch", shape.batch},
                                {"threads", shape.threads},
                                {"keys_per_second", median(s.keys_per_s)},
                                {"p50_us", median(s.p50)},
                                {"p99_us", median(s.p99)},
                                {"floor_us", floor_us(shape)},
                                {"bytes_per_chunk", bytes_per_chunk_.at(shape.keys)}});
    json["idle_cpu_percent"] = Json::array();
    for (const auto& [keys, percent] : idle_cpu_)
      json["idle_cpu_percent"].push_back({{"keys", keys}, {"percent", percent}});
    return json;
  }

 private:
  std::optional<std::string> run_round(OffloadEngine& engine, std::uint64_t keys) {
    show("round trips");
    const auto trips =
        measure_round_trips(spin_rounds(engine.config().spin_us), options_.seconds / 4);
    condvar_.p50.push_back(trips.condvar.quantile_us(0.5));
    condvar_.p99.push_back(trips.condvar.quantile_us(0.99));
    slot_.p50.push_back(trips.slot.quantile_us(0.5));
    slot_.p99.push_back(trips.slot.quantile_us(0.99));
    for (const std::uint32_t threads : options_.threads) {
      for (const std::uint32_t batch : options_.batches) {
        if (batch > keys) continue;
        show(with_commas(keys) + " keys, " + std::to_string(threads) + " callers, batch " +
             std::to_string(batch));
        const FacadeFigure figure = measure_facade(
            engine, {keys, threads, batch, options_.hold, options_.seconds, options_.seed});
        if (!figure.failure.empty()) return "a call failed: " + figure.failure;
        if (figure.wrong > 0) return with_commas(figure.wrong) + " lookups did not find every key";
        Samples& samples = facade_[{keys, threads, batch}];
        samples.p50.push_back(figure.lookup.quantile_us(0.5));
        samples.p99.push_back(figure.lookup.quantile_us(0.99));
        samples.keys_per_s.push_back(figure.keys_per_s);
        if (interrupted()) return "interrupted";
      }
    }
    return std::nullopt;
  }

  /// A round trip, and the index's time for the batch.
  [[nodiscard]] double floor_us(const Shape& shape) const {
    double keys_per_s = 0;
    for (const auto& [keys, f] : index_)
      if (keys_per_s == 0 || keys <= shape.keys) keys_per_s = f.prompt_keys_per_s;
    return median(condvar_.p50) + (keys_per_s == 0 ? 0 : shape.batch / keys_per_s * 1e6);
  }

  void show(const std::string& what) {
    if (progress_.due()) progress_.show(what);
  }

  const LookupBenchOptions& options_;
  ProgressLine progress_;
  std::vector<std::pair<std::uint64_t, IndexFigure>> index_;
  Samples condvar_, slot_;
  std::map<Shape, Samples> facade_;
  std::map<std::uint64_t, double> idle_cpu_, bytes_per_chunk_;  // by keys
};

int usage_error(std::ostream& err, const std::string& line) {
  err << "kv-offload-bench: " << line << '\n';
  return kUsageError;
}

}  // namespace

int run_lookup(const LookupBenchOptions& options, std::ostream& out, std::ostream& err) {
  const auto start = Clock::now();
  if (const auto error = check_writable(options.output.json_file)) return usage_error(err, *error);
  if (const auto error = check_writable(options.markdown_file, "--markdown"))
    return usage_error(err, *error);
  LookupBench bench(options);
  if (const auto failure = bench.run()) {
    err << "kv-offload-bench: " << *failure << '\n';
    return kCheckFailed;
  }
  const auto tables = bench.tables();
  if (!options.output.quiet) {
    for (const TableRows& rows : tables) {
      TextTable table;
      for (const auto& row : rows) table.row(row);
      table.print(out);
      out << '\n';
    }
    out << "medians of " << options.rounds << " rounds; floor: a round trip on condition variables "
        << "and the index's time for the batch\n";
  }
  const std::chrono::duration<double> wall = Clock::now() - start;
  if (const auto error = append_markdown(options.markdown_file, tables))
    return usage_error(err, *error);
  if (const auto error = write_json(options.output.json_file, bench.document(wall.count())))
    return usage_error(err, *error);
  return kHeld;
}

}  // namespace kv_offload::bench
