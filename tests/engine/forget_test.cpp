// Forgetting, with real files.
#include "kv_offload/tests/support/engine_fixture.hpp"

#include <thread>

using namespace kv_offload;
using namespace kv_offload::test;

namespace {

std::size_t chunk_files(const std::string& root) {
  std::size_t n = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root))
    n += entry.path().extension() == ".bin" ? 1U : 0U;
  return n;
}

}  // namespace

TEST_CASE("a forgotten chunk's file is gone, the others stay", "[engine]") {
  TempDir dir;
  auto config = small_config();
  config.secondary_tiers.push_back(fs_tier(dir.path));
  auto engine = start(config);
  const auto r = *engine->new_request({.req_id = "r"}).get();
  const auto k = keys('a', 5);
  store(*engine, r, k, std::byte{1}, true);
  REQUIRE(chunk_files(dir.path) == 5);
  const auto summary = engine->forget({k[1], k[3], keys('z', 1)[0]}).get();
  REQUIRE(summary);
  CHECK(summary->primary_chunks == 2);
  CHECK(summary->tier_chunks == 2);
  CHECK(summary->not_forgotten.empty());
  CHECK(chunk_files(dir.path) == 3);
  const auto found = engine->lookup(r, k, {.scan = LookupScan::window}).get();
  REQUIRE(found);
  CHECK(found->results == std::vector<LookupResult>{LookupResult::hit, LookupResult::miss, LookupResult::hit,
                                                    LookupResult::miss, LookupResult::hit});
  REQUIRE(engine->request_finished(r).get());
  require_promises(*engine);
}

TEST_CASE("a tenant's files are forgotten across engines, and nobody else's", "[engine]") {
  TempDir dir;
  auto config = small_config();
  config.secondary_tiers.push_back(fs_tier(dir.path));
  const auto k = keys('a', 3);
  {
    auto engine = start(config);
    for (const char* tenant : {"acme", "blue", ""}) {
      const auto r = *engine->new_request({.req_id = std::string("w") + tenant, .tenant = tenant}).get();
      store(*engine, r, k, std::byte{2}, true);
      REQUIRE(engine->request_finished(r).get());
    }
    CHECK(chunk_files(dir.path) == 9);
  }
  auto engine = start(config);
  const auto summary = engine->forget_tenant("acme").get();
  REQUIRE(summary);
  CHECK(summary->primary_chunks == 0);
  CHECK(summary->tier_chunks == 3);
  CHECK(chunk_files(dir.path) == 6);
  for (const auto& [tenant, hits] : {std::pair("acme", 0U), std::pair("blue", 3U), std::pair("", 3U)}) {
    INFO("tenant \"" << tenant << '"');
    const auto r = *engine->new_request({.req_id = std::string("r") + tenant, .tenant = tenant}).get();
    CHECK(engine->lookup(r, k).get()->leading_hits == hits);
    REQUIRE(engine->request_finished(r).get());
  }
  require_promises(*engine);
}

TEST_CASE("a file that cannot be removed is named", "[engine]") {
  TempDir dir;
  auto config = small_config();
  config.secondary_tiers.push_back(fs_tier(dir.path));
  auto engine = start(config);
  const auto r = *engine->new_request({.req_id = "r"}).get();
  const auto k = keys('a', 1);
  store(*engine, r, k, std::byte{1}, true);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir.path))
    if (entry.path().extension() == ".bin") {  // a directory in its place: not even root can unlink it
      const auto path = entry.path();
      std::filesystem::remove(path);
      std::filesystem::create_directory(path);
      break;
    }
  const auto summary = engine->forget(k).get();
  REQUIRE(summary);
  REQUIRE(summary->not_forgotten.size() == 1);
  CHECK(summary->not_forgotten[0].find("1:fs: " + dir.path) == 0);
  CHECK(summary->not_forgotten[0].find("Is a directory") != std::string::npos);
}

TEST_CASE("the polling view serves files, too", "[engine]") {
  TempDir dir;
  auto config = small_config();
  config.secondary_tiers.push_back(fs_tier(dir.path));
  const auto k = keys('a', 3);
  {
    auto engine = start(config);
    const auto w = *engine->new_request({.req_id = "w"}).get();
    store(*engine, w, k, std::byte{5}, true);
    REQUIRE(engine->request_finished(w).get());
  }
  auto engine = start(config);
  const auto r = *engine->new_request({.req_id = "r"}).get();
  std::size_t retries = 0, pending = 0;
  LookupAnswer answer;
  for (int step = 0; step < 2000; ++step) {
    REQUIRE(engine->step_begin().get());
    answer = *engine->lookup(r, k, {.wait = LookupWait::polled}).get();
    retries += answer.results[0] == LookupResult::retry ? 1U : 0U;
    pending += answer.results[0] == LookupResult::hit_pending ? 1U : 0U;
    REQUIRE(engine->step_end({}).get());
    if (answer.results == std::vector<LookupResult>(3, LookupResult::hit)) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CHECK(answer.leading_hits == 3);
  CHECK(retries > 0);
  CHECK(pending > 0);
  const auto load = engine->prepare_load(r, k).get();
  REQUIRE(load->chunk_ids.size() == 3);
  for (const auto chunk : load->chunk_ids)
    CHECK(std::ranges::all_of(engine->chunk(chunk), [](std::byte b) { return b == std::byte{5}; }));
  REQUIRE(engine->complete_load(load->lease).get());
  REQUIRE(engine->request_finished(r).get());
  CHECK_FALSE(*engine->has_pending_work().get());
  require_promises(*engine);
}
