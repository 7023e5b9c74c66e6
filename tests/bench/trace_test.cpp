#include "kv_offload/bench/trace.hpp"

#include "kv_offload/bench/synthetic.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <limits>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

using namespace kv_offload;
using namespace kv_offload::bench;

namespace {

constexpr auto kAll = std::numeric_limits<std::size_t>::max();
const std::string kGood =
    R"({"timestamp": 27.5, "input_length": 1000, "output_length": 20, "hash_ids": [5, 6]})";

Expected<Trace> parse(const std::string& text, std::size_t requests_max = kAll) {
  std::istringstream in(text);
  return parse_trace(in, "t.jsonl", requests_max);
}

}  // namespace

TEST_CASE("a trace line gives arrival, lengths and chunks", "[bench][unit]") {
  const auto trace = parse("\n" + kGood + "\n\n" + kGood + "\n");
  REQUIRE(trace);
  REQUIRE(trace->size() == 2);
  CHECK((*trace)[0].timestamp_ms == 27.5);
  CHECK((*trace)[0].input_length == 1000);
  CHECK((*trace)[0].output_length == 20);
  CHECK((*trace)[1].chunks == std::vector<std::uint64_t>{5, 6});
}

TEST_CASE("only the wanted number of requests is read, whatever follows", "[bench][unit]") {
  const auto trace = parse(kGood + "\nnot json\n", 1);
  REQUIRE(trace);
  CHECK(trace->size() == 1);
}

TEST_CASE("a malformed trace line is named with what was expected", "[bench][unit]") {
  const auto with = [](const std::string& members) { return kGood + "\n{" + members + "}\n"; };
  const std::vector<std::pair<std::string, std::string>> cases{
      {kGood + "\n[1, 2]\n", "t.jsonl:2: expected one JSON object per line"},
      {kGood + "\n{\"timestamp\": 1", "t.jsonl:2: expected one JSON object per line"},
      {with(R"("input_length": 1, "output_length": 1, "hash_ids": [])"),
       "t.jsonl:2: expected the member timestamp"},
      {with(R"("timestamp": -1, "input_length": 1, "output_length": 1, "hash_ids": [])"),
       "t.jsonl:2: expected timestamp to be a number of milliseconds >= 0"},
      {with(R"("timestamp": 1, "input_length": -3, "output_length": 1, "hash_ids": [])"),
       "t.jsonl:2: expected input_length to be a whole number of tokens >= 0"},
      {with(R"("timestamp": 1, "input_length": 1, "output_length": "x", "hash_ids": [])"),
       "t.jsonl:2: expected output_length to be a whole number of tokens >= 0"},
      {with(R"("timestamp": 1, "input_length": 1, "output_length": 1)"),
       "t.jsonl:2: expected the member hash_ids"},
      {with(R"("timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": [1, -2])"),
       "t.jsonl:2: expected hash_ids to be a list of whole numbers >= 0"},
      {with(R"("timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": 7)"),
       "t.jsonl:2: expected hash_ids to be a list of whole numbers >= 0"},
      {"\n\n", "t.jsonl:1: expected at least one request"},
  };
  for (const auto& [text, message] : cases) {
    CAPTURE(text);
    const auto trace = parse(text);
    REQUIRE_FALSE(trace);
    CHECK(to_string(trace.error()) == message);
  }
}

TEST_CASE("a trace file that cannot be read is named", "[bench][unit]") {
  const auto missing = read_trace("no/such/trace.jsonl", kAll);
  REQUIRE_FALSE(missing);
  CHECK(to_string(missing.error()) == "no/such/trace.jsonl: No such file or directory");
  const auto directory = read_trace(".", kAll);
  REQUIRE_FALSE(directory);
  CHECK(to_string(directory.error()) == ".: is a directory, expected a trace file");
}

TEST_CASE("synthetic traces repeat for a seed and differ between seeds", "[bench][unit]") {
  for (const auto& name : synthetic_names()) {
    CAPTURE(name);
    const auto first = synthetic_trace(name, 7), again = synthetic_trace(name, 7);
    REQUIRE(first);
    REQUIRE(first->size() == again->size());
    bool differs = false;
    const auto other = synthetic_trace(name, 8);
    for (std::size_t i = 0; i < first->size(); ++i) {
      CHECK((*first)[i].chunks == (*again)[i].chunks);
      CHECK((*first)[i].timestamp_ms == (*again)[i].timestamp_ms);
      differs |= (*first)[i].timestamp_ms != (*other)[i].timestamp_ms;
    }
    CHECK(differs);
  }
  const auto unknown = synthetic_trace("nothing");
  REQUIRE_FALSE(unknown);
  CHECK(to_string(unknown.error()) ==
        "--synthetic: \"nothing\" is not allowed; expected one of: multi-turn, shared-prefix, "
        "no-reuse");
}

TEST_CASE("the multi-turn trace is larger than a primary tier of 512 chunks and fits its shares",
          "[bench][unit]") {
  const auto trace = synthetic_trace("multi-turn");
  REQUIRE(trace);
  std::set<std::uint64_t> distinct;
  std::size_t references = 0, longest = 0;
  for (const auto& request : *trace) {
    references += request.chunks.size();
    longest = std::max(longest, request.chunks.size());
    distinct.insert(request.chunks.begin(), request.chunks.end());
    CHECK(request.input_length > (request.chunks.size() - 1) * 512);
    CHECK(request.input_length <= request.chunks.size() * 512);
  }
  CHECK(distinct.size() > 3 * 512);
  CHECK(distinct.size() < 2500);
  CHECK(references > 5000);
  CHECK(longest < 128);  // a quarter of 512: the default share for holds
}
