// A worker process: its device, its part of the engine's rows.
#include "kv_offload/actors/c_api/c_api_blocks.hpp"
#include "kv_offload/actors/c_api/c_api_worker.hpp"
#include "kv_offload/actors/fork_generation.hpp"
#include "kv_offload/tiers/device/device_by_name.hpp"

#include <chrono>

using namespace kv_offload;
using namespace kv_offload::c_api;

namespace {

constexpr std::size_t kTensorsMax = 65536, kLayersMax = 65536, kRunsMax = 1 << 20;
constexpr std::uint32_t kGroupsMax = 1024;

std::string text_of(const char* text) { return text == nullptr ? std::string() : std::string(text); }

int read_layer(const kvo_layer& given, std::size_t i, KvCaches& caches) {
  const auto name = [i](const char* field) { return "options.layers[" + std::to_string(i) + "]." + field; };
  if (const int wrong = check_flags(name("flags").c_str(), given.flags, KVO_LAYER_MAPPED | KVO_LAYER_PORTABLE)) return wrong;
  if (given.group >= kGroupsMax)
    return not_allowed(name("group").c_str(), std::to_string(given.group), "below " + std::to_string(kGroupsMax));
  KvRef ref;
  ref.tensor = given.tensor;
  ref.page_bytes = given.page_bytes;
  ref.layer = text_of(given.name);
  if ((given.flags & KVO_LAYER_MAPPED) != 0) {
    if (given.num_runs > kRunsMax || (given.num_runs > 0 && given.runs == nullptr))
      return not_allowed(name("runs").c_str(), given.runs == nullptr ? "NULL" : std::to_string(given.num_runs) + " runs",
                         "num_runs runs, at most " + std::to_string(kRunsMax));
    PageMapping mapping;
    mapping.canonical_page_bytes = given.canonical_page_bytes;
    for (std::uint32_t r = 0; r < given.num_runs; ++r) {
      const kvo_page_run& run = given.runs[r];
      mapping.runs.push_back({run.local_offset, run.canonical_offset, run.fragment_bytes, run.count, run.local_stride,
                              run.canonical_stride});
    }
    mapping.num_writers = given.num_writers == 0 ? 1 : given.num_writers;
    mapping.writer = given.writer;
    mapping.parallelism_agnostic = (given.flags & KVO_LAYER_PORTABLE) != 0;
    ref.mapping = std::move(mapping);
  }
  if (caches.groups.size() <= given.group) caches.groups.resize(given.group + 1);
  caches.groups[given.group].push_back(std::move(ref));
  return KVO_OK;
}

int read_caches(const kvo_worker_options& given, KvCaches& caches) {
  if (given.num_tensors > kTensorsMax || (given.num_tensors > 0 && given.tensors == nullptr))
    return not_allowed("options.tensors", given.tensors == nullptr ? "NULL" : std::to_string(given.num_tensors) + " tensors",
                       "num_tensors tensors, at most " + std::to_string(kTensorsMax));
  if (given.num_layers > kLayersMax || (given.num_layers > 0 && given.layers == nullptr))
    return not_allowed("options.layers", given.layers == nullptr ? "NULL" : std::to_string(given.num_layers) + " layers",
                       "num_layers layers, at most " + std::to_string(kLayersMax));
  for (std::size_t t = 0; t < given.num_tensors; ++t) {
    const kvo_tensor& tensor = given.tensors[t];
    KvTensor made;
    made.name = text_of(tensor.name);
    made.data = static_cast<std::byte*>(tensor.data);
    made.page_bytes = tensor.page_bytes;
    made.num_blocks = tensor.num_blocks;
    caches.tensors.push_back(std::move(made));
  }
  for (std::size_t i = 0; i < given.num_layers; ++i)
    if (const int wrong = read_layer(given.layers[i], i, caches)) return wrong;
  return KVO_OK;
}

/// The host's functions as the worker calls them. `user` and the functions are the host's; an exception is nobody's.
void set_callbacks(const kvo_worker_options& given, const std::shared_ptr<HostGate>& gate, WorkerProcess::Options& options) {
  void* const user = given.user;
  const auto guarded = [](auto call) noexcept {
    const CallbackScope scope;
    try {
      call();
    } catch (...) {  // the callback threw: nobody is there to catch it
    }
  };
  if (given.before_copy != nullptr)
    options.before_copy = [=](const CopyJob& job) {
      DeviceEventHandle event = 0;
      guarded([&] { event = given.before_copy(user, job.id, job.is_load ? 1 : 0); });
      return event;
    };
  if (given.copied != nullptr)
    options.done = [=](const CopyResult& result) {
      kvo_copy_end end{};
      end.struct_size = sizeof end;
      end.id = result.id;
      end.code = result.success ? KVO_OK : KVO_IO_ERROR;
      end.error = result.error.c_str();
      end.bytes = result.bytes;
      end.seconds = to_seconds(result.time);
      guarded([&] { given.copied(user, &end); });
    };
  if (given.engine_gone != nullptr)
    options.engine_gone = [=](const std::string& why) { guarded([&] { given.engine_gone(user, why.c_str()); }); };
  if (given.log != nullptr)
    options.log = [gate](const std::string& level, const std::string& line) { gate->line(level, line); };
}

int start(const kvo_worker_options* raw, kvo_worker*& made) {
  if (raw == nullptr) return not_allowed("options", "NULL", "a kvo_worker_options");
  kvo_worker_options given;
  if (const int wrong = read_struct(raw, "options", given)) return wrong;
  if (given.reserved != 0) return not_allowed("options.reserved", std::to_string(given.reserved), "0");
  if (given.layout > KVO_CANONICAL)
    return not_allowed("options.layout", std::to_string(given.layout), "KVO_SHARDED, KVO_REPLICATED or KVO_CANONICAL");
  WorkerProcess::Options options;
  options.socket = text_of(given.socket);
  options.region_file = text_of(given.region_file);
  options.engine_id = text_of(given.engine_id);
  options.place = {given.rank, std::max(given.world_size, 1U), std::max(given.blocks_per_chunk, 1U),
                   static_cast<ChunkLayout>(given.layout)};
  if (given.join_ms != 0) options.join_patience = std::chrono::milliseconds(given.join_ms);
  if (const int wrong = read_caches(given, options.caches)) return wrong;
  auto device = device_by_name(given.device == nullptr ? "host" : given.device);
  if (!device) return fail(device.error());
  options.backend = std::move(*device);
  auto worker = std::make_unique<kvo_worker>();
  worker->born_in = fork_generation();
  worker->gate = std::make_shared<HostGate>(given.log, given.user);
  set_callbacks(given, worker->gate, options);
  auto process = WorkerProcess::start(std::move(options));
  if (!process) return fail(process.error());
  worker->process = std::move(*process);
  made = worker.release();
  return KVO_OK;
}

/// Runs `body(worker)` for a caller that may come in.
template <class Body>
int enter_worker(kvo_worker* worker, Waits waits, Body body) noexcept {
  if (worker == nullptr) return fail(KVO_INVALID_ARGUMENT, "worker: NULL is not allowed; expected a worker");
  if (worker->born_in != fork_generation()) return fail(KVO_FORKED, "the worker belongs to the parent process");
  if (waits == Waits::yes && CallbackScope::active())
    return fail(KVO_IN_CALLBACK, "this call waits, and a callback must not");
  try {
    return body(*worker->process);
  } catch (...) {
    return fail_by_exception();
  }
}

int stop(WorkerProcess& worker, Duration patience) {
  return worker.stop(patience) ? KVO_OK : fail(KVO_UNCLEAN, "a copy did not end in time; what it may touch was leaked");
}

}  // namespace

int kvo_worker_start(const kvo_worker_options* options, kvo_worker** worker) {
  if (worker == nullptr) return fail(KVO_INVALID_ARGUMENT, "worker: NULL is not allowed; expected where to put it");
  *worker = nullptr;
  if (CallbackScope::active()) return fail(KVO_IN_CALLBACK, "a worker is not started inside a callback");
  try {
    return start(options, *worker);
  } catch (...) {
    return fail_by_exception();
  }
}

int kvo_worker_wait_ready(kvo_worker* worker, std::uint32_t patience_ms) {
  return enter_worker(worker, Waits::yes, [&](WorkerProcess& process) {
    return code_of(process.wait_ready(std::chrono::milliseconds(patience_ms)));
  });
}

int kvo_worker_submit(kvo_worker* worker, std::uint64_t id, int is_load, const kvo_blocks* blocks,
                      const std::uint32_t* chunk_ids, std::size_t num_chunks, std::uint64_t after) {
  return enter_worker(worker, Waits::no, [&](WorkerProcess& process) {
    CopyJob job;
    job.id = id;
    job.is_load = is_load != 0;
    job.after = after;
    if (const int wrong = read_blocks(blocks, job.blocks)) return wrong;
    if (const int wrong = read_numbers("chunk_ids", chunk_ids, num_chunks, job.chunk_ids)) return wrong;
    return code_of(process.submit(std::move(job)));
  });
}

int kvo_worker_decline(kvo_worker* worker, std::uint64_t id, const char* why) {
  return enter_worker(worker, Waits::no, [&](WorkerProcess& process) { return code_of(process.decline(id, text_of(why))); });
}

int kvo_worker_stop(kvo_worker* worker, std::uint32_t patience_ms) {
  return enter_worker(worker, Waits::yes,
                      [&](WorkerProcess& process) { return stop(process, std::chrono::milliseconds(patience_ms)); });
}

int kvo_worker_destroy(kvo_worker* worker) {
  if (worker == nullptr) return KVO_OK;
  const int answer = enter_worker(worker, Waits::yes,
                                  [&](WorkerProcess& process) { return stop(process, std::chrono::seconds(10)); });
  if (answer == KVO_IN_CALLBACK) return answer;
  if (answer == KVO_FORKED) (void)worker->process.release();  // the parent's threads and mappings: leave them alone
  else worker->gate->close();
  delete worker;
  return answer;
}
