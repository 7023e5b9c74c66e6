#pragma once

#include "kv_offload/messages/ids.hpp"

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

namespace kv_offload::test {

/// Keys are numbers below this.
inline constexpr int kPropertyKeys = 40;

/// One call on a primary tier, legal in every state: `pick` chooses among what the call can be about then
/// (a chunk that is pinned, a store that is not finished), modulo their number; with nothing to choose
/// from the call is left out. So any list of these is a legal run, and so is what shrinking makes of it.
struct PrimaryOp {
  enum class Kind : std::uint8_t {
    store,    // keys
    promote,  // keys, as far as they are absent
    publish,  // an open write; odd: also chunks that are ready already
    drop,     // an open write; bit 0: quarantined, its transfer goes on
    split,  // an open write ends in two parts: `pick` keys of it are dropped, the others published
    pin,    // a ready chunk
    pin_refused,    // a chunk that is being written or a slot without a key
    unpin,          // odd: with the generation of the slot
    hold,           // any chunk
    hold_refused,   // a slot without a key
    release_hold,   // odd: with the generation of the slot
    release_stale,  // pin and hold of an earlier generation: nothing may happen
    touch,          // keys
    remove,         // keys
    forget,         // keys, also of chunks that are in use
    reset,
    transfer_ends,   // of a quarantined slot; odd: it is released while another still runs
    reader_appears,  // somebody touches a slot that nothing keeps: a promise broken elsewhere
    reader_leaves,
    reclaim,
    find_all,  // keys
    take_events,
  };
  static constexpr std::size_t kNumKinds = 22;

  Kind kind = Kind::store;
  std::uint32_t pick = 0;
  std::vector<std::uint8_t> keys;
};

/// How a primary tier is set up.
struct PrimarySetup {
  ChunkId num_chunks = 0;
  ChunkId headroom = 0;
  ChunkId holds_max = 0;
  ChunkId events_max = 0;  ///< 0: none are recorded
};

constexpr std::string_view to_string(PrimaryOp::Kind kind) {
  constexpr std::string_view kNames[PrimaryOp::kNumKinds] = {
      "store",         "promote", "publish",  "drop",         "split",         "pin",
      "pin_refused",   "unpin",   "hold",     "hold_refused", "release_hold",  "release_stale",
      "touch",         "remove",  "forget",   "reset",        "transfer_ends", "reader_appears",
      "reader_leaves", "reclaim", "find_all", "take_events"};
  return kNames[static_cast<std::size_t>(kind)];
}

inline std::ostream& operator<<(std::ostream& out, const PrimaryOp& op) {
  out << "\n  " << to_string(op.kind) << " pick=" << op.pick;
  if (!op.keys.empty()) out << " keys";
  for (const auto k : op.keys) out << ' ' << static_cast<int>(k);
  return out;
}
inline std::ostream& operator<<(std::ostream& out, const PrimarySetup& s) {
  return out << "chunks=" << s.num_chunks << " headroom=" << s.headroom
             << " holds_max=" << s.holds_max << " events_max=" << s.events_max;
}

}  // namespace kv_offload::test
