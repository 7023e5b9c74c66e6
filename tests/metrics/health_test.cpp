#include "kv_offload/actors/http_health.hpp"
#include "kv_offload/actors/offload_engine.hpp"
#include "kv_offload/tests/config/config_lines.hpp"
#include "kv_offload/tests/metrics/known_stats.hpp"
#include "kv_offload/tests/metrics/socket_of_test.hpp"
#include "kv_offload/tiers/secondary_tier_registry.hpp"

#include <catch2/catch.hpp>

#include <future>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace kv_offload::test {
namespace {

using namespace std::chrono_literals;
constexpr auto kLong = 60s;  // a wait that ends before it, or the test's time limit ends it

/// An engine that answers when the test says so.
struct Engine {
  std::vector<Reply<EngineStats>> questions;
  std::string failure;
  std::optional<Expected<EngineStats>> answer;  ///< given at once, if set

  HealthProbe probe(Duration patience) {
    return HealthProbe(
        [this](Reply<EngineStats> reply) {
          if (answer) return reply.deliver(*answer);
          questions.push_back(std::move(reply));
        },
        [this] { return failure; }, patience);
  }
};

EngineStats healthy_stats() {
  EngineStats stats = known_stats();
  stats.tracker.tiers[1].disabled = false;
  stats.tiers[0].alive = true;
  return stats;
}

TEST_CASE("an engine that answers is ok, with disabled tiers it is degraded", "[metrics][unit]") {
  Engine engine;
  auto probe = engine.probe(kLong);
  engine.answer = healthy_stats();
  CHECK(probe.check().status == HealthStatus::ok);
  CHECK(probe.check().disabled_tiers.empty());
  engine.answer->value().tracker.tiers[1].disabled = true;
  const auto one = probe.check();
  CHECK(one.status == HealthStatus::degraded);
  CHECK(one.reason == "disabled: 2:example");
  engine.answer->value().tiers[0].alive = false;
  CHECK(probe.check().disabled_tiers == std::vector<std::string>{"1:fs", "2:example"});
}

TEST_CASE("an engine that does not answer in time is unresponsive until it does",
          "[metrics][unit]") {
  Engine engine;
  auto probe = engine.probe(1ms);
  const auto silent = probe.check();
  CHECK(silent.status == HealthStatus::unresponsive);
  CHECK(silent.reason.starts_with("the engine's actors have not answered for "));
  for (int i = 0; i < 3; ++i) CHECK(probe.check().status == HealthStatus::unresponsive);
  CHECK(engine.questions.size() == 1);  // it is not asked again before it has answered
  engine.questions[0].deliver(healthy_stats());
  engine.answer = healthy_stats();
  CHECK(probe.check().status == HealthStatus::ok);
}

TEST_CASE("an error instead of the numbers is unresponsive, too", "[metrics][unit]") {
  Engine engine;
  auto probe = engine.probe(kLong);
  engine.answer = OffloadError{OffloadErrc::deadline, "a tier's actor is stuck"};
  const auto health = probe.check();
  CHECK(health.status == HealthStatus::unresponsive);
  CHECK(health.reason.find("a tier's actor is stuck") != std::string::npos);
}

TEST_CASE("a failed engine says which actor died and is not asked", "[metrics][unit]") {
  Engine engine;
  engine.failure = "kv_offload.job_tracker died: error";
  auto probe = engine.probe(kLong);
  CHECK(probe.check().status == HealthStatus::failed);
  CHECK(probe.check().reason == engine.failure);
  CHECK(engine.questions.empty());
}

TEST_CASE("the shutdown ends every wait for an answer", "[metrics][unit]") {
  Engine engine;
  auto probe = engine.probe(kLong);
  auto waiting = std::async(std::launch::async, [&] { return probe.check().status; });
  probe.begin_shutdown();
  CHECK(waiting.get() == HealthStatus::shutting_down);
  CHECK(probe.check().status == HealthStatus::shutting_down);
}

/// Its actor stands still while the gate is closed.
class StuckTier : public SecondaryTier {
 public:
  static constexpr const char* kType = "test-stuck";
  static inline std::mutex gate;

  static void make_known() {
    TierType type;
    type.make = [](const TierConfig&, TierEnvironment) {
      return Expected<std::unique_ptr<SecondaryTier>>(std::make_unique<StuckTier>());
    };
    static const bool kIsKnown = bool(secondary_tiers().register_tier(kType, std::move(type)));
    REQUIRE(kIsKnown);
  }
  [[nodiscard]] TierTraits traits() const override { return {kType, {}, {}}; }
  Expected<Ok> start() override { return Ok{}; }
  bool probe(ProbeId, KeyList) override { return false; }
  void submit(std::vector<TransferJob>) override {}
  void cancel(JobId) override {}
  void cancel_queued() override {}
  [[nodiscard]] TierStats stats() const override {
    const std::scoped_lock lock(gate);
    return {};
  }
  bool stop(Duration) override { return true; }
};

std::string healthz(int port) {
  const auto socket = TestSocket::connect("127.0.0.1", port);
  socket.send("GET /healthz HTTP/1.1\r\nHost: test\r\n\r\n");
  return socket.receive_all();
}

TEST_CASE("/healthz of a running engine follows what its actors do", "[metrics][unit]") {
  StuckTier::make_known();
  auto config = good_config(document(
      R"("secondary_tiers": [{"type": "test-stuck"}], "metrics": {"port": 0},
         "log_level": "off")"));
  auto engine = OffloadEngine::start(config);
  INFO((engine ? "" : to_string(engine.error())));
  REQUIRE(engine);
  const int port = (*engine)->metrics_port();
  // A busy machine may take longer than the probe's patience: ask until it is so.
  std::string answer;
  do answer = healthz(port);
  while (answer.find("\"unresponsive\"") != std::string::npos);
  CHECK(answer.starts_with("HTTP/1.1 200"));
  CHECK(answer.find(R"("status":"ok")") != std::string::npos);
  {
    const std::scoped_lock stuck(StuckTier::gate);
    do answer = healthz(port);
    while (answer.starts_with("HTTP/1.1 200"));
    CHECK(answer.starts_with("HTTP/1.1 503"));
    CHECK(answer.find(R"("status":"unresponsive")") != std::string::npos);
  }
  do answer = healthz(port);
  while (answer.starts_with("HTTP/1.1 503"));
  CHECK(answer.find(R"("status":"ok")") != std::string::npos);
  CHECK((*engine)->shutdown());
  CHECK_FALSE(TestSocket::can_connect("127.0.0.1", port));
}

}  // namespace
}  // namespace kv_offload::test
