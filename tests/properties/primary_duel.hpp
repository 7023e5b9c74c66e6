#pragma once

#include "kv_offload/tests/properties/primary_op.hpp"
#include "kv_offload/tests/support/naive_primary.hpp"
#include "kv_offload/tiers/primary/primary_cache.hpp"

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace kv_offload::test {

/// What a run has met: a property over calm runs proves little.
struct PrimaryStory {
  std::uint64_t ops = 0, evictions = 0, refused_stores = 0, cut_promotions = 0, refused_holds = 0;
  std::uint64_t evicted_unread = 0, resets = 0, quarantined = 0, met_in_use = 0, events = 0;
  std::uint64_t dropped_events = 0, reclaimed = 0, detached = 0;
};

/// Plays one call after the other on a PrimaryCache and on the model, and says where they differ.
class PrimaryDuel {
 public:
  PrimaryDuel(const std::string& policy, const PrimarySetup& setup);

  /// Empty, or what differs after the call.
  std::string play(const PrimaryOp& op);
  [[nodiscard]] const PrimaryStory& story() const { return story_; }

 private:
  using Names = std::vector<int>;
  using Ids = std::vector<ChunkId>;

  std::string act(const PrimaryOp& op);
  std::string store(const PrimaryOp& op);
  std::string promote(const PrimaryOp& op);
  std::string finish_write(const PrimaryOp& op);
  std::string pin(const PrimaryOp& op);
  std::string unpin(const PrimaryOp& op);
  std::string refuse(const PrimaryOp& op);
  std::string hold(const PrimaryOp& op);
  std::string release_hold(const PrimaryOp& op);
  std::string release_stale(const PrimaryOp& op);
  std::string remove(const PrimaryOp& op);
  std::string forget(const PrimaryOp& op);
  std::string reset();
  std::string transfer_ends(const PrimaryOp& op);
  std::string reader(const PrimaryOp& op);
  std::string find_all(const PrimaryOp& op);
  std::string take_events();
  [[nodiscard]] std::string compare() const;
  [[nodiscard]] std::string compare_counters() const;

  static constexpr int kNone = kPropertyKeys;
  /// A key whose entry fits, or kNone.
  template <class F>
  [[nodiscard]] int choose(std::uint32_t pick, F fits) const;
  [[nodiscard]] ChunkId slot(int key) const { return model_.entries.at(key).chunk; }
  [[nodiscard]] Ids slots(const Names& which) const;
  [[nodiscard]] PrimaryCache::Found expected(int key) const;
  void begin_use(ChunkId chunk);
  void end_use(ChunkId chunk);

  std::vector<std::atomic<std::uint32_t>> in_use_;
  PrimaryCache real_;
  NaivePrimary model_;
  std::vector<Names> writes_;  // reserved, not finished
  Ids overdue_;                // slots that a transfer or a reader from before still uses
  Ids readers_;                // slots used without anything that keeps them
  PrimaryStory story_;
};

}  // namespace kv_offload::test
