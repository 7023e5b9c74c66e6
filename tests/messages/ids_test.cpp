#include "kv_offload/messages/ids.hpp"

#include <catch2/catch.hpp>

#include <map>
#include <type_traits>
#include <unordered_set>

using namespace kv_offload;

TEST_CASE("ids of different things do not mix", "[messages][unit]") {
  CHECK_FALSE(std::is_convertible_v<JobId, LeaseId>);
  CHECK_FALSE(std::is_convertible_v<RequestHandle, JobId>);
  CHECK_FALSE(std::is_assignable_v<CallId&, JobId>);
}

TEST_CASE("ids compare by domain, then sequence", "[messages][unit]") {
  const JobId a{0, 9}, b{1, 0}, c{1, 1};
  CHECK(a < b);
  CHECK(b < c);
  CHECK(a == JobId{0, 9});
  CHECK(a != c);
  CHECK(to_string(c) == "1:1");
  const std::map<JobId, int> ordered = {{c, 3}, {a, 1}, {b, 2}};
  CHECK(ordered.begin()->second == 1);
}

TEST_CASE("ids of many domains have distinct hashes", "[messages][unit]") {
  std::unordered_set<std::size_t> hashes;
  for (DomainId domain = 0; domain < 4; ++domain)
    for (std::uint64_t sequence = 0; sequence < 1000; ++sequence)
      hashes.insert(std::hash<JobId>{}({domain, sequence}));
  CHECK(hashes.size() == 4000);
}

TEST_CASE("every key hash has one home inside the domains", "[messages][unit]") {
  CHECK(home(12345, 1) == 0);
  for (std::uint64_t hash = 0; hash < 100; ++hash) CHECK(home(hash, 3) == hash % 3);
  CHECK(home(0xffffffffffffffffULL, 7) < 7);
}

TEST_CASE("no chunk is no slot that can exist", "[messages][unit]") {
  CHECK(kNoChunk == 0xffffffffU);
}
