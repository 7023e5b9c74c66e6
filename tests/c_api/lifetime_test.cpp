// Ending an engine, and what may happen meanwhile: callers inside, callbacks under way, log lines.
#include "kv_offload/tests/c_api/c_api_fixture.hpp"
#include "kv_offload/tiers/secondary_tier.hpp"
#include "kv_offload/tiers/secondary_tier_registry.hpp"

#include <nlohmann/json.hpp>

#include <atomic>
#include <fcntl.h>
#include <future>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <unistd.h>

using namespace kv_offload;
using namespace kv_offload::test;

namespace {

/// A tier that takes every question and answers none: lookups stay inside.
class SilentTier final : public SecondaryTier {
 public:
  TierTraits traits() const override { return {"silent", Medium::cpu, Locality::local}; }
  Expected<Ok> start() override { return Ok{}; }
  bool probe(ProbeId, KeyList) override { return true; }
  void submit(std::vector<TransferJob>) override {}
  void cancel(JobId) override {}
  void cancel_queued() override {}
  TierStats stats() const override { return {}; }
  bool stop(Duration) override { return true; }
};

std::string silent_config() {
  [[maybe_unused]] static const bool registered =
      secondary_tiers()
          .register_tier("silent", {[](const TierConfig&, TierEnvironment) -> Expected<std::unique_ptr<SecondaryTier>> {
                                      return std::unique_ptr<SecondaryTier>(std::make_unique<SilentTier>());
                                    },
                                    nullptr})
          .has_value();
  return config_json({}, R"("secondary_tiers": [{"type": "silent"}], "deadlines": {"drain_ms": 200, "shutdown_ms": 400})");
}

int open_calls(kvo_engine* engine) {
  char* text = nullptr;
  REQUIRE(kvo_stats_json(engine, &text) == KVO_OK);
  const int open = nlohmann::json::parse(text)["calls_open"];
  kvo_free_text(text);
  return open;
}

/// Counts its calls and keeps the last code.
struct Calls {
  std::atomic<int> calls{0}, code{-1};
  static void back(void* user, int code, const char*, const kvo_lookup_answer*, const std::uint8_t*, std::size_t) {
    auto& self = *static_cast<Calls*>(user);
    self.code = code;
    ++self.calls;
  }
};

struct Lines {
  std::mutex mutex;
  std::vector<std::pair<int, std::string>> lines;
  std::atomic<int> inside{0}, together{0};
  std::atomic<bool> destroyed{false}, late{false};
  static void take(void* user, kvo_log_level level, const char* line) {
    auto& self = *static_cast<Lines*>(user);
    if (self.destroyed) self.late = true;
    if (self.inside.fetch_add(1) != 0) ++self.together;
    {
      const std::scoped_lock lock(self.mutex);
      self.lines.emplace_back(level, line);
    }
    self.inside.fetch_sub(1);
  }
};

}  // namespace

TEST_CASE("after a shutdown every call is refused and the facts stay", "[c_api]") {
  CEngine engine;
  const auto r = engine.request("r");
  const CKeys keys('a', 1);
  auto plan = sized<kvo_store_plan>();
  std::uint32_t ids[1];
  REQUIRE(kvo_prepare_store(engine, r, keys.data(), 1, nullptr, &plan, ids, ids) == KVO_OK);
  CHECK(kvo_shutdown(engine, 0) == KVO_OK);
  CHECK(kvo_shutdown(engine, 1000) == KVO_OK);
  CHECK(kvo_lookup(engine, r, keys.data(), 1, nullptr, nullptr, nullptr) == KVO_SHUTTING_DOWN);
  CHECK(kvo_complete_store(engine, plan.lease, 0, nullptr) == KVO_SHUTTING_DOWN);
  char* text = nullptr;
  CHECK(kvo_stats_json(engine, &text) == KVO_SHUTTING_DOWN);
  CHECK(text == nullptr);
  Calls calls;
  CHECK(kvo_lookup_async(engine, r, keys.data(), 1, nullptr, Calls::back, &calls) == KVO_OK);
  CHECK(calls.calls == 1);
  CHECK(calls.code == KVO_SHUTTING_DOWN);
  CHECK(kvo_chunk(engine, ids[0]) == nullptr);
  CHECK(kvo_num_chunks(engine) == 64);
}

TEST_CASE("destroy answers who is still inside and has called back everybody", "[c_api]") {
  auto options = sized<kvo_start_options>();
  const auto json = silent_config();
  options.config_json = json.c_str();
  kvo_engine* engine = nullptr;
  REQUIRE(kvo_start(&options, &engine) == KVO_OK);
  auto announce = sized<kvo_request_options>();
  announce.req_id = "r";
  kvo_request r = 0;
  REQUIRE(kvo_new_request(engine, &announce, &r, nullptr) == KVO_OK);
  const CKeys keys('a', 2);
  Calls calls;
  auto blocked = std::async(std::launch::async, [&] {
    return kvo_lookup(engine, r, keys.data(), 1, nullptr, nullptr, nullptr);
  });
  REQUIRE(kvo_lookup_async(engine, r, keys.data() + 1, 1, nullptr, Calls::back, &calls) == KVO_OK);
  while (open_calls(engine) != 2) std::this_thread::yield();
  CHECK(calls.calls == 0);
  CHECK(kvo_destroy(engine) == KVO_OK);
  CHECK(calls.calls == 1);
  CHECK(calls.code != KVO_OK);
  CHECK(blocked.get() != KVO_OK);
}

TEST_CASE("callers in many threads end in order when the engine shuts down under them", "[c_api]") {
  CEngine engine;
  const CKeys keys('a', 3);
  const auto first = engine.request("first");
  engine.store(first, keys, 1);
  std::atomic<int> answered{0}, wrong{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 4; ++t)
    callers.emplace_back([&, t] {
      auto options = sized<kvo_request_options>();
      const auto id = std::to_string(t);
      options.req_id = id.c_str();
      kvo_request r = 0;
      int code = kvo_new_request(engine, &options, &r, nullptr);
      while (code == KVO_OK) {
        code = kvo_lookup(engine, r, keys.data(), keys.size(), nullptr, nullptr, nullptr);
        ++answered;
      }
      if (code != KVO_SHUTTING_DOWN && code != KVO_ENGINE_FAILED) ++wrong;
    });
  while (answered < 100) std::this_thread::yield();
  CHECK(kvo_shutdown(engine, 0) == KVO_OK);
  for (auto& caller : callers) caller.join();
  CHECK(wrong == 0);
}

TEST_CASE("inside a callback calls that wait are refused, others are not, and an exception harms nobody", "[c_api]") {
  CEngine engine;
  const CKeys keys('a', 1);
  struct Context {
    kvo_engine* engine;
    kvo_request request;
    const CKeys* keys;
    std::vector<int> codes;
    Calls nested;
    std::promise<void> done;
  } context{engine, engine.request("r"), &keys, {}, {}, {}};
  const auto callback = [](void* user, int, const char*, const kvo_lookup_answer*, const std::uint8_t*, std::size_t) {
    auto& c = *static_cast<Context*>(user);
    kvo_engine* other = nullptr;
    auto options = sized<kvo_start_options>();
    options.config_json = "{}";
    c.codes = {kvo_drain(c.engine), kvo_destroy(c.engine), kvo_shutdown(c.engine, 1), kvo_start(&options, &other),
               kvo_failed_state(c.engine),
               kvo_lookup_async(c.engine, c.request, c.keys->data(), 1, nullptr, Calls::back, &c.nested)};
    c.done.set_value();
    throw std::runtime_error("from a callback");
  };
  REQUIRE(kvo_lookup_async(engine, context.request, keys.data(), 1, nullptr, callback, &context) == KVO_OK);
  context.done.get_future().get();
  CHECK(context.codes == std::vector<int>{KVO_IN_CALLBACK, KVO_IN_CALLBACK, KVO_IN_CALLBACK, KVO_IN_CALLBACK, KVO_OK, KVO_OK});
  CHECK(kvo_drain(engine) == KVO_OK);
  CHECK(kvo_shutdown(engine, 0) == KVO_OK);
  CHECK(context.nested.calls == 1);
}

TEST_CASE("the host takes over all log lines, one at a time, and none comes after destroy", "[c_api]") {
  TempDir dir;
  // Standard error meanwhile goes to a file, which must stay empty.
  const auto file = dir.path + "/stderr";
  const int kept = dup(2), taken = open(file.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  REQUIRE(dup2(taken, 2) == 2);
  Lines lines;
  for (int round = 0; round < 5; ++round) {
    lines.destroyed = false;
    {
      CEngine engine(config_json(dir.path, "log_level"), Lines::take, &lines);
      const auto r = engine.request("r");
      engine.store(r, CKeys('a', 3), 1);
    }
    lines.destroyed = true;
  }
  dup2(kept, 2);
  close(kept);
  close(taken);
  CHECK(std::filesystem::file_size(file) == 0);
  CHECK_FALSE(lines.late);
  CHECK(lines.together == 0);
  int started = 0;
  for (const auto& [level, line] : lines.lines) {
    CHECK((level >= KVO_LOG_DEBUG && level <= KVO_LOG_ERROR));
    CHECK(line.find('\n') == std::string::npos);
    started += line.find("engine started") != std::string::npos && level == KVO_LOG_INFO;
  }
  CHECK(started == 5);
}

TEST_CASE("a start that fails leaves no log callback behind", "[c_api]") {
  Lines lines;
  auto options = sized<kvo_start_options>();
  const auto json = config_json("/nowhere/at/all", "log_level");
  options.config_json = json.c_str();
  options.log = Lines::take;
  options.log_user = &lines;
  kvo_engine* engine = nullptr;
  CHECK(kvo_start(&options, &engine) != KVO_OK);
  CHECK(engine == nullptr);
  CHECK_THAT(kvo_error_text(), Catch::Contains("/nowhere/at/all"));
  lines.destroyed = true;
  CEngine other;
  CHECK_FALSE(lines.late);
}
