#include "kv_offload/tiers/primary/primary_cache.hpp"

#include <string>

namespace kv_offload {

bool PrimaryCache::check_identities(std::string* why) const {
  const auto wrong = [why](const std::string& what) {
    if (why != nullptr) *why = what;
    return false;
  };
  ChunkId writing = 0, ready = 0, evictable = 0, pinned = 0, held = 0, detached = 0;
  for (ChunkId c = 0; c < slots_.size(); ++c) {
    const Slot& s = slots_[c];
    const std::string slot = "slot " + std::to_string(c);
    if ((s.state == ChunkState::absent) == slices_.is_taken(c))
      return wrong(slot + ": taken without a key, or the reverse");
    pinned += s.pins > 0 ? 1 : 0;
    held += s.holds > 0 ? 1 : 0;
    if (s.state == ChunkState::absent) {
      if (s.kept()) return wrong(slot + ": kept without a key");
      continue;
    }
    detached += s.detached ? 1 : 0;
    if (!s.detached && index_.find(index_.key_of(c)) != c)
      return wrong(slot + ": its key leads elsewhere");
    if (s.detached && s.state == ChunkState::ready && !s.kept())
      return wrong(slot + ": forgotten, used by nobody, and not free");
    if (s.state == ChunkState::writing && s.pins > 0) return wrong(slot + ": pinned while written");
    ++(s.state == ChunkState::writing ? writing : ready);
    if (s.state == ChunkState::ready && !s.kept()) ++evictable;
  }
  const auto equal = [&](const char* name, std::uint64_t kept, std::uint64_t counted) {
    return kept == counted || wrong(std::string(name) + ": kept " + std::to_string(kept) +
                                    ", counted " + std::to_string(counted));
  };
  if (!slices_.counts_match()) return wrong("slot pool: its lists and counts disagree");
  return equal("resident", index_.size(), std::uint64_t{writing} + ready - detached) &&
         equal("write_pending", write_pending_, writing) &&
         equal("evictable", evictable_, evictable) &&
         equal("evictable in slices", slices_.evictable(), evictable) &&
         equal("pinned", pinned_, pinned) && equal("held", held_, held) &&
         equal("num_chunks", limits_.num_chunks,
               std::uint64_t{slices_.free()} + slices_.quarantined() + writing + ready) &&
         (held_ <= limits_.hold_chunks_max || wrong("held: more than hold_chunks_max"));
}

}  // namespace kv_offload
