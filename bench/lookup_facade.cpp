#include "kv_offload/bench/lookup_facade.hpp"

#include "kv_offload/actors/offload_engine.hpp"
#include "kv_offload/bench/lookup_index.hpp"
#include "kv_offload/bench/random.hpp"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <ctime>
#include <mutex>
#include <thread>
#include <vector>

namespace kv_offload::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kStoreBatch = 512;
constexpr std::uint64_t kChunkBytes = 4096;
/// Prompts of one caller, made before the clock runs.
constexpr std::uint32_t kPrompts = 64;

double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

Expected<Ok> store_all(OffloadEngine& engine, std::uint64_t keys) {
  NewRequest announced;
  announced.req_id = "fill";
  const auto request = engine.new_request(announced).get();
  if (!request) return request.error();
  for (std::uint64_t first = 0; first < keys; first += kStoreBatch) {
    const auto count =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(kStoreBatch, keys - first));
    const auto plan = engine.prepare_store(*request, lookup_keys(first, count)).get();
    if (!plan) return plan.error();
    if (auto stored = engine.complete_store(plan->lease).get(); !stored) return stored.error();
  }
  if (auto ended = engine.request_finished(*request).get(); !ended) return ended.error();
  return Ok{};
}

class Caller {
 public:
  Caller(OffloadEngine& engine, const FacadeShape& shape, std::uint32_t number)
      : engine_(engine), shape_(shape), name_("t" + std::to_string(number) + "-") {
    Random random(shape.seed * 1000 + number);
    for (std::uint32_t i = 0; i < kPrompts; ++i)
      prompts_.push_back(lookup_keys(random.below(shape.keys - shape.batch + 1), shape.batch));
  }

  void run(Clock::time_point end) {
    while (Clock::now() < end && failure.empty()) one(prompts_[calls % kPrompts]);
  }

  LatencyRecorder recorder;
  std::uint64_t calls = 0, wrong = 0;
  std::string failure;

 private:
  void one(KeyList keys) {  // copied before the clock runs: the call takes them over
    NewRequest announced;
    announced.req_id = name_ + std::to_string(calls);
    announced.prompt_tokens = keys.size() * 16;
    const auto request = engine_.new_request(std::move(announced)).get();
    if (!request) return fail(request.error());
    LookupOptions options;
    options.hold = shape_.hold;
    const auto start = Clock::now();
    const auto answer = engine_.lookup(*request, std::move(keys), options).get();
    recorder.record(Clock::now() - start);
    if (!answer) return fail(answer.error());
    wrong += answer->leading_hits == shape_.batch ? 0 : 1;
    ++calls;
    if (auto ended = engine_.request_finished(*request).get(); !ended) fail(ended.error());
  }
  void fail(const OffloadError& error) { failure = to_string(error); }

  OffloadEngine& engine_;
  const FacadeShape& shape_;
  const std::string name_;
  std::vector<KeyList> prompts_;
};

}  // namespace

Expected<std::unique_ptr<OffloadEngine>> lookup_engine(std::uint64_t keys,
                                                       const std::string& eviction) {
  EngineConfig config;
  config.chunk_bytes = kChunkBytes;
  config.cpu_bytes_to_use = keys * kChunkBytes;
  config.reserve_only = true;  // nobody reads or writes a chunk here
  config.identity.model_name = "kv-offload-bench";
  config.eviction_policy = eviction;
  config.primary.headroom_share = 0;
  config.primary.hold_share = 0.75;
  config.log_level = "error";
  auto engine = OffloadEngine::start(std::move(config));
  if (!engine) return engine.error();
  if (auto stored = store_all(**engine, keys); !stored) return stored.error();
  return engine;
}

FacadeFigure measure_facade(OffloadEngine& engine, const FacadeShape& shape) {
  std::vector<std::unique_ptr<Caller>> callers;
  for (std::uint32_t i = 0; i < shape.threads; ++i)
    callers.push_back(std::make_unique<Caller>(engine, shape, i));
  std::barrier<> begin(shape.threads + 1);
  std::vector<std::thread> threads;
  for (auto& caller : callers)
    threads.emplace_back([&, caller = caller.get()] {
      caller->run(Clock::now() + from_seconds(shape.seconds / 10));  // caches and workers warm up
      caller->recorder = {};
      const std::uint64_t warm = caller->calls;
      begin.arrive_and_wait();
      caller->run(Clock::now() + from_seconds(shape.seconds));
      caller->calls -= warm;
    });
  begin.arrive_and_wait();
  const auto start = Clock::now();
  for (auto& thread : threads) thread.join();
  const std::chrono::duration<double> took = Clock::now() - start;
  FacadeFigure figure;
  std::uint64_t calls = 0;
  for (const auto& caller : callers) {
    figure.lookup.merge(caller->recorder);
    calls += caller->calls;
    figure.wrong += caller->wrong;
    if (figure.failure.empty()) figure.failure = caller->failure;
  }
  figure.keys_per_s = static_cast<double>(calls * shape.batch) / took.count();
  return figure;
}

double idle_cpu_percent(double seconds) {
  const double before = cpu_seconds();
  std::this_thread::sleep_for(from_seconds(seconds));
  return (cpu_seconds() - before) / seconds * 100;
}

}  // namespace kv_offload::bench
