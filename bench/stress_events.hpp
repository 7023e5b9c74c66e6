#pragma once

#include "kv_offload/messages/offloading_event.hpp"

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace kv_offload::bench {

/// Follows the primary tier's events slot by slot (promise 7): a slot may be announced as stored only
/// when whatever was stored there before has been announced as removed. One thread.
class SlotWatch {
 public:
  void see(const std::vector<OffloadingEvent>& events);

  [[nodiscard]] std::uint64_t violations() const { return violations_; }
  [[nodiscard]] const std::string& first_violation() const { return first_; }
  [[nodiscard]] std::uint64_t stored() const { return stored_; }
  [[nodiscard]] std::uint64_t removed() const { return removed_; }

 private:
  void violated(const std::string& what);

  std::unordered_map<ChunkId, OffloadKey> occupants_;  // looked up only, never iterated
  std::uint64_t violations_ = 0, stored_ = 0, removed_ = 0;
  std::string first_;
};

}  // namespace kv_offload::bench
