// The facade over the real engine: real threads, real memory, real files.
#include "kv_offload/tests/support/engine_fixture.hpp"

#include <thread>

using namespace kv_offload;
using namespace kv_offload::test;
using namespace std::chrono_literals;

TEST_CASE("chunks survive the primary tier in files, byte for byte, also across engines", "[engine]") {
  TempDir dir;
  auto config = small_config();
  config.secondary_tiers.push_back(fs_tier(dir.path));
  const auto k = keys('a', 5);
  {
    auto engine = start(config);
    const auto r = *engine->new_request({.req_id = "w"}).get();
    store(*engine, r, k, std::byte{7}, true);
    REQUIRE(engine->request_finished(r).get());
    require_promises(*engine);
    CHECK(engine->shutdown());
  }
  auto engine = start(config);
  const auto r = *engine->new_request({.req_id = "r"}).get();
  const auto found = engine->lookup(r, k).get();
  REQUIRE(found);
  CHECK(found->tier_hits == std::vector<std::uint32_t>{0, 5});
  const auto load = engine->prepare_load(r, k).get();
  REQUIRE(load);
  REQUIRE(load->chunk_ids.size() == 5);
  for (const auto chunk : load->chunk_ids)
    CHECK(std::ranges::all_of(engine->chunk(chunk), [](std::byte b) { return b == std::byte{7}; }));
  REQUIRE(engine->complete_load(load->lease).get());
  const auto summary = engine->request_finished(r).get();
  REQUIRE(summary);
  CHECK(summary->promoted_chunks == 5);
  CHECK(summary->loaded_chunks == 5);
  require_promises(*engine);
}

TEST_CASE("one answer, three ways to take it", "[engine]") {
  auto engine = start(small_config());
  const auto by_get = engine->new_request({.req_id = "get"}).get();
  CHECK(by_get);
  auto future = engine->new_request({.req_id = "future"}).future();
  CHECK(future.get());
  std::promise<bool> called;
  engine->new_request({.req_id = "then"}).then([&](Expected<OpenedRequest> r) { called.set_value(r.has_value()); });
  CHECK(called.get_future().get());
}

TEST_CASE("a full credit pool is an error at once, calls that end work need no credit", "[engine]") {
  TempDir dir;
  auto config = small_config();
  config.calls_max = 2;
  auto faults = std::make_shared<TierFaults>();
  config.secondary_tiers.push_back(fs_tier(dir.path, faults));
  auto engine = start(config);
  const auto r = *engine->new_request({.req_id = "r"}).get();
  store(*engine, r, keys('a', 1), std::byte{1}, true);
  const auto plan = engine->prepare_store(r, keys('b', 1)).get();
  REQUIRE(plan);
  REQUIRE(engine->reset().get());
  faults->hang = true;
  auto first = engine->lookup(r, keys('a', 1));
  auto second = engine->lookup(r, keys('a', 1));
  const auto third = engine->lookup(r, keys('a', 1)).get();
  CHECK(third.error().code == OffloadErrc::busy);
  CHECK(engine->complete_store(plan->lease).get());
  faults->hang = false;
  CHECK(std::move(first).get());
  CHECK(std::move(second).get());
  CHECK(engine->lookup(r, keys('a', 1)).get());
}

TEST_CASE("too many keys in one call are refused, not queued", "[engine]") {
  auto config = small_config();
  config.keys_max = 4;
  auto engine = start(config);
  const auto r = *engine->new_request({.req_id = "r"}).get();
  CHECK(engine->lookup(r, keys('a', 5)).get().error().code == OffloadErrc::invalid_argument);
  CHECK(engine->lookup(r, keys('a', 4)).get());
  CHECK(engine->lookup(r, {}).get()->results.empty());
}

TEST_CASE("calls after shutdown answer, and shutdown may come twice", "[engine]") {
  auto engine = start(small_config());
  const auto r = *engine->new_request({.req_id = "r"}).get();
  const auto plan = engine->prepare_store(r, keys('a', 1)).get();
  REQUIRE(plan);
  CHECK(engine->shutdown());
  CHECK(engine->shutdown());
  CHECK(engine->lookup(r, keys('a', 1)).get().error().code == OffloadErrc::shutting_down);
  CHECK(engine->complete_store(plan->lease).get().error().code == OffloadErrc::shutting_down);
}

TEST_CASE("a failed start leaves nothing behind and the configuration usable", "[engine]") {
  TempDir dir;
  auto config = small_config();
  config.secondary_tiers.push_back(fs_tier(dir.path));
  config.secondary_tiers.push_back(fs_tier(dir.path + "/missing"));
  (void)OffloadEngine::start(config);  // whatever the libraries open once and for all
  const auto before = open_descriptors();
  const auto failed = OffloadEngine::start(config);
  REQUIRE_FALSE(failed);
  CHECK(failed.error().detail.find("missing") != std::string::npos);
  CHECK(failed.error().detail.find('\n') == std::string::npos);
  CHECK(open_descriptors() == before);
  std::filesystem::create_directory(dir.path + "/missing");
  CHECK(start(config)->shutdown());
  CHECK(open_descriptors() == before);
}

TEST_CASE("a directory with rows of another length is refused at start, and nothing in it is touched", "[engine]") {
  TempDir dir;
  auto config = small_config();
  config.secondary_tiers.push_back(fs_tier(dir.path));
  {
    auto engine = start(config);
    const auto r = *engine->new_request({.req_id = "w"}).get();
    store(*engine, r, keys('a', 3), std::byte{7}, true);
  }
  auto other = config;
  other.chunk_bytes *= 2;
  other.cpu_bytes_to_use *= 2;
  const auto refused = OffloadEngine::start(other);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().detail.find("holds chunks of 16384 bytes, but a row here has 32768") != std::string::npos);
  auto engine = start(config);
  const auto r = *engine->new_request({.req_id = "r"}).get();
  CHECK(engine->lookup(r, keys('a', 3)).get()->leading_hits == 3);
}

TEST_CASE("a metrics port in use is one clear line", "[engine]") {
  auto config = small_config();
  config.metrics.port = 0;
  auto first = start(config);
  REQUIRE(first->metrics_port() > 0);
  config.metrics.port = first->metrics_port();
  const auto second = OffloadEngine::start(config);
  REQUIRE_FALSE(second);
  CHECK(second.error().detail.find("metrics.port") != std::string::npos);
}

TEST_CASE("a tier whose I/O thread is killed fails by deadline while the other serves, and shutdown ends", "[engine]") {
  TempDir dir;
  std::filesystem::create_directory(dir.path + "/1");
  std::filesystem::create_directory(dir.path + "/2");
  auto config = small_config();
  config.deadlines.load = config.deadlines.store = 1500ms;
  auto faults = std::make_shared<TierFaults>();
  config.secondary_tiers.push_back(fs_tier(dir.path + "/1", faults));
  config.secondary_tiers.push_back(fs_tier(dir.path + "/2"));
  auto engine = start(config);
  const auto r = *engine->new_request({.req_id = "r"}).get();
  faults->kill_lane = true;
  const auto k = keys('a', 3);
  const auto plan = engine->prepare_store(r, k).get();
  REQUIRE(plan);
  for (const auto chunk : plan->chunk_ids) std::ranges::fill(engine->chunk(chunk), std::byte{3});
  const auto outcome = engine->complete_store(plan->lease, {.wait_cascades = true}).get();
  REQUIRE(outcome);
  CHECK(outcome->chunks_stored == 3);  // the second tier
  CHECK(outcome->chunks_failed == 3);  // the first, by deadline
  REQUIRE(engine->reset().get());
  const auto found = engine->lookup(r, k).get();
  REQUIRE(found);
  CHECK(found->tier_hits == std::vector<std::uint32_t>{0, 0, 3});
  REQUIRE(engine->request_finished(r).get());
  require_promises(*engine);
  CHECK(engine->shutdown(5s));
}

TEST_CASE("many threads share one engine and every promise holds", "[engine]") {
  TempDir dir;
  auto config = small_config();
  config.secondary_tiers.push_back(fs_tier(dir.path));
  auto engine = start(config);
  std::atomic<int> wrong{0}, failed{0};
  std::vector<std::thread> threads;
  for (unsigned char t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (unsigned char round = 0; round < 25; ++round) {
        const auto name = static_cast<unsigned char>((t + round) % 12);
        const auto r = engine->new_request({.req_id = std::to_string(t) + "/" + std::to_string(round)}).get();
        if (!r) { ++failed; continue; }
        const auto k = keys(name, 10);
        const auto found = engine->lookup(*r, k).get();
        if (!found) { ++failed; continue; }
        if (const auto load = engine->prepare_load(*r, k).get()) {
          for (const auto chunk : load->chunk_ids)
            wrong += std::ranges::all_of(engine->chunk(chunk), [&](std::byte b) { return b == std::byte{name}; }) ? 0 : 1;
          failed += engine->complete_load(load->lease).get() ? 0 : 1;
        }
        if (const auto plan = engine->prepare_store(*r, k).get()) {
          for (const auto chunk : plan->chunk_ids) std::ranges::fill(engine->chunk(chunk), std::byte{name});
          failed += engine->complete_store(plan->lease).get() ? 0 : 1;
        }
        failed += engine->request_finished(*r).get() ? 0 : 1;
      }
    });
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(failed == 0);
  REQUIRE(engine->drain().get());
  require_promises(*engine);
}

TEST_CASE("set_revision makes older chunks unreachable", "[engine]") {
  TempDir dir;
  auto config = small_config();
  config.secondary_tiers.push_back(fs_tier(dir.path));
  auto engine = start(config);
  const auto r = *engine->new_request({.req_id = "r"}).get();
  store(*engine, r, keys('a', 2), std::byte{1}, true);
  const auto changed = engine->set_revision("weights-2").get();
  INFO((changed ? std::string() : to_string(changed.error())));
  REQUIRE(changed);
  CHECK(engine->lookup(r, keys('a', 2)).get()->leading_hits == 0);
  store(*engine, r, keys('a', 2), std::byte{2}, true);
  REQUIRE(engine->reset().get());
  CHECK(engine->lookup(r, keys('a', 2)).get()->leading_hits == 2);
  REQUIRE(engine->set_revision("").get());  // back to the public identity: the old chunks are there again
  CHECK(engine->lookup(r, keys('a', 2)).get()->leading_hits == 2);
}
