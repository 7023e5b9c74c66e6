// Starting, ending and asking an engine.
#include "kv_offload/actors/c_api/c_api_entry.hpp"
#include "kv_offload/actors/c_api/c_api_keys.hpp"
#include "kv_offload/actors/c_api/c_api_structs.hpp"
#include "kv_offload/actors/fork_generation.hpp"

#include <chrono>
#include <thread>

using namespace kv_offload;
using namespace kv_offload::c_api;

namespace {

int start(const kvo_start_options* given, kvo_engine*& made) {
  if (given == nullptr) return not_allowed("options", "NULL", "a kvo_start_options");
  kvo_start_options options;
  if (const int wrong = read_struct(given, "options", options)) return wrong;
  if ((options.config_json == nullptr) == (options.config_file == nullptr))
    return not_allowed("options.config_json", options.config_json ? "beside config_file" : "NULL",
                       "one of config_json and config_file");
  auto config = options.config_json != nullptr ? EngineConfig::parse(options.config_json)
                                               : EngineConfig::load_file(options.config_file);
  if (!config) return fail(config.error());
  auto engine = std::make_unique<kvo_engine>();
  engine->born_in = fork_generation();
  engine->gate = std::make_shared<HostGate>(options.log, options.log_user);
  if (options.log != nullptr)
    config->log = [gate = engine->gate](const std::string& level, const std::string& line) { gate->line(level, line); };
  auto facade = OffloadEngine::start(std::move(*config));
  if (!facade) {
    engine->gate->close();
    return fail(facade.error());
  }
  engine->facade = std::move(*facade);
  made = engine.release();
  return KVO_OK;
}

int end_cleanly(kvo_engine& engine, std::uint32_t patience_ms) {
  const bool clean = patience_ms == 0 ? engine.facade->shutdown()
                                      : engine.facade->shutdown(std::chrono::milliseconds(patience_ms));
  engine.ended = true;
  return clean ? KVO_OK : fail(KVO_UNCLEAN, "a lane or a worker did not end in time (the log names it); what it may still write to was left alone");
}

/// A fact, or `none` where there is no engine to ask.
template <class T, class Ask>
T fact(const kvo_engine* engine, T none, Ask ask) {
  T value = none;
  enter(engine, Waits::no, [&](const OffloadEngine& facade) { return value = ask(facade), KVO_OK; });
  return value;
}

}  // namespace

std::uint32_t kvo_abi_version(void) { return KVO_ABI_VERSION; }
const char* kvo_version(void) { return KV_OFFLOAD_VERSION; }

int kvo_start(const kvo_start_options* options, kvo_engine** engine) {
  if (engine == nullptr) return fail(KVO_INVALID_ARGUMENT, "engine: NULL is not allowed; expected where to put it");
  *engine = nullptr;
  if (CallbackScope::active()) return fail(KVO_IN_CALLBACK, "an engine is not started inside a callback");
  try {
    return start(options, *engine);
  } catch (...) {
    return fail_by_exception();
  }
}

int kvo_shutdown(kvo_engine* engine, std::uint32_t patience_ms) {
  return enter(engine, Waits::yes, [&](OffloadEngine&) { return end_cleanly(*engine, patience_ms); });
}

int kvo_destroy(kvo_engine* engine) {
  if (engine == nullptr) return KVO_OK;
  const int refused = refusal(engine, Waits::yes);
  if (refused == KVO_FORKED) {
    (void)engine->facade.release();  // the parent's threads, locks and files: leave them alone
    delete engine;
  }
  if (refused != KVO_OK) return refused;
  try {
    engine->closing = true;
    const int answer = end_cleanly(*engine, 0);  // answers every call that is inside
    while (engine->inside.load() != 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
    engine->facade.reset();
    engine->gate->await_calls();
    engine->gate->close();
    delete engine;
    return answer;
  } catch (...) {
    return fail_by_exception();
  }
}

std::uint64_t kvo_chunk_bytes(const kvo_engine* engine) {
  return fact(engine, std::uint64_t{0}, [](const OffloadEngine& e) { return e.chunk_bytes(); });
}
std::uint32_t kvo_num_chunks(const kvo_engine* engine) {
  return fact(engine, std::uint32_t{0}, [](const OffloadEngine& e) { return e.num_chunks(); });
}
int kvo_metrics_port(const kvo_engine* engine) {
  return fact(engine, 0, [](const OffloadEngine& e) { return e.metrics_port(); });
}
void* kvo_chunk(const kvo_engine* engine, std::uint32_t chunk_id) {
  return fact(engine, static_cast<void*>(nullptr), [&](const OffloadEngine& e) -> void* {
    return engine->ended ? nullptr : e.chunk(chunk_id).data();
  });
}
int kvo_failed_state(const kvo_engine* engine) {
  return enter(engine, Waits::no, [](const OffloadEngine& e) {
    const auto name = e.failed_state();
    return name.empty() ? KVO_OK : fail(KVO_ENGINE_FAILED, name);
  });
}

int kvo_drain(kvo_engine* engine) {
  return enter(engine, Waits::yes, [](OffloadEngine& e) { return code_of(e.drain().get()); });
}
int kvo_reset(kvo_engine* engine) {
  return enter(engine, Waits::yes, [](OffloadEngine& e) { return code_of(e.reset().get()); });
}
int kvo_set_revision(kvo_engine* engine, const char* revision) {
  return enter(engine, Waits::yes, [&](OffloadEngine& e) {
    if (revision == nullptr) return not_allowed("revision", "NULL", "a text");
    return code_of(e.set_revision(revision).get());
  });
}

int kvo_step_begin(kvo_engine* engine) {
  return enter(engine, Waits::yes, [](OffloadEngine& e) { return code_of(e.step_begin().get()); });
}
int kvo_step_end(kvo_engine* engine, const kvo_request* new_requests, std::size_t num_new,
                 const kvo_request* preempted_requests, std::size_t num_preempted) {
  return enter(engine, Waits::yes, [&](OffloadEngine& e) {
    const auto most = e.config().requests_max;
    if (num_new > most || num_preempted > most)
      return not_allowed("num_new, num_preempted", std::to_string(std::max(num_new, num_preempted)),
                         "at most requests_max (" + std::to_string(most) + ")");
    if ((num_new > 0 && new_requests == nullptr) || (num_preempted > 0 && preempted_requests == nullptr))
      return not_allowed("new_requests, preempted_requests", "NULL", "as many requests as the number says");
    ScheduleEnd step;
    for (std::size_t i = 0; i < num_new; ++i) step.new_requests.push_back(id_of<RequestHandle>(new_requests[i]));
    for (std::size_t i = 0; i < num_preempted; ++i)
      step.preempted_requests.push_back(id_of<RequestHandle>(preempted_requests[i]));
    return code_of(e.step_end(std::move(step)).get());
  });
}
int kvo_has_pending_work(kvo_engine* engine, int* pending) {
  return enter(engine, Waits::yes, [&](OffloadEngine& e) {
    if (pending == nullptr) return not_allowed("pending", "NULL", "where to put the answer");
    const auto answer = e.has_pending_work().get();
    if (answer) *pending = *answer ? 1 : 0;
    return code_of(answer);
  });
}
