#include "kv_offload/tests/support/tier_memory.hpp"
#include "kv_offload/tiers/io/write_joiner.hpp"

#include <catch2/catch.hpp>

#include <cstring>
#include <vector>

namespace kv_offload {
namespace {

using test::TierMemory;
using Slots = std::vector<TransferSlot>;

constexpr std::uint64_t kRow = 4096;

/// Rows of a memory whose bytes tell them apart.
struct Rows {
  Rows() {
    for (ChunkId i = 0; i < 8; ++i) memory.fill(i, i);
  }
  ChunkTransfer::Plan plan(ChunkId row, std::uint64_t place, int fd = 3) {
    ChunkTransfer::Plan plan;
    plan.op = IoOp::write;
    plan.fd = fd;
    plan.offset = place * kRow;
    plan.buffer = memory.row(row).data();
    plan.length = kRow;
    plan.buffer_index = 0;
    return plan;
  }
  /// The plan writes these rows, one behind the other.
  bool writes(const ChunkTransfer::Plan& plan, const std::vector<ChunkId>& rows) {
    if (plan.length != rows.size() * kRow) return false;
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (std::memcmp(plan.buffer + i * kRow, memory.row(rows[i]).data(), kRow) != 0) return false;
    return true;
  }
  TierMemory memory{8, kRow};
};

TEST_CASE("neighbours are one write from one copy, up to its bound", "[lane]") {
  Rows rows;
  WriteJoiner joiner(4, 3 * kRow);
  for (ChunkId i = 0; i < 5; ++i) joiner.add(10 + i, rows.plan(7 - i, 20 + i));
  const auto first = joiner.begin_next();
  REQUIRE(first);
  CHECK(joiner.members(*first) == Slots{10, 11, 12});
  CHECK(joiner.plan(*first).offset == 20 * kRow);
  CHECK(joiner.plan(*first).buffer_index == -1);
  CHECK(rows.writes(joiner.plan(*first), {7, 6, 5}));
  const auto second = joiner.begin_next();
  REQUIRE(second);
  CHECK(joiner.members(*second) == Slots{13, 14});
  CHECK(joiner.plan(*second).offset == 23 * kRow);
  CHECK(rows.writes(joiner.plan(*second), {4, 3}));
  CHECK(rows.writes(joiner.plan(*first), {7, 6, 5}));  // each has a copy of its own
  CHECK_FALSE(joiner.begin_next());
}

TEST_CASE("rows with a gap, in another order or of another file are no neighbours", "[lane]") {
  Rows rows;
  WriteJoiner joiner(8, 8 * kRow);
  joiner.add(0, rows.plan(0, 0));
  joiner.add(1, rows.plan(1, 2));     // a gap
  joiner.add(2, rows.plan(2, 1));     // backwards
  joiner.add(3, rows.plan(3, 2, 4));  // where it would fit, but of another file
  joiner.add(4, rows.plan(4, 3, 4));
  for (const auto& members : {Slots{0}, Slots{1}, Slots{2}, Slots{3, 4}}) {
    const auto write = joiner.begin_next();
    REQUIRE(write);
    CHECK(joiner.members(*write) == members);
  }
  // One alone goes from where it is.
  CHECK(joiner.plan(0).buffer == rows.memory.row(0).data());
  CHECK(joiner.plan(0).buffer_index == 0);
}

TEST_CASE("no more writes are out than allowed, and rows gather meanwhile", "[lane]") {
  Rows rows;
  WriteJoiner joiner(1, 8 * kRow);
  CHECK(joiner.takes(4 * kRow));
  CHECK_FALSE(joiner.takes(5 * kRow));
  joiner.add(0, rows.plan(0, 0));
  const auto write = joiner.begin_next();
  REQUIRE(write);
  joiner.add(1, rows.plan(1, 1));
  joiner.add(2, rows.plan(2, 2));
  CHECK_FALSE(joiner.begin_next());
  joiner.end(*write);
  const auto next = joiner.begin_next();
  REQUIRE(next);
  CHECK(joiner.members(*next) == Slots{1, 2});
}

}  // namespace
}  // namespace kv_offload
