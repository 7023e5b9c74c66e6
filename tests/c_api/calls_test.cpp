// What the C ABI does when it is used as meant.
#include "kv_offload/tests/c_api/c_api_fixture.hpp"

#include <nlohmann/json.hpp>

#include <fstream>
#include <future>

using namespace kv_offload;
using namespace kv_offload::test;

TEST_CASE("bytes stored through the C ABI come back from a file tier", "[c_api]") {
  TempDir dir;
  CEngine engine(config_json(dir.path));
  CHECK(kvo_chunk_bytes(engine) == kChunkBytes);
  CHECK(kvo_num_chunks(engine) == 64);
  CHECK(kvo_metrics_port(engine) == 0);
  CHECK(kvo_failed_state(engine) == KVO_OK);
  const CKeys keys('a', 5);
  const auto writer = engine.request("writer");
  engine.store(writer, keys, 10);
  auto summary = sized<kvo_request_summary>();
  REQUIRE(kvo_request_finished(engine, writer, &summary) == KVO_OK);
  CHECK(summary.stored_chunks == 5);
  CHECK(summary.cascaded_chunks == 5);
  REQUIRE(kvo_drain(engine) == KVO_OK);
  REQUIRE(kvo_reset(engine) == KVO_OK);

  const auto reader = engine.request("reader");
  auto answer = sized<kvo_lookup_answer>();
  std::vector<std::uint8_t> results(keys.size(), 99);
  REQUIRE(kvo_lookup(engine, reader, keys.data(), keys.size(), nullptr, &answer, results.data()) == KVO_OK);
  CHECK(answer.leading_hits == 5);
  CHECK(answer.primary_hits == 0);
  CHECK(answer.tier_hits == 5);
  CHECK(answer.promoted == 5);
  CHECK(results == std::vector<std::uint8_t>(5, KVO_HIT));
  CHECK(kvo_allocated(engine, reader, 0) == KVO_OK);
  CHECK(kvo_touch(engine, reader, keys.data(), keys.size()) == KVO_OK);
  CHECK(engine.load(reader, keys, 10) == 5);
  CHECK(kvo_request_finished(engine, reader, nullptr) == KVO_OK);
}

TEST_CASE("what is not there is a miss, and a dropped store leaves nothing", "[c_api]") {
  CEngine engine;
  const CKeys keys('a', 3);
  const auto r = engine.request("r");
  auto plan = sized<kvo_store_plan>();
  std::uint32_t key_idx[3], chunks[3];
  REQUIRE(kvo_prepare_store(engine, r, keys.data(), 3, nullptr, &plan, key_idx, chunks) == KVO_OK);
  CHECK(plan.num_chunks == 3);
  auto outcome = sized<kvo_store_outcome>();
  REQUIRE(kvo_complete_store(engine, plan.lease, KVO_STORE_FAILED, &outcome) == KVO_OK);
  CHECK(outcome.published == 0);
  std::uint8_t results[3] = {9, 9, 9};
  auto answer = sized<kvo_lookup_answer>();
  REQUIRE(kvo_lookup(engine, r, keys.data(), 3, nullptr, &answer, results) == KVO_OK);
  CHECK(answer.leading_hits == 0);
  for (const auto result : results) CHECK(result == KVO_MISS);
  CHECK(engine.load(r, keys, 1) == 0);
}

TEST_CASE("lookup flags choose scan and hold", "[c_api]") {
  CEngine engine;
  const CKeys keys('a', 3);
  const auto writer = engine.request("writer");
  CKeys outer('a', 3);
  outer.keys.erase(outer.keys.begin() + 1);
  engine.store(writer, outer, 1);
  const auto held = [&] {
    char* text = nullptr;
    REQUIRE(kvo_stats_json(engine, &text) == KVO_OK);
    const int n = nlohmann::json::parse(text)["primary"]["held"];
    kvo_free_text(text);
    return n;
  };
  const auto r = engine.request("r");
  auto options = sized<kvo_lookup_options>();
  std::uint8_t results[3] = {9, 9, 9};
  auto answer = sized<kvo_lookup_answer>();
  options.flags = KVO_NO_HOLD;
  REQUIRE(kvo_lookup(engine, r, keys.data(), 3, &options, &answer, results) == KVO_OK);
  CHECK(std::vector<int>(results, results + 3) == std::vector<int>{KVO_HIT, KVO_MISS, KVO_MISS});
  CHECK(answer.leading_hits == 1);
  CHECK(held() == 0);
  options.flags = KVO_SCAN_WINDOW | KVO_WAIT_RESOLVED;
  REQUIRE(kvo_lookup(engine, r, keys.data(), 3, &options, &answer, results) == KVO_OK);
  CHECK(std::vector<int>(results, results + 3) == std::vector<int>{KVO_HIT, KVO_MISS, KVO_HIT});
  CHECK(held() == 2);
}

TEST_CASE("an asynchronous lookup calls back once with the same answer", "[c_api]") {
  CEngine engine;
  const CKeys keys('a', 4);
  const auto r = engine.request("r");
  engine.store(r, keys, 1);
  struct Seen {
    std::promise<std::pair<int, std::uint32_t>> done;
    std::vector<std::uint8_t> results;
  } seen;
  const auto callback = [](void* user, int code, const char*, const kvo_lookup_answer* answer, const std::uint8_t* results,
                           std::size_t n) {
    auto& s = *static_cast<Seen*>(user);
    s.results.assign(results, results + n);
    s.done.set_value({code, answer->leading_hits});  // a second call would throw, and end the test by the count below
  };
  auto future = seen.done.get_future();
  REQUIRE(kvo_lookup_async(engine, r, keys.data(), keys.size(), nullptr, callback, &seen) == KVO_OK);
  CHECK(future.get() == std::pair<int, std::uint32_t>(KVO_OK, 4));
  CHECK(seen.results == std::vector<std::uint8_t>(4, KVO_HIT));
}

TEST_CASE("a prefetch brings chunks back from a file tier, and a lookup gives up when it is told to", "[c_api]") {
  TempDir dir;
  CEngine engine(config_json(dir.path));
  const CKeys keys('a', 3);
  const auto writer = engine.request("writer");
  engine.store(writer, keys, 1);
  REQUIRE(kvo_drain(engine) == KVO_OK);
  REQUIRE(kvo_reset(engine) == KVO_OK);
  auto prefetch = sized<kvo_prefetch_options>();
  prefetch.mode = KVO_PREFETCH_COMPLETE;
  auto answer = sized<kvo_lookup_answer>();
  const auto r = engine.request("r");
  REQUIRE(kvo_prefetch(engine, r, keys.data(), keys.size(), &prefetch, &answer) == KVO_OK);
  CHECK(answer.leading_hits == 3);
  CHECK(answer.promoted == 3);
  const CKeys written('b', 1);
  auto plan = sized<kvo_store_plan>();
  std::uint32_t idx[1], chunk[1];
  REQUIRE(kvo_prepare_store(engine, writer, written.data(), 1, nullptr, &plan, idx, chunk) == KVO_OK);
  auto options = sized<kvo_lookup_options>();
  options.give_up_ms = 1;
  REQUIRE(kvo_lookup(engine, r, written.data(), 1, &options, &answer, nullptr) == KVO_OK);
  CHECK(answer.gave_up == 1);
  REQUIRE(kvo_complete_store(engine, plan.lease, KVO_STORE_FAILED, nullptr) == KVO_OK);
}

TEST_CASE("tenants do not meet, and what is forgotten is gone", "[c_api]") {
  TempDir dir;
  CEngine engine(config_json(dir.path));
  auto options = sized<kvo_request_options>();
  options.req_id = "of a tenant";
  options.tenant = "tenant";
  kvo_request salted = 0;
  int policy = -1;
  REQUIRE(kvo_new_request(engine, &options, &salted, &policy) == KVO_OK);
  CHECK(policy == KVO_CHUNK_LEVEL);
  const auto plain = engine.request("of nobody");
  const CKeys keys('a', 2);
  engine.store(salted, keys, 1);
  auto answer = sized<kvo_lookup_answer>();
  REQUIRE(kvo_lookup(engine, plain, keys.data(), 2, nullptr, &answer, nullptr) == KVO_OK);
  CHECK(answer.leading_hits == 0);
  engine.store(plain, keys, 2);
  auto forgotten = sized<kvo_forget_summary>();
  REQUIRE(kvo_forget_tenant(engine, "tenant", &forgotten) == KVO_OK);
  CHECK(forgotten.primary_chunks == 2);
  CHECK(forgotten.tier_chunks == 2);
  REQUIRE(kvo_lookup(engine, salted, keys.data(), 2, nullptr, &answer, nullptr) == KVO_OK);
  CHECK(answer.leading_hits == 0);
  REQUIRE(kvo_forget(engine, keys.data(), 1, nullptr, &forgotten) == KVO_OK);
  CHECK(forgotten.primary_chunks == 1);
  REQUIRE(kvo_lookup(engine, plain, keys.data() + 1, 1, nullptr, &answer, nullptr) == KVO_OK);
  CHECK(answer.leading_hits == 1);
  REQUIRE(kvo_set_revision(engine, "r2") == KVO_OK);
  const auto later = engine.request("after the update");
  REQUIRE(kvo_lookup(engine, later, keys.data() + 1, 1, nullptr, &answer, nullptr) == KVO_OK);
  CHECK(answer.leading_hits == 0);
}

TEST_CASE("the counters come as JSON and agree with what was done", "[c_api]") {
  TempDir dir;
  CEngine engine(config_json(dir.path));
  const auto r = engine.request("r");
  engine.store(r, CKeys('a', 3), 1);
  char* text = nullptr;
  REQUIRE(kvo_stats_json(engine, &text) == KVO_OK);
  const auto stats = nlohmann::json::parse(text);
  kvo_free_text(text);
  kvo_free_text(nullptr);
  CHECK(stats["requests"]["live"] == 1);
  CHECK(stats["primary"]["chunks"] == 64);
  CHECK(stats["primary"]["resident"] == 3);
  CHECK(stats["primary"]["stored_chunks"] == 3);
  CHECK(stats["leases_open"] == 0);
  CHECK(stats["tiers"]["1:fs"]["stored_chunks"] == 3);
  CHECK(stats["tiers"]["1:fs"]["store_failed_chunks"].empty());
}

TEST_CASE("a step-driven caller polls until its chunks have landed", "[c_api]") {
  TempDir dir;
  CEngine engine(config_json(dir.path));
  const CKeys keys('a', 2);
  const auto writer = engine.request("writer");
  engine.store(writer, keys, 1);
  REQUIRE(kvo_request_finished(engine, writer, nullptr) == KVO_OK);
  REQUIRE(kvo_reset(engine) == KVO_OK);
  const auto r = engine.request("reader");
  auto options = sized<kvo_lookup_options>();
  options.flags = KVO_WAIT_POLLED;
  std::uint8_t results[2] = {};
  for (int step = 0; step < 20000 && results[1] != KVO_HIT; ++step) {
    REQUIRE(kvo_step_begin(engine) == KVO_OK);
    REQUIRE(kvo_lookup(engine, r, keys.data(), 2, &options, nullptr, results) == KVO_OK);
    REQUIRE(kvo_step_end(engine, results[1] == KVO_HIT ? &r : nullptr, results[1] == KVO_HIT ? 1 : 0, nullptr, 0) == KVO_OK);
  }
  CHECK(results[0] == KVO_HIT);
  CHECK(results[1] == KVO_HIT);
  CHECK(engine.load(r, keys, 1) == 2);
  int pending = -1;
  CHECK(kvo_has_pending_work(engine, &pending) == KVO_OK);
  CHECK((pending == 0 || pending == 1));
}

TEST_CASE("a configuration comes from a file as well, and its faults name the field", "[c_api]") {
  TempDir dir;
  const auto file = dir.path + "/engine.json";
  std::ofstream(file) << config_json();
  auto options = sized<kvo_start_options>();
  options.config_file = file.c_str();
  kvo_engine* engine = nullptr;
  REQUIRE(kvo_start(&options, &engine) == KVO_OK);
  CHECK(kvo_destroy(engine) == KVO_OK);

  std::ofstream(file) << R"({"chunk_bytes": 4096, "cpu_bytes_to_use": -1})";
  CHECK(kvo_start(&options, &engine) == KVO_INVALID_CONFIG);
  CHECK(engine == nullptr);
  CHECK_THAT(kvo_error_text(), Catch::Contains("cpu_bytes_to_use"));
  const auto missing = dir.path + "/missing.json";
  options.config_file = missing.c_str();
  CHECK(kvo_start(&options, &engine) != KVO_OK);
  CHECK_THAT(kvo_error_text(), Catch::Contains("missing.json"));
}
