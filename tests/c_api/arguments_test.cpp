// Bad arguments get a defined answer that says what was wrong.
#include "kv_offload/tests/c_api/c_api_fixture.hpp"

#include <functional>

using namespace kv_offload;
using namespace kv_offload::test;

namespace {

void never(void*, int, const char*, const kvo_lookup_answer*, const std::uint8_t*, std::size_t) {
  FAIL("a call that was refused called back");
}

}  // namespace

TEST_CASE("every call on no engine is refused", "[c_api]") {
  char* text = nullptr;
  kvo_request request = 7;
  int number = 0;
  auto plan = sized<kvo_store_plan>();
  auto load = sized<kvo_load_plan>();
  std::uint32_t ids[1];
  const CKeys keys('a', 1);
  auto options = sized<kvo_request_options>();
  options.req_id = "r";
  const std::vector<std::function<int()>> calls = {
      [&] { return kvo_shutdown(nullptr, 0); },
      [&] { return kvo_failed_state(nullptr); },
      [&] { return kvo_stats_json(nullptr, &text); },
      [&] { return kvo_drain(nullptr); },
      [&] { return kvo_reset(nullptr); },
      [&] { return kvo_set_revision(nullptr, "r"); },
      [&] { return kvo_forget(nullptr, keys.data(), 1, nullptr, nullptr); },
      [&] { return kvo_forget_tenant(nullptr, "t", nullptr); },
      [&] { return kvo_new_request(nullptr, &options, &request, nullptr); },
      [&] { return kvo_allocated(nullptr, 1, 0); },
      [&] { return kvo_touch(nullptr, 1, keys.data(), 1); },
      [&] { return kvo_abort(nullptr, 1); },
      [&] { return kvo_request_finished(nullptr, 1, nullptr); },
      [&] { return kvo_lookup(nullptr, 1, keys.data(), 1, nullptr, nullptr, nullptr); },
      [&] { return kvo_lookup_async(nullptr, 1, keys.data(), 1, nullptr, never, nullptr); },
      [&] { return kvo_prefetch(nullptr, 1, keys.data(), 1, nullptr, nullptr); },
      [&] { return kvo_prepare_store(nullptr, 1, keys.data(), 1, nullptr, &plan, ids, ids); },
      [&] { return kvo_complete_store(nullptr, 1, 0, nullptr); },
      [&] { return kvo_prepare_load(nullptr, 1, keys.data(), 1, &load, ids); },
      [&] { return kvo_complete_load(nullptr, 1); },
      [&] { return kvo_step_begin(nullptr); },
      [&] { return kvo_step_end(nullptr, nullptr, 0, nullptr, 0); },
      [&] { return kvo_has_pending_work(nullptr, &number); },
  };
  for (std::size_t i = 0; i < calls.size(); ++i) {
    INFO("call " << i);
    CHECK(calls[i]() == KVO_INVALID_ARGUMENT);
    CHECK_THAT(kvo_error_text(), Catch::Contains("engine: NULL"));
  }
  CHECK(kvo_destroy(nullptr) == KVO_OK);
  CHECK(kvo_chunk_bytes(nullptr) == 0);
  CHECK(kvo_num_chunks(nullptr) == 0);
  CHECK(kvo_metrics_port(nullptr) == 0);
  CHECK(kvo_chunk(nullptr, 0) == nullptr);
}

TEST_CASE("a start without options, place or configuration is refused", "[c_api]") {
  auto options = sized<kvo_start_options>();
  options.config_json = "{}";
  auto* engine = reinterpret_cast<kvo_engine*>(&options);
  CHECK(kvo_start(&options, nullptr) == KVO_INVALID_ARGUMENT);
  CHECK(kvo_start(nullptr, &engine) == KVO_INVALID_ARGUMENT);
  CHECK(engine == nullptr);
  options.config_file = "both";
  CHECK(kvo_start(&options, &engine) == KVO_INVALID_ARGUMENT);
  options.config_json = options.config_file = nullptr;
  CHECK(kvo_start(&options, &engine) == KVO_INVALID_ARGUMENT);
  CHECK_THAT(kvo_error_text(), Catch::Contains("config_json"));
  options.config_json = "not json \xff\xfe";
  CHECK(kvo_start(&options, &engine) == KVO_INVALID_CONFIG);
  CHECK(engine == nullptr);
}

TEST_CASE("keys without bytes, of a wrong length or too many are named", "[c_api]") {
  CEngine engine(config_json({}, R"("keys_max": 4)"));
  const auto r = engine.request("r");
  CKeys keys('a', 5);
  const auto lookup = [&](const kvo_key* k, std::size_t n) { return kvo_lookup(engine, r, k, n, nullptr, nullptr, nullptr); };
  CHECK(lookup(nullptr, 0) == KVO_OK);
  CHECK(lookup(nullptr, 1) == KVO_INVALID_ARGUMENT);
  CHECK(lookup(keys.data(), 5) == KVO_INVALID_ARGUMENT);
  CHECK_THAT(kvo_error_text(), Catch::Contains("keys_max (4)"));
  CHECK(lookup(keys.data(), static_cast<std::size_t>(-1)) == KVO_INVALID_ARGUMENT);
  keys.keys[2].hash_size = 0;
  CHECK(lookup(keys.data(), 4) == KVO_INVALID_ARGUMENT);
  keys.keys[2].hash_size = 65;
  CHECK(lookup(keys.data(), 4) == KVO_INVALID_ARGUMENT);
  CHECK(std::string(kvo_error_text()) == "keys[2].hash_size: 65 is not allowed; expected 1 to 64");
  keys.keys[2].hash_size = 0xffffffff;
  CHECK(lookup(keys.data(), 4) == KVO_INVALID_ARGUMENT);
  keys.keys[2].hash = nullptr;
  CHECK(kvo_touch(engine, r, keys.data(), 4) == KVO_INVALID_ARGUMENT);
  CHECK_THAT(kvo_error_text(), Catch::Contains("keys[2].hash: NULL"));
  CHECK(kvo_lookup_async(engine, r, keys.data(), 4, nullptr, never, nullptr) == KVO_INVALID_ARGUMENT);
  CHECK(kvo_forget(engine, keys.data(), 4, nullptr, nullptr) == KVO_INVALID_ARGUMENT);
}

TEST_CASE("missing places for answers are refused before anything is reserved", "[c_api]") {
  CEngine engine;
  const auto r = engine.request("r");
  const CKeys keys('a', 1);
  auto plan = sized<kvo_store_plan>();
  auto load = sized<kvo_load_plan>();
  std::uint32_t ids[1];
  CHECK(kvo_prepare_store(engine, r, keys.data(), 1, nullptr, nullptr, ids, ids) == KVO_INVALID_ARGUMENT);
  CHECK(kvo_prepare_store(engine, r, keys.data(), 1, nullptr, &plan, nullptr, ids) == KVO_INVALID_ARGUMENT);
  CHECK(kvo_prepare_store(engine, r, keys.data(), 1, nullptr, &plan, ids, nullptr) == KVO_INVALID_ARGUMENT);
  CHECK(kvo_prepare_load(engine, r, keys.data(), 1, nullptr, ids) == KVO_INVALID_ARGUMENT);
  CHECK(kvo_prepare_load(engine, r, keys.data(), 1, &load, nullptr) == KVO_INVALID_ARGUMENT);
  CHECK(kvo_lookup_async(engine, r, keys.data(), 1, nullptr, nullptr, nullptr) == KVO_INVALID_ARGUMENT);
  CHECK(kvo_stats_json(engine, nullptr) == KVO_INVALID_ARGUMENT);
  CHECK(kvo_has_pending_work(engine, nullptr) == KVO_INVALID_ARGUMENT);
  CHECK(kvo_step_end(engine, nullptr, 1, nullptr, 0) == KVO_INVALID_ARGUMENT);
  CHECK(kvo_step_end(engine, &r, static_cast<std::size_t>(-1), nullptr, 0) == KVO_INVALID_ARGUMENT);
  CHECK(kvo_set_revision(engine, nullptr) == KVO_INVALID_ARGUMENT);
  CHECK(kvo_forget_tenant(engine, nullptr, nullptr) == KVO_INVALID_ARGUMENT);
  auto options = sized<kvo_request_options>();
  kvo_request made = 5;
  CHECK(kvo_new_request(engine, &options, &made, nullptr) == KVO_INVALID_ARGUMENT);
  CHECK(made == 0);
  CHECK(kvo_new_request(engine, nullptr, &made, nullptr) == KVO_INVALID_ARGUMENT);
  CHECK(kvo_new_request(engine, &options, nullptr, nullptr) == KVO_INVALID_ARGUMENT);
  char* text = nullptr;
  REQUIRE(kvo_stats_json(engine, &text) == KVO_OK);
  CHECK_THAT(text, Catch::Contains("\"leases_open\":0"));
  kvo_free_text(text);
}

TEST_CASE("handles that never were are unknown, whatever their bits", "[c_api]") {
  CEngine engine;
  const auto r = engine.request("r");
  auto options = sized<kvo_request_options>();
  options.req_id = "r";
  kvo_request again = 0;
  CHECK(kvo_new_request(engine, &options, &again, nullptr) == KVO_DUPLICATE_REQUEST);
  CHECK(kvo_request_finished(engine, r, nullptr) == KVO_OK);
  for (const kvo_request stale : {kvo_request{0}, r, ~kvo_request{0}, kvo_request{1} << 48, kvo_request{12345}}) {
    INFO(stale);
    CHECK(kvo_lookup(engine, stale, nullptr, 0, nullptr, nullptr, nullptr) == KVO_UNKNOWN_REQUEST);
    CHECK(kvo_request_finished(engine, stale, nullptr) == KVO_UNKNOWN_REQUEST);
    CHECK(kvo_complete_load(engine, stale) == KVO_UNKNOWN_LEASE);
    CHECK(kvo_complete_store(engine, stale, 0, nullptr) == KVO_UNKNOWN_LEASE);
  }
  CHECK(kvo_chunk(engine, kvo_num_chunks(engine)) == nullptr);
  CHECK(kvo_chunk(engine, 0xffffffff) == nullptr);
  CHECK(kvo_chunk(engine, 0) != nullptr);
}

TEST_CASE("a struct that does not say its size is refused", "[c_api]") {
  CEngine engine;
  const auto r = engine.request("r");
  for (const std::size_t size : {std::size_t{0}, std::size_t{8}, std::size_t{4097}, static_cast<std::size_t>(-1)}) {
    INFO(size);
    auto request = sized<kvo_request_options>();
    auto lookup = sized<kvo_lookup_options>();
    auto answer = sized<kvo_lookup_answer>();
    auto summary = sized<kvo_request_summary>();
    request.req_id = "other";
    request.struct_size = lookup.struct_size = answer.struct_size = summary.struct_size = size;
    kvo_request made = 0;
    CHECK(kvo_new_request(engine, &request, &made, nullptr) == KVO_INVALID_ARGUMENT);
    CHECK_THAT(kvo_error_text(), Catch::Contains("options.struct_size: " + std::to_string(size)));
    CHECK(kvo_lookup(engine, r, nullptr, 0, &lookup, nullptr, nullptr) == KVO_INVALID_ARGUMENT);
    CHECK(kvo_lookup(engine, r, nullptr, 0, nullptr, &answer, nullptr) == KVO_INVALID_ARGUMENT);
    CHECK(kvo_request_finished(engine, r, &summary) == KVO_INVALID_ARGUMENT);
  }
  CHECK(kvo_request_finished(engine, r, nullptr) == KVO_OK);
}

TEST_CASE("flags and fields of a later version are unsupported, not ignored", "[c_api]") {
  CEngine engine;
  const auto r = engine.request("r");
  auto lookup = sized<kvo_lookup_options>();
  lookup.flags = 1u << 20;
  CHECK(kvo_lookup(engine, r, nullptr, 0, &lookup, nullptr, nullptr) == KVO_UNSUPPORTED);
  lookup.flags = KVO_WAIT_POLLED | KVO_WAIT_RESOLVED;
  CHECK(kvo_lookup(engine, r, nullptr, 0, &lookup, nullptr, nullptr) == KVO_INVALID_ARGUMENT);
  CHECK(kvo_complete_store(engine, 1, 1u << 9, nullptr) == KVO_UNSUPPORTED);

  struct Later {
    kvo_lookup_options known;
    std::uint64_t added;
  } later{};
  later.known.struct_size = sizeof(later);
  CHECK(kvo_lookup(engine, r, nullptr, 0, &later.known, nullptr, nullptr) == KVO_OK);
  later.added = 1;
  CHECK(kvo_lookup(engine, r, nullptr, 0, &later.known, nullptr, nullptr) == KVO_UNSUPPORTED);
  CHECK_THAT(kvo_error_text(), Catch::Contains(kvo_version()));

  struct LaterAnswer {
    kvo_lookup_answer known;
    std::uint64_t added;
  } answer{};
  answer.known.struct_size = sizeof(answer);
  answer.added = 77;
  CHECK(kvo_lookup(engine, r, nullptr, 0, nullptr, &answer.known, nullptr) == KVO_OK);
  CHECK(answer.added == 0);
  CHECK(answer.known.struct_size == sizeof(answer));
}

TEST_CASE("structs are as long as they were, and a caller of ABI 1 is understood", "[c_api]") {
  CHECK(kvo_abi_version() == KVO_ABI_VERSION);
  CHECK(sizeof(kvo_key) == 16);
  CHECK(sizeof(kvo_start_options) == 40);
  CHECK(sizeof(kvo_request_options) == 56);
  CHECK(sizeof(kvo_request_summary) == 72);
  CHECK(sizeof(kvo_lookup_options) == 40);
  CHECK(sizeof(kvo_prefetch_options) == 40);
  CHECK(sizeof(kvo_lookup_answer) == 64);
  CHECK(sizeof(kvo_store_options) == 24);
  CHECK(sizeof(kvo_store_plan) == 32);
  CHECK(sizeof(kvo_store_outcome) == 32);
  CHECK(sizeof(kvo_load_plan) == 24);
  CHECK(sizeof(kvo_forget_summary) == 32);

  CEngine engine;
  auto request = sized<kvo_request_options>();
  request.struct_size = 40;
  request.req_id = "r";
  request.priority = std::int64_t{1} << 40;  // beyond its size: somebody else's bytes
  kvo_request r = 0;
  REQUIRE(kvo_new_request(engine, &request, &r, nullptr) == KVO_OK);
  auto lookup = sized<kvo_lookup_options>();
  lookup.struct_size = 32;
  lookup.give_up_ms = ~std::uint64_t{0};
  CHECK(kvo_lookup(engine, r, nullptr, 0, &lookup, nullptr, nullptr) == KVO_OK);
}

TEST_CASE("priorities that are none and prefetches that make no sense are refused", "[c_api]") {
  CEngine engine;
  auto request = sized<kvo_request_options>();
  request.req_id = "r";
  request.priority = std::int64_t{1} << 31;
  kvo_request r = 0;
  CHECK(kvo_new_request(engine, &request, &r, nullptr) == KVO_INVALID_ARGUMENT);
  CHECK_THAT(kvo_error_text(), Catch::Contains("options.priority"));
  request.priority = -(std::int64_t{1} << 31);
  request.domain = 2;  // there is one
  CHECK(kvo_new_request(engine, &request, &r, nullptr) == KVO_INVALID_ARGUMENT);
  CHECK_THAT(kvo_error_text(), Catch::Contains("domain"));
  request.domain = 1ULL << 40;
  CHECK(kvo_new_request(engine, &request, &r, nullptr) == KVO_INVALID_ARGUMENT);
  CHECK_THAT(kvo_error_text(), Catch::Contains("options.domain"));
  request.domain = 1;
  REQUIRE(kvo_new_request(engine, &request, &r, nullptr) == KVO_OK);
  auto prefetch = sized<kvo_prefetch_options>();
  const auto answer = [&] { return kvo_prefetch(engine, r, nullptr, 0, &prefetch, nullptr); };
  CHECK(answer() == KVO_OK);
  prefetch.mode = KVO_PREFETCH_TIMEOUT;
  CHECK(answer() == KVO_INVALID_ARGUMENT);
  prefetch.timeout_ms = ~std::uint64_t{0};
  CHECK(answer() == KVO_OK);
  prefetch.mode = KVO_PREFETCH_COMPLETE;
  CHECK(answer() == KVO_INVALID_ARGUMENT);
  prefetch.timeout_ms = 0;
  prefetch.flags = KVO_SCAN_WINDOW;
  CHECK(answer() == KVO_UNSUPPORTED);
  prefetch.flags = 0;
  prefetch.mode = 3;
  CHECK(answer() == KVO_UNSUPPORTED);
  prefetch.struct_size = 32;
  CHECK(answer() == KVO_INVALID_ARGUMENT);
}

TEST_CASE("every code has a name, and numbers of nobody have one, too", "[c_api]") {
  CHECK(kvo_code_name(KVO_OK) == std::string("ok"));
  CHECK(kvo_code_name(KVO_NO_SPACE) == std::string("no_space"));
  CHECK(kvo_code_name(KVO_UNSUPPORTED) == std::string("unsupported"));
  for (int code = KVO_OK; code <= KVO_UNCLEAN; ++code) CHECK(kvo_code_name(code) != std::string("unknown"));
  CHECK(kvo_code_name(-1) == std::string("unknown"));
  CHECK(kvo_code_name(KVO_UNCLEAN + 1) == std::string("unknown"));
}
