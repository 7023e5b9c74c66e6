#include "kv_offload/actors/transfer_params.hpp"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

// kv_transfer_params as clients send them: read, or ignored with a name for what was wrong.
using namespace kv_offload;

namespace {

NewRequest read(std::string json) {
  NewRequest request;
  request.req_id = "r";
  request.kv_transfer_params = std::move(json);
  read_transfer_params(request);
  return request;
}
using Faults = std::vector<TransferParamFault>;
const TierTraits kLocalStorage{"fs", Medium::storage, Locality::local};
const TierTraits kRemoteStorage{"obj", Medium::storage, Locality::remote};
const TierTraits kUnplaced{"p2p", std::nullopt, std::nullopt};

}  // namespace

TEST_CASE("kv_load_tiers allows what any entry matches", "[conformance]") {
  const auto r = read(R"({"kv_load_tiers": [{"medium": "STORAGE", "locality": "REMOTE"}]})");
  CHECK(r.param_faults.empty());
  CHECK_FALSE(r.load_tiers.allows(kLocalStorage));
  CHECK(r.load_tiers.allows(kRemoteStorage));
  CHECK(r.load_tiers.allows(kUnplaced));  // a missing side matches everything
  CHECK(read(R"({"kv_load_tiers": [{"locality": "local"}, "remote"]})").load_tiers.allows(kRemoteStorage));
  CHECK_FALSE(read(R"({"kv_load_tiers": [{"medium": "cpu"}]})").load_tiers.allows(kLocalStorage));
  CHECK(read(R"({"kv_load_tiers": [{}]})").load_tiers.allows(kLocalStorage));
}

TEST_CASE("kv_load_tiers: absent allows all, an empty list none", "[conformance]") {
  CHECK(read("").load_tiers.is_all());
  CHECK(read("{}").load_tiers.is_all());
  CHECK(read(R"({"kv_load_tiers": null})").load_tiers.is_all());
  const auto none = read(R"({"kv_load_tiers": []})");
  CHECK(none.param_faults.empty());
  CHECK_FALSE(none.load_tiers.allows(kLocalStorage));
  CHECK_FALSE(none.load_tiers.allows(kUnplaced));
}

TEST_CASE("a kv_load_tiers that is no list, or has no valid entry, allows all and is reported", "[conformance]") {
  for (const char* json : {R"({"kv_load_tiers": "LOCAL"})", R"({"kv_load_tiers": 3})",
                           R"({"kv_load_tiers": {"medium": "CPU"}})", R"({"kv_load_tiers": ["TAPE"]})",
                           R"({"kv_load_tiers": [{"medium": "TAPE"}, {"place": "LOCAL"}, 7, null]})"}) {
    INFO(json);
    const auto r = read(json);
    CHECK(r.load_tiers.is_all());
    CHECK(r.param_faults == Faults{TransferParamFault::kv_load_tiers});
  }
}

TEST_CASE("a bad kv_load_tiers entry is skipped and reported, the others count", "[conformance]") {
  const auto r = read(R"({"kv_load_tiers": [{"medium": "TAPE"}, {"locality": "REMOTE"}]})");
  CHECK(r.param_faults == Faults{TransferParamFault::kv_load_tiers});
  CHECK(r.load_tiers.allows(kRemoteStorage));
  CHECK_FALSE(r.load_tiers.allows(kLocalStorage));
}

TEST_CASE("token limits are whole numbers from 0, anything else is ignored and reported", "[conformance]") {
  const auto good = read(R"({"max_offload_tokens": 4096, "max_load_tokens": 0})");
  CHECK(good.max_offload_tokens == 4096U);
  CHECK(good.max_load_tokens == 0U);
  CHECK(good.param_faults.empty());
  for (const char* value : {"-1", "1.5", "\"100\"", "true", "[1]", "{}", "1e99"}) {
    INFO(value);
    const auto r = read(std::string(R"({"max_offload_tokens": )") + value + R"(, "max_load_tokens": )" + value + "}");
    CHECK_FALSE(r.max_offload_tokens);
    CHECK_FALSE(r.max_load_tokens);
    CHECK(r.param_faults == Faults{TransferParamFault::max_offload_tokens, TransferParamFault::max_load_tokens});
  }
}

TEST_CASE("parameters that are no object change nothing and are reported", "[conformance]") {
  for (const char* json : {"[]", "3", "\"x\"", "{", "not json", "{\"a\": }", "\xff\xfe"}) {
    INFO(json);
    const auto r = read(json);
    CHECK(r.load_tiers.is_all());
    CHECK(r.param_faults == Faults{TransferParamFault::not_an_object});
  }
  CHECK(read("null").param_faults.empty());
  CHECK(read(R"({"remote_prefiller": {"remote_host": "h"}})").param_faults.empty());  // a tier's own
}
