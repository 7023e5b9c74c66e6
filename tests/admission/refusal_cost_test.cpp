// A refused job costs no allocation: counted by this program's own operator new.
#include "kv_offload/admission/admission_ledger.hpp"
#include "kv_offload/admission/admission_registry.hpp"
#include "kv_offload/tests/admission/admission_fixture.hpp"

#include <catch2/catch.hpp>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<std::uint64_t> allocations{0};
}  // namespace

// Not inlined: the compiler would see a pointer of `new` given to `free` and warn. The nothrow form
// too, because sanitizers bring one of their own whose pointers this `delete` must not get.
__attribute__((noinline)) void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(size == 0 ? 1 : size);
}
__attribute__((noinline)) void* operator new(std::size_t size) {
  if (void* p = operator new(size, std::nothrow)) return p;
  throw std::bad_alloc();
}
__attribute__((noinline)) void operator delete(void* p) noexcept { std::free(p); }
__attribute__((noinline)) void operator delete(void* p, std::size_t) noexcept { std::free(p); }
__attribute__((noinline)) void operator delete(void* p, const std::nothrow_t&) noexcept {
  std::free(p);
}

using namespace kv_offload;
using namespace kv_offload::test;

TEST_CASE("a refusal allocates nothing, whoever refuses", "[admission][unit]") {
  auto policy = admission_policies()
                    .make(parse(R"({"type": "composite", "policies": [
                            {"type": "composite", "policies": [{"type": "cascade_backpressure"}]},
                            {"type": "promotion_concurrency", "max_inflight_promotions": 1}]})"),
                          "admission_policy", two_tiers())
                    .value();
  AdmissionLedger ledger(std::move(policy), {10, 10});
  const auto list = keys(2);
  for (int i = 0; i < 3; ++i)
    ledger.complete(ledger.decide_cascade(0, list, 2, nullptr, at(0)).ticket, 2, ended(0, 9),
                    at(9));
  const std::vector<PromotionCandidate> one = {{key(1), 1}};
  REQUIRE(ledger.decide_promotions(one, 1, nullptr, at(9)).num_admitted() == 1);
  const auto many = keys(11);

  const std::uint64_t before = allocations;
  int refused = 0;
  for (int i = 0; i < 500; ++i) {
    refused +=
        ledger.decide_cascade(0, list, 2, nullptr, at(9)).reason == RefusalReason::backpressure;
    refused += ledger.decide_promotions(one, 1, nullptr, at(9)).reason ==
               RefusalReason::promotion_concurrency;
    refused +=
        ledger.decide_cascade(1, many, 11, nullptr, at(9)).reason == RefusalReason::pin_share;
  }
  const std::uint64_t after = allocations;
  CHECK(refused == 1500);
  CHECK(after == before);
  REQUIRE(ledger.decide_cascade(1, list, 2, nullptr, at(9)).admitted);
  CHECK(allocations > after);  // the counter works: an admission remembers its ticket
}
