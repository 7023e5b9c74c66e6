#pragma once

#include "kv_offload/tests/properties/primary_op.hpp"

#include <rapidcheck.h>

#include <vector>

namespace kv_offload::test {

/// A third of the keys is popular, so that calls meet each other's chunks.
inline rc::Gen<std::uint8_t> gen_key() {
  const auto any = rc::gen::inRange<std::uint8_t>(0, kPropertyKeys);
  return rc::gen::oneOf(any, rc::gen::inRange<std::uint8_t>(0, kPropertyKeys / 3));
}

inline rc::Gen<PrimaryOp> gen_op(PrimaryOp::Kind kind, bool has_keys) {
  const auto keys =
      has_keys
          ? rc::gen::mapcat(rc::gen::inRange<std::size_t>(0, 9),
                            [](std::size_t n) {
                              return rc::gen::container<std::vector<std::uint8_t>>(n, gen_key());
                            })
          : rc::gen::just(std::vector<std::uint8_t>());
  return rc::gen::map(rc::gen::pair(rc::gen::inRange<std::uint32_t>(0, 1 << 16), keys),
                      [kind](std::pair<std::uint32_t, std::vector<std::uint8_t>> drawn) {
                        return PrimaryOp{kind, drawn.first, std::move(drawn.second)};
                      });
}

/// Any call, the everyday ones more often. Weights are about permille of a run: a reset is rare, because
/// eviction orders need time to grow.
inline rc::Gen<PrimaryOp> gen_primary_op() {
  using K = PrimaryOp::Kind;
  return rc::gen::weightedOneOf<PrimaryOp>({
      {180, gen_op(K::store, true)},         {80, gen_op(K::promote, true)},
      {130, gen_op(K::publish, false)},      {40, gen_op(K::drop, false)},
      {60, gen_op(K::split, false)},         {80, gen_op(K::pin, false)},
      {10, gen_op(K::pin_refused, false)},   {80, gen_op(K::unpin, false)},
      {40, gen_op(K::hold, false)},          {10, gen_op(K::hold_refused, false)},
      {40, gen_op(K::release_hold, false)},  {20, gen_op(K::release_stale, false)},
      {110, gen_op(K::touch, true)},         {20, gen_op(K::remove, true)},
      {10, gen_op(K::forget, true)},         {2, gen_op(K::reset, false)},
      {40, gen_op(K::transfer_ends, false)}, {10, gen_op(K::reader_appears, false)},
      {10, gen_op(K::reader_leaves, false)}, {10, gen_op(K::reclaim, false)},
      {10, gen_op(K::find_all, true)},       {10, gen_op(K::take_events, false)},
  });
}

inline rc::Gen<PrimarySetup> gen_primary_setup() {
  const auto number = [](ChunkId below) { return rc::gen::inRange<ChunkId>(0, below); };
  return rc::gen::map(
      rc::gen::tuple(number(25), number(5), number(8), number(60)),
      [](const std::tuple<ChunkId, ChunkId, ChunkId, ChunkId>& t) {
        return PrimarySetup{std::get<0>(t), std::get<1>(t), std::get<2>(t), std::get<3>(t)};
      });
}

}  // namespace kv_offload::test
