#include "kv_offload/bench/command_line.hpp"

#include "kv_offload/actors/engine_config_fields.hpp"
#include "kv_offload/bench/check_config.hpp"
#include "kv_offload/bench/command_line_words.hpp"
#include "kv_offload/bench/copy.hpp"
#include "kv_offload/bench/inspect.hpp"
#include "kv_offload/bench/io.hpp"
#include "kv_offload/bench/lookup.hpp"
#include "kv_offload/bench/replay.hpp"
#include "kv_offload/bench/report.hpp"
#include "kv_offload/bench/serve_objects.hpp"
#include "kv_offload/bench/simulate.hpp"
#include "kv_offload/bench/stress.hpp"
#include "kv_offload/bench/stress_faults.hpp"
#include "kv_offload/bench/stress_threads.hpp"
#include "kv_offload/bench/synthetic.hpp"
#include "kv_offload/bench/workers.hpp"
#include "kv_offload/tiers/device/host_options.hpp"
#include "kv_offload/tiers/io_mode.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <ostream>

namespace kv_offload::bench {
namespace {

constexpr std::uint64_t kChunksMax = std::uint64_t{1} << 31;  // slots are numbered in 32 bits

/// Runs once the whole line was parsed; every command sets one.
using Command = std::function<int(std::ostream& out, std::ostream& err)>;

void add_engine_options(CLI::App& app, EngineOptions& engine) {
  add_text(app, "--config", engine.config_file, "engine configuration, a JSON document");
  app.add_option("--tier", engine.tiers, "add a secondary tier of this type; may be repeated");
  add_text(app, "--dir", engine.dir, "keep files here (default: a temporary directory)");
  add_number<std::uint64_t>(app, "--primary-chunks", engine.primary_chunks, 1, kChunksMax,
                            "size of the primary tier");
  add_bytes(app, "--chunk-bytes", engine.chunk_bytes, "size of a chunk, such as 16KiB",
            config_fields::kChunkBytesMin, config_fields::kChunkBytesMax);
  add_text(app, "--eviction", engine.eviction, "eviction policy: lru, arc, s3fifo");
}

void add_output_options(CLI::App& app, OutputOptions& output) {
  add_text(app, "--json", output.json_file, "write the results here as JSON");
  app.add_flag("--quiet", output.quiet, "neither table nor progress line");
}

void add_replay(CLI::App& app, ReplayOptions& options, Command& command) {
  auto* replay = app.add_subcommand("replay", "drive a request trace through the engine");
  auto* source = replay->add_option_group("source", "what to replay");
  add_text(*source, "--trace", options.trace_file, "JSON lines with hash_ids");
  std::vector<std::pair<std::string, std::optional<std::string>>> names;
  for (const auto& name : synthetic_names()) names.emplace_back(name, name);
  add_choice(*source, "--synthetic", options.synthetic, names, "a trace made on the spot");
  source->require_option(1);
  add_engine_options(*replay, options.engine);
  add_text(*replay, "--admission", options.engine.admission, "admission policy by name, such as adaptive");
  add_output_options(*replay, options.output);
  add_number<std::size_t>(*replay, "--requests", options.requests_max, 1, kChunksMax,
                          "only the first N requests");
  add_number<std::uint32_t>(
      *replay, "--engines", options.engines, 1, 16,
      "deal the requests to N engines that share their secondary tiers (default 1)");
  add_number<std::uint32_t>(
      *replay, "--callers", options.callers, 1, 1024,
      "so many threads, each with the next request when it is free; without secondary tiers "
      "(default 1)");
  replay->get_option("--callers")->excludes("--engines");
  add_choice<bool>(*replay, "--order", options.mode.head_most_recent,
                   {{"front", false}, {"back", true}},
                   "from which end the keys of a request are touched (default back)");
  add_choice<Verify>(*replay, "--verify", options.mode.verify,
                     {{"all", Verify::all}, {"sample", Verify::sample}, {"none", Verify::none}},
                     "how much of each chunk read is compared (default all)");
  add_choice<bool>(*replay, "--speed", options.mode.timed, {{"max", false}, {"timed", true}},
                   "as fast as possible, or at the trace's arrival times (default max)");
  replay->get_option("--callers")->excludes("--speed");
  replay->add_flag_callback(
      "--control-only", [&options] { options.mode.move_bytes = false; },
      "neither fill nor compare chunks");
  replay->add_flag("--explain", options.explain,
                   "say at the end what admission decided, who refused and with which numbers");
  add_number<int>(*replay, "--metrics-port", options.engine.metrics_port, 0, 65535,
                  "serve /metrics, /admission and /healthz on this loopback port; 0 picks one");
  add_number<std::uint64_t>(*replay, "--metrics-hold-seconds", options.metrics_hold_seconds, 0,
                            86400, "keep serving metrics this long afterwards");
  replay->callback([&options, &command] {
    command = [&options](std::ostream& out, std::ostream& err) {
      return run_replay(options, out, err);
    };
  });
}

void add_stress(CLI::App& app, StressOptions& options, Command& command) {
  auto* stress = app.add_subcommand("stress", "many callers, random operations, faults on demand");
  add_number<std::uint32_t>(*stress, "--threads", options.threads, 1, StressThreads::kMax,
                            "serving threads");
  add_number<std::uint32_t>(*stress, "--threads-per-domain", options.threads_per_domain, 1,
                            StressThreads::kMax,
                            "instead, so many in each NUMA domain of the engine, kept on its CPUs");
  stress->get_option("--threads-per-domain")->excludes("--threads");
  add_number<double>(*stress, "--seconds", options.seconds, 0.1, 86400, "how long to load it");
  add_seed(*stress, options.seed, "of everything random");
  add_number<double>(*stress, "--rate", options.requests_per_s, 0.001, 1e6,
                     "requests arrive so often in a second, all threads together, at times that "
                     "are fixed in advance (default: when a thread is free)");
  add_choice<ArrivalSpacing>(
      *stress, "--arrivals", options.spacing,
      {{"poisson", ArrivalSpacing::poisson}, {"even", ArrivalSpacing::even}},
      "at random moments, or at equal distances; with --rate (default poisson)");
  stress->add_option("--fault", options.faults, std::string(kFaultForms) + "; may be repeated");
  add_number<int>(*stress, "--break", options.break_promise, 1, 8,
                  "break this promise on purpose (test builds)");
  add_engine_options(*stress, options.engine);
  add_text(*stress, "--admission", options.engine.admission, "admission policy by name, such as adaptive");
  add_output_options(*stress, options.output);
  stress->callback([&options, &command, stress] {
    if (stress->count("--arrivals") > 0 && !options.requests_per_s)
      throw CLI::ValidationError("--arrivals", "has no effect without --rate");
    command = [&options](std::ostream& out, std::ostream& err) {
      return run_stress(options, out, err);
    };
  });
}

void add_simulate(CLI::App& app, SimulateOptions& options, Command& command) {
  auto* simulate = app.add_subcommand("simulate", "compare policies in virtual time");
  add_text(*simulate, "--trace", options.trace_file, "JSON lines with hash_ids");
  std::vector<std::pair<std::string, std::optional<std::string>>> names;
  for (const auto& name : synthetic_names()) names.emplace_back(name, name);
  add_choice(*simulate, "--synthetic", options.synthetic, names, "a trace made on the spot");
  add_text(*simulate, "--scenario", options.scenario_file, "models and policies, a JSON document");
  add_text(*simulate, "--profile", options.profile_file,
           "recorded transfers of the tiers, a JSON list of [bytes, seconds]");
  simulate->add_option("--policies", options.policies,
                       "off, registered policies or the scenario's, separated by commas");
  add_seed(*simulate, options.seed, "of everything random");
  add_number<std::uint32_t>(*simulate, "--seeds", options.seeds, 1, 10'000,
                            "run so many seeds (default: the scenario's, or 1)");
  add_number<double>(*simulate, "--grid", options.grid_percent, 0, 99,
                     "vary each grid parameter of the scenario by so many percent");
  add_number<std::uint32_t>(*simulate, "--random", options.random, 1, 100'000,
                            "draw N scenarios, one per seed, and compare off and adaptive in each, "
                            "on the means of --seeds");
  add_number<std::size_t>(*simulate, "--requests", options.requests_max, 1, kChunksMax,
                          "only the first N requests of the trace, or of each drawn scenario");
  add_choice<bool>(*simulate, "--order", options.head_most_recent,
                   {{"front", false}, {"back", true}},
                   "from which end the keys of a request are touched (default back)");
  add_text(*simulate, "--markdown", options.markdown_file, "append the results as a Markdown table to a file");
  add_engine_options(*simulate, options.engine);
  add_output_options(*simulate, options.output);
  simulate->callback([&options, &command] {
    if (options.trace_file && options.synthetic)
      throw CLI::ValidationError("--synthetic", "excludes --trace");
    const bool names_one = options.trace_file || options.synthetic || options.scenario_file;
    if (options.random > 0 && (names_one || options.grid_percent > 0 || !options.policies.empty() ||
                               options.markdown_file || options.profile_file ||
                               options.engine.config_file || !options.engine.tiers.empty()))
      throw CLI::ValidationError(
          "--random", "excludes every option but --seed, --seeds, --requests, --json and --quiet");
    if (!names_one && options.random == 0)
      throw CLI::RequiredError("--trace, --synthetic, --scenario or --random");
    command = [&options](std::ostream& out, std::ostream& err) {
      return run_simulate(options, out, err);
    };
  });
}

/// Options of `io` that only some measurements look at. To take one and not look at it would let a caller
/// believe that it was measured so.
void refuse_options_of_others(const CLI::App& io, IoWhat what) {
  struct Own {
    const char* option;
    std::vector<IoWhat> of;
    const char* names;
  };
  constexpr auto kTransfer = IoWhat::transfer, kLatency = IoWhat::latency;
  static const std::vector<Own> kOwn{
      {"--engine", {kTransfer}, "transfer"},
      {"--against-fio", {kTransfer}, "transfer"},
      {"--load-share", {kLatency}, "latency"},
      {"--seconds", {kLatency}, "latency"},
      {"--against-floor", {kTransfer, kLatency}, "transfer or latency"},
      {"--tier", {kTransfer, kLatency}, "transfer or latency"},
      {"--set-bytes", {kTransfer, kLatency}, "transfer or latency"},
      {"--depth", {kTransfer, kLatency}, "transfer or latency"},
      {"--no-checksum", {kTransfer, kLatency}, "transfer or latency"},
      {"--io", {kTransfer, kLatency}, "transfer or latency"},
      {"--dir", {kTransfer, kLatency}, "transfer or latency"},
  };
  for (const Own& own : kOwn)
    if (io.count(own.option) > 0 && std::find(own.of.begin(), own.of.end(), what) == own.of.end())
      throw CLI::ValidationError(
          own.option, std::string("has no effect here; it goes with --what ") + own.names);
}

/// Of an obj tier; credentials come from the environment, as AWS tools take them.
void add_store_options(CLI::App& app, std::optional<IoStore>& store) {
  const auto add = [&](const char* name, std::string IoStore::*member, const char* help) {
    return app.add_option_function<std::string>(
        name,
        [&store, member](const std::string& text) {
          (store ? *store : store.emplace()).*member = text;
        },
        help);
  };
  auto* url = add("--store", &IoStore::endpoint,
                  "endpoint of an object store, http://host:port or https://host:port");
  url->needs(add("--bucket", &IoStore::bucket, "its bucket")->needs(url));
  add("--region", &IoStore::region, "its region (default us-east-1)")->needs(url);
  add("--ca-bundle", &IoStore::ca_bundle, "whom TLS trusts, a PEM file")->needs(url);
}

void add_io(CLI::App& app, IoOptions& options, Command& command) {
  auto* io = app.add_subcommand(
      "io", "what moving chunks costs, against fio and against the device's floor");
  add_choice<IoWhat>(
      *io, "--what", options.what,
      {{"transfer", IoWhat::transfer}, {"latency", IoWhat::latency}, {"memory", IoWhat::memory}},
      "stores and loads; loads beside stores; passes over memory (default transfer)");
  add_choice<std::string>(
      *io, "--tier", options.shape.tier, {{"fs", "fs"}, {"extent", "extent"}, {"obj", "obj"}},
      "type of the tier (default fs); obj: on --store, else on a store in memory");
  add_store_options(*io, options.shape.store);
  add_bytes(*io, "--chunk-bytes", options.shape.chunk_bytes,
            "size of a chunk, a multiple of 4KiB up to 4GiB (default 2MiB)");
  add_bytes(*io, "--set-bytes", options.shape.set_bytes,
            "bytes stored and loaded per measurement, at least --depth chunks, at most 4GiB "
            "(default 1GiB)");
  add_number<std::uint32_t>(
      *io, "--depth", options.shape.depth, 1, 256,
      "requests in flight of those compared; the tier chooses its own (default 4)");
  add_number<std::uint32_t>(*io, "--pairs", options.pairs, 1, 1000, "rounds (default 5)");
  io->add_flag("--engine", options.engine, "also through a whole engine");
  io->add_flag("--against-fio", options.against_fio, "also fio, which must be installed");
  io->add_flag("--against-floor", options.against_floor, "also a straight io_uring program");
  io->add_flag_callback(
      "--no-checksum", [&options] { options.shape.checksum = false; }, "tier without digests");
  std::vector<std::pair<std::string, std::optional<std::string>>> modes;
  for (const auto name : kIoModeNames) modes.emplace_back(name, std::string(name));
  add_choice(*io, "--io", options.shape.io, modes, "I/O backend of the tier: auto, uring, threads");
  add_number<double>(*io, "--load-share", options.load_share, 0.01, 1,
                     "latency: rate of loads, of the measured load rate (default 0.25)");
  add_number<double>(*io, "--seconds", options.seconds, 0.1, 3600,
                     "latency: of each half (default 4)");
  add_text(*io, "--dir", options.dir, "keep files here (default: a temporary directory)");
  add_text(*io, "--markdown", options.markdown_file,
           "append the results as Markdown tables to a file");
  add_output_options(*io, options.output);
  io->callback([&options, &command, io] {
    refuse_options_of_others(*io, options.what);
    command = [&options](std::ostream& out, std::ostream& err) {
      return run_io(options, out, err);
    };
  });
}

void add_copy(CLI::App& app, CopyBenchOptions& options, Command& command) {
  auto* copy = app.add_subcommand(
      "copy",
      "what moving chunks between device and primary tier costs, against memcpy of the same shape");
  add_bytes(*copy, "--chunk-bytes", options.chunk_bytes, "size of a chunk (default 2MiB)", 4096,
            kCopyChunkBytesMax);
  add_bytes(*copy, "--fragment-bytes", options.fragment_bytes,
            "size of the scattered fragments, a divisor of --chunk-bytes (default 16KiB)",
            kCopyFragmentBytesMin, kCopyChunkBytesMax);
  add_number<std::uint32_t>(*copy, "--chunks", options.chunks, 1, 1U << 24,
                            "rows, and as much on the device (default 256)");
  add_number<std::uint32_t>(*copy, "--threads", options.threads, 1, HostOptions::kThreadsMax,
                            "that copy, ours and those of memcpy (default 1)");
  add_choice<std::string>(*copy, "--backend", options.backend, {{"host", "host"}, {"cuda", "cuda"}},
                          "device of the copies (default host)");
  add_number<double>(*copy, "--seconds", options.seconds, 0.001, 3600,
                     "of each measurement (default 0.5)");
  add_number<std::uint32_t>(*copy, "--rounds", options.rounds, 1, 1000,
                            "medians of so many (default 5)");
  add_output_options(*copy, options.output);
  copy->callback([&options, &command] {
    if (options.backend == "cuda" && options.threads != 1)
      throw CLI::ValidationError("--threads", "has no effect with --backend cuda");
    command = [&options](std::ostream& out, std::ostream& err) {
      return run_copy(options, out, err);
    };
  });
}

void add_lookup(CLI::App& app, LookupBenchOptions& options, Command& command) {
  auto* lookup = app.add_subcommand(
      "lookup", "what asking for keys costs: the index, a round trip, the facade");
  const auto add_list = [&](const char* name, auto& target, std::uint64_t most, const char* help) {
    lookup->add_option(name, target, help)->delimiter(',')->check(CLI::Range(std::uint64_t{1}, most));
  };
  add_list("--keys", options.keys, 1U << 30,
           "keys in the primary tier, 100 bytes of memory each (default 10000,100000,1000000)");
  add_list("--batch", options.batches, 65'536, "keys of one lookup (default 1,64,512)");
  add_list("--threads", options.threads, 1024, "callers (default 1,2,4)");
  add_list("--index-keys", options.index_keys, 1U << 30,
           "keys of the index measured alone, 100 bytes each (default 10000,1000000,10000000)");
  add_number<double>(*lookup, "--seconds", options.seconds, 0.01, 3600, "of each run (default 1)");
  add_number<std::uint32_t>(*lookup, "--rounds", options.rounds, 1, 1000, "medians of so many (default 3)");
  lookup->add_flag_callback(
      "--no-hold", [&options] { options.hold = false; }, "lookups hold nothing");
  add_seed(*lookup, options.seed, "of the prompts");
  add_text(*lookup, "--eviction", options.eviction, "eviction policy: lru, arc, s3fifo");
  add_text(*lookup, "--markdown", options.markdown_file,
           "append the results as Markdown tables to a file");
  add_output_options(*lookup, options.output);
  lookup->callback([&options, &command] {
    command = [&options](std::ostream& out, std::ostream& err) {
      return run_lookup(options, out, err);
    };
  });
}

void add_workers(CLI::App& app, WorkersOptions& options, Command& command) {
  auto* workers = app.add_subcommand(
      "workers", "an engine and worker processes: chunks from their devices and back, compared");
  add_number<std::uint32_t>(*workers, "--workers", options.workers, 1, 64,
                            "worker processes (default 4)");
  add_number<std::uint64_t>(*workers, "--chunks", options.chunks, 1, kChunksMax,
                            "chunks each way (default 10000)");
  add_bytes(*workers, "--chunk-bytes", options.chunk_bytes,
            "size of a chunk, all workers' parts (default 64KiB)", config_fields::kChunkBytesMin,
            config_fields::kChunkBytesMax);
  add_number<std::uint32_t>(*workers, "--blocks-per-chunk", options.blocks_per_chunk, 1, 1024,
                            "device blocks of a chunk (default 1)");
  add_number<std::uint32_t>(*workers, "--batch", options.batch, 1, 65'536,
                            "chunks of a copy (default 64)");
  add_number<std::uint32_t>(*workers, "--window", options.window, 1, 1024,
                            "copies on their way (default 4)");
  add_number<std::uint32_t>(*workers, "--rounds", options.rounds, 1, 100'000,
                            "whole lives of an engine (default 1)");
  workers->add_flag(
      "--kill", options.kill,
      "kill one worker in each round, give its rank to another, do again what failed");
  add_seed(*workers, options.seed, "of the order, and of who dies when");
  add_output_options(*workers, options.output);
  workers->callback([&options, &command] {
    command = [&options](std::ostream& out, std::ostream& err) {
      return run_workers(options, out, err);
    };
  });
}

/// What `workers` starts; nobody else has its descriptor.
void add_worker_process(CLI::App& app, BenchWorkerOptions& options, Command& command) {
  auto* worker = app.add_subcommand("worker-process", "")->group("");
  worker->add_option("--socket", options.socket)->required();
  worker->add_option("--rank", options.rank)->required();
  worker->add_option("--world-size", options.world_size)->required();
  worker->add_option("--blocks-per-chunk", options.blocks_per_chunk)->required();
  worker->add_option("--page-bytes", options.page_bytes)->required();
  worker->add_option("--num-blocks", options.num_blocks)->required();
  worker->add_option("--device-fd", options.device_fd)->required();
  worker->callback([&options, &command] {
    command = [&options](std::ostream&, std::ostream& err) {
      return run_bench_worker(options, err);
    };
  });
}

void add_inspect(CLI::App& app, InspectOptions& options, Command& command) {
  auto* inspect = app.add_subcommand("inspect", "what a tier left on disk");
  inspect
      ->add_option("path", options.path, "root directory of a file tier, or file of an extent tier")
      ->required();
  inspect->add_flag("--verify", options.verify, "compute every chunk's digest and compare");
  inspect->add_flag("--purge-quarantined", options.purge_quarantined,
                    "remove the files that loads set aside as damaged");
  add_number<std::size_t>(*inspect, "--limit", options.limit, 0, kChunksMax,
                          "name so many damaged chunks at most; all are counted (default 20)");
  add_text(*inspect, "--config", options.config_file,
           "engine configuration: the namespace of an extent file, for --verify");
  add_output_options(*inspect, options.output);
  inspect->callback([&options, &command] {
    command = [&options](std::ostream& out, std::ostream& err) {
      return run_inspect(options, out, err);
    };
  });
}

struct CheckConfigOptions {
  std::string file;
  OutputOptions output;
};

void add_check_config(CLI::App& app, CheckConfigOptions& options, Command& command) {
  auto* check = app.add_subcommand("check-config", "validate a configuration and print its values");
  // Not required(): the help would ask for both spellings.
  check->add_option("file,--config", options.file,
                    "engine configuration, a JSON document; one of the two forms");
  add_output_options(*check, options.output);
  check->callback([&options, &command] {
    if (options.file.empty()) throw CLI::RequiredError("a file or --config");
    command = [&options](std::ostream& out, std::ostream& err) {
      return check_config(options.file, options.output.json_file, options.output.quiet, out, err);
    };
  });
}

void add_serve_objects(CLI::App& app, ObjectServerOptions& options, Command& command) {
  auto* serve =
      app.add_subcommand("serve-objects", "an S3 store in memory, on 127.0.0.1, until interrupted");
  add_number<std::uint16_t>(*serve, "--port", options.port, 0, 65535,
                            "port; 0 picks one (default 0)");
  serve->add_option("--bucket", options.bucket, "its one bucket (default kv-cache)");
  serve->add_flag("--discard", options.discard_bodies,
                  "keep lengths and metadata alone; bytes come back as zeros");
  serve->callback([&options, &command] {
    command = [&options](std::ostream& out, std::ostream& err) {
      return serve_objects(options, out, err);
    };
  });
}

std::string one_line(std::string text) {
  for (char& c : text)
    if (c == '\n') c = ' ';
  return text.substr(0, text.find_last_not_of(' ') + 1);
}

}  // namespace

int run_command_line(int argc, const char* const* argv, std::ostream& out, std::ostream& err) {
  CLI::App app("Replays, stresses and checks the kv_offload engine.", "kv-offload-bench");
  app.set_version_flag("--version", version());
  app.require_subcommand(1);
  ReplayOptions replay;
  SimulateOptions simulate;
  StressOptions stress;
  IoOptions io;
  LookupBenchOptions lookup;
  CopyBenchOptions copy;
  InspectOptions inspect;
  CheckConfigOptions check;
  ObjectServerOptions serve;
  WorkersOptions workers;
  BenchWorkerOptions worker_process;
  Command command;
  add_replay(app, replay, command);
  add_simulate(app, simulate, command);
  add_stress(app, stress, command);
  add_inspect(app, inspect, command);
  add_io(app, io, command);
  add_lookup(app, lookup, command);
  add_copy(app, copy, command);
  add_check_config(app, check, command);
  add_serve_objects(app, serve, command);
  add_workers(app, workers, command);
  add_worker_process(app, worker_process, command);
  const auto named = [&](const CLI::App* command_app) {
    return command_app->get_name() == argv[1];
  };
  if (argc > 1 && argv[1][0] != '-' && app.get_subcommands(named).empty()) {
    err << "kv-offload-bench: " << one_line(argv[1])
        << ": no such subcommand; expected one of: check-config, copy, inspect, io, lookup, "
           "replay, "
           "serve-objects, simulate, stress, workers\n";
    return kUsageError;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error, out, err);  // --help, --version
    err << "kv-offload-bench: " << one_line(error.what()) << '\n';
    return kUsageError;
  }
  return command(out, err);
}

}  // namespace kv_offload::bench
