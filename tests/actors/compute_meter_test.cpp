#include "kv_offload/actors/compute_meter.hpp"

#include <catch2/catch.hpp>

using namespace kv_offload;

namespace {

MonotonicTime at(double seconds) {
  return MonotonicTime(std::chrono::hours(1)) + from_seconds(seconds);
}
RequestHandle request(std::uint64_t n) { return {0, n}; }
constexpr std::uint32_t kChunk = 128;

}  // namespace

TEST_CASE("prompts are computed one after the other, from when each is ready", "[actor][meter]") {
  ComputeMeter meter(1, kChunk);
  meter.allocated(request(1), 1000, at(0), at(1));
  meter.allocated(request(2), 500, at(2), at(2));
  const auto first = meter.stored(request(1), 0, 2, at(5));
  REQUIRE(first);
  CHECK(first->tokens == 1000);
  CHECK(to_seconds(first->busy) == Approx(4));
  CHECK(to_seconds(first->waited) ==
        Approx(1));  // between its lookup's answer and room on the device
  CHECK(first->live == 2);
  const auto second = meter.stored(request(2), 0, 1, at(7));
  REQUIRE(second);
  CHECK(second->tokens == 500);
  CHECK(to_seconds(second->busy) == Approx(2));
  CHECK(to_seconds(second->waited) == Approx(3));  // behind the first
  // The device has rested since.
  meter.allocated(request(3), 256, {}, at(100));
  CHECK(to_seconds(meter.stored(request(3), 0, 1, at(101))->busy) == Approx(1));
}

TEST_CASE(
    "a load is no computing: its request is in line when it has landed, without what it brought",
    "[actor][meter]") {
  ComputeMeter meter(1, kChunk);
  meter.allocated(request(1), 10 * kChunk, at(0), at(0));
  meter.loading(request(1));
  meter.allocated(request(2), 5 * kChunk, at(1), at(1));
  meter.loaded(request(1), 8, at(2));
  CHECK(to_seconds(meter.stored(request(2), 0, 2, at(4))->busy) == Approx(3));
  const auto loaded = meter.stored(request(1), 0, 1, at(5));
  REQUIRE(loaded);
  CHECK(loaded->tokens == 2 * kChunk);
  CHECK(to_seconds(loaded->busy) == Approx(1));
  CHECK(to_seconds(loaded->waited) == Approx(2));
}

TEST_CASE("a prompt that is stored piece by piece is computed piece by piece", "[actor][meter]") {
  ComputeMeter meter(1, kChunk);
  meter.allocated(request(1), 10 * kChunk + 5, at(0), at(0));
  const auto piece = meter.stored(request(1), 6 * kChunk + 5, 1, at(4));
  REQUIRE(piece);
  CHECK(piece->tokens == 4 * kChunk);
  const auto rest = meter.stored(request(1), 5, 1, at(9));
  REQUIRE(rest);
  CHECK(rest->tokens == 6 * kChunk + 5);
  CHECK(to_seconds(rest->busy) == Approx(5));
  CHECK_FALSE(meter.stored(request(1), 0, 1, at(10)));
}

TEST_CASE("what a tier moves counts where it flows, not where its job tells of it",
          "[actor][meter]") {
  ComputeMeter meter(2, kChunk);
  // Two seconds of writing 100 bytes each, and the device computes from the first one's middle on.
  meter.begun(0, false, at(0));
  meter.moved(0, false, 100, at(1));
  meter.begun(0, false, at(2));
  meter.allocated(request(1), 1000, at(2.5), at(2.5));
  meter.begun(2, true, at(2.5));  // no such tier
  meter.moved(2, true, 1, at(2.5));
  meter.probed(1, std::chrono::milliseconds(20));
  const auto first = meter.stored(request(1), 0, 1, at(2.75));
  REQUIRE(first);
  CHECK(first->moved[0].written_bytes <
        25);  // the rate is the last end's, and fades until the next
  CHECK(first->moved[0].written_bytes > 10);
  CHECK(first->moved[0].read_bytes == 0);
  CHECK(first->moved[1].probe_s == Approx(0.02));
  CHECK_FALSE(first->alone);
  meter.moved(0, false, 100, at(3));
  meter.allocated(request(2), 1000, at(3), at(3));
  const auto second = meter.stored(request(2), 0, 1, at(4));
  CHECK(second->moved[0].written_bytes == 0);
  CHECK(second->moved[1].probe_s == 0);
  CHECK(second->alone);
}

TEST_CASE("over many jobs the bytes of all spans are those that were moved", "[actor][meter]") {
  ComputeMeter meter(1, kChunk);
  const int spans_per_job = GENERATE(1, 3, 10);
  constexpr std::uint64_t kBytes = 1 << 20;
  std::uint64_t seen = 0;
  double second = 0;
  std::uint64_t n = 0;
  constexpr int kJobs = 200;
  for (int job = 0; job < kJobs; ++job) {
    meter.begun(0, true, at(second));
    for (int span = 0; span < spans_per_job; ++span) {
      meter.allocated(request(++n), 1000, {}, at(second));
      second += 0.1;
      seen += meter.stored(request(n), 0, 1, at(second))->moved[0].read_bytes;
    }
    meter.moved(0, true, kBytes, at(second));
  }
  CHECK(static_cast<double>(seen) == Approx(kJobs * kBytes).epsilon(0.12));
}

TEST_CASE("a span beside which something is under way is not alone, whatever it has moved",
          "[actor][meter]") {
  ComputeMeter meter(1, kChunk);
  meter.allocated(request(1), 1000, at(0), at(0));
  meter.begun(0, false, at(1));  // at the very end: it may already cost something
  CHECK_FALSE(meter.stored(request(1), 0, 1, at(1))->alone);
  meter.allocated(request(2), 1000, at(2), at(2));
  meter.moved(0, false, 0, at(3));  // a failure moved nothing
  const auto failed = meter.stored(request(2), 0, 1, at(4));
  CHECK_FALSE(failed->alone);
  CHECK(failed->moved[0].written_bytes == 0);
  meter.allocated(request(3), 1000, at(5), at(5));
  CHECK(meter.stored(request(3), 0, 1, at(6))->alone);
}

TEST_CASE("less than a chunk is stored by nobody: it is computed with what comes behind it",
          "[actor][meter]") {
  ComputeMeter meter(1, kChunk);
  meter.allocated(request(1), 100, at(0), at(0));
  meter.allocated(request(2), 1000, at(50),
                  at(50));  // the device was not busy with the first for so long
  const auto sample = meter.stored(request(2), 0, 2, at(52));
  REQUIRE(sample);
  CHECK(sample->tokens == 1100);
  CHECK(to_seconds(sample->busy) == Approx(2));
}

TEST_CASE("a prompt that ends without a store takes its span with it", "[actor][meter]") {
  ComputeMeter meter(1, kChunk);
  meter.allocated(request(1), 1000, at(0), at(0));
  meter.allocated(request(2), 500, at(0), at(0));
  meter.ended(request(1), at(6));
  const auto sample = meter.stored(request(2), 0, 1, at(7));
  REQUIRE(sample);
  CHECK(to_seconds(sample->busy) == Approx(1));
  CHECK_FALSE(meter.stored(request(1), 0, 1, at(8)));
  meter.allocated(request(3), 1000, at(9), at(9));
  meter.loading(request(3));
  meter.ended(request(3), at(10));
  meter.loaded(request(3), 1, at(11));
  CHECK_FALSE(meter.stored(request(3), 0, 1, at(12)));
}

TEST_CASE("without tokens per chunk nothing is measured", "[actor][meter]") {
  ComputeMeter meter(1, 0);
  meter.allocated(request(1), 1000, at(0), at(0));
  CHECK_FALSE(meter.stored(request(1), 0, 1, at(1)));
}
