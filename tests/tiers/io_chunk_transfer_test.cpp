#include "kv_offload/tiers/io/chunk_transfer.hpp"

#include <catch2/catch.hpp>

#include <cerrno>
#include <vector>

namespace kv_offload {
namespace {

constexpr std::uint64_t kTag = 42;

ChunkTransfer transfer(IoOp op, std::uint64_t length, std::uint32_t request_bytes_max = 1U << 20) {
  static std::vector<std::byte> memory(1 << 20);
  ChunkTransfer::Plan plan;
  plan.op = op;
  plan.fd = 5;
  plan.offset = 8192;
  plan.buffer = memory.data();
  plan.length = length;
  plan.buffer_index = 3;
  plan.request_bytes_max = request_bytes_max;
  return {plan, kTag};
}

TEST_CASE("a whole transfer is one request", "[io]") {
  ChunkTransfer t = transfer(IoOp::read, 65536);
  const IoRequest request = t.next();
  CHECK(request.tag == kTag);
  CHECK(request.fd == 5);
  CHECK(request.offset == 8192);
  CHECK(request.length == 65536);
  CHECK(request.buffer_index == 3);
  REQUIRE(t.complete(65536));
  CHECK(t.error() == 0);
  CHECK_FALSE(t.is_short());
  CHECK(t.bytes_done() == 65536);
}

TEST_CASE("a short transfer goes on from the last aligned byte", "[io]") {
  ChunkTransfer t = transfer(IoOp::write, 65536);
  const std::byte* base = t.next().buffer;
  REQUIRE_FALSE(t.complete(10000));
  CHECK(t.next().offset == 8192 + 8192);
  CHECK(t.next().buffer == base + 8192);
  CHECK(t.next().length == 65536 - 8192);
  REQUIRE(t.complete(65536 - 8192));
  CHECK_FALSE(t.is_short());
  CHECK(t.bytes_done() == 65536);
}

TEST_CASE("a file that ends early is a short read, at any alignment", "[io]") {
  const std::int32_t size = GENERATE(0, 1, 4095, 4096, 5000, 61440);
  ChunkTransfer t = transfer(IoOp::read, 65536);
  std::int32_t at = 0;
  bool is_over = false;
  for (int i = 0; i < 4 && !is_over; ++i) {
    at = static_cast<std::int32_t>(t.next().offset - 8192);
    is_over = t.complete(std::max(0, size - at));
  }
  REQUIRE(is_over);
  CHECK(t.error() == 0);
  CHECK(t.is_short());
  CHECK(t.bytes_done() == static_cast<std::uint64_t>(size));
}

TEST_CASE("a write that moves nothing is an error, not an endless loop", "[io]") {
  ChunkTransfer t = transfer(IoOp::write, 65536);
  REQUIRE_FALSE(t.complete(4096));
  REQUIRE(t.complete(0));
  CHECK(t.error() == EIO);
}

TEST_CASE("a device that moves less than before is asked again, but not for ever", "[io]") {
  const IoOp op = GENERATE(IoOp::read, IoOp::write);
  ChunkTransfer t = transfer(op, 65536);
  REQUIRE_FALSE(t.complete(10000));
  for (std::uint32_t i = 0; i < ChunkTransfer::kRetriesMax; ++i) REQUIRE_FALSE(t.complete(100));
  SECTION("and then moves on") {
    REQUIRE(t.complete(65536 - 8192));
    CHECK_FALSE(t.is_short());
  }
  SECTION("and never moves on") {
    REQUIRE(t.complete(100));
    CHECK(t.error() == EIO);
  }
}

TEST_CASE("an error ends the transfer with its errno", "[io]") {
  ChunkTransfer t = transfer(IoOp::write, 65536);
  REQUIRE_FALSE(t.complete(4096));
  REQUIRE(t.complete(-ENOSPC));
  CHECK(t.error() == ENOSPC);
  CHECK_FALSE(t.is_short());
}

TEST_CASE("EAGAIN and EINTR are tried again, but not for ever", "[io]") {
  const int error = GENERATE(EAGAIN, EINTR);
  ChunkTransfer t = transfer(IoOp::read, 65536);
  for (std::uint32_t i = 0; i < ChunkTransfer::kRetriesMax; ++i) {
    REQUIRE_FALSE(t.complete(-error));
    CHECK(t.next().offset == 8192);
  }
  SECTION("progress starts the count again") {
    REQUIRE_FALSE(t.complete(4096));
    REQUIRE_FALSE(t.complete(-error));
    REQUIRE(t.complete(61440));
    CHECK(t.error() == 0);
  }
  SECTION("without progress the errno is the result") {
    REQUIRE(t.complete(-error));
    CHECK(t.error() == error);
  }
}

TEST_CASE("a row larger than one request is moved in several", "[io]") {
  ChunkTransfer t = transfer(IoOp::read, 65536, 16384);
  for (int i = 0; i < 3; ++i) {
    CHECK(t.next().length == 16384);
    REQUIRE_FALSE(t.complete(16384));
  }
  REQUIRE(t.complete(16384));
  CHECK_FALSE(t.is_short());
}

TEST_CASE("a device that claims more than was asked is not believed", "[io]") {
  ChunkTransfer t = transfer(IoOp::read, 65536, 16384);
  REQUIRE(t.complete(20000));
  CHECK(t.error() == EIO);
}

TEST_CASE("a sync has no bytes and one result", "[io]") {
  ChunkTransfer t({IoOp::sync_data, 7, 0, nullptr, 0, -1}, kTag);
  CHECK(t.next().fd == 7);
  CHECK(t.next().length == 0);
  REQUIRE_FALSE(t.complete(-EINTR));
  SECTION("success") {
    REQUIRE(t.complete(0));
    CHECK(t.error() == 0);
    CHECK_FALSE(t.is_short());
  }
  SECTION("failure") {
    REQUIRE(t.complete(-EIO));
    CHECK(t.error() == EIO);
  }
}

}  // namespace
}  // namespace kv_offload
