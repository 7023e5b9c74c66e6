#include "kv_offload/bench/stress_events.hpp"

namespace kv_offload::bench {

void SlotWatch::violated(const std::string& what) {
  if (violations_++ == 0) first_ = what;
}

void SlotWatch::see(const std::vector<OffloadingEvent>& events) {
  for (const auto& event : events) {
    if (event.chunk_ids.size() != event.keys.size()) continue;  // a secondary tier's: no slots
    (event.removed ? removed_ : stored_) += event.keys.size();
    for (std::size_t i = 0; i < event.keys.size(); ++i) {
      const ChunkId slot = event.chunk_ids[i];
      const OffloadKey& key = event.keys[i];
      const auto occupant = occupants_.find(slot);
      const std::string where = "slot " + std::to_string(slot);
      if (!event.removed) {
        if (occupant != occupants_.end())
          violated(where + " announced as stored with " + to_string(key) + " before " +
                   to_string(occupant->second) + " was removed");
        occupants_.insert_or_assign(slot, key);
        continue;
      }
      if (occupant == occupants_.end() || !(occupant->second == key)) {
        violated(where + " announced as removed with " + to_string(key) + ", which was not there");
        continue;  // the newcomer stays: its own removal is still to come
      }
      occupants_.erase(occupant);
    }
  }
}

}  // namespace kv_offload::bench
