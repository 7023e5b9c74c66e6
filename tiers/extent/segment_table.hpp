#pragma once

#include "kv_offload/tiers/extent/extent_config.hpp"

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace kv_offload {

enum class SegmentState : std::uint8_t {
  free,     ///< its header is wiped, or was never written
  filling,  ///< rows or records of it are being written
  sealed,
  cleaning,  ///< the next to become free
  bad,       ///< its header could not be written; set aside until the next start
};

struct Segment {
  std::uint64_t generation = 0;
  std::uint64_t last_use = 0;  ///< of the same clock as generations
  std::uint32_t used = 0;      ///< slots handed out, from the front
  std::uint32_t live = 0;      ///< slots that the index knows
  std::uint32_t readers = 0;   ///< reads under way; it is neither wiped nor reused before they end
  SegmentState state = SegmentState::free;
};

/// What every segment of a file is doing. One owner.
class SegmentTable {
 public:
  SegmentTable() = default;
  explicit SegmentTable(std::uint32_t count) : segments_(count) {}

  [[nodiscard]] Segment& operator[](std::uint32_t segment) { return segments_[segment]; }
  [[nodiscard]] const Segment& operator[](std::uint32_t segment) const {
    return segments_[segment];
  }
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(segments_.size()); }

  /// Never answers the same twice; above everything that was seen.
  [[nodiscard]] std::uint64_t tick() { return ++clock_; }
  void seen(std::uint64_t time) { clock_ = time > clock_ ? time : clock_; }

  /// Hands out so many slots of the segment, from the front.
  void use(std::uint32_t segment, std::uint32_t slots) {
    segments_[segment].used += slots;
    num_used_ += slots;
  }
  void set_aside(std::uint32_t segment) {
    segments_[segment].state = SegmentState::bad;
    ++num_bad_;
  }
  /// Slots handed out, in all segments.
  [[nodiscard]] std::uint64_t num_used() const { return num_used_; }
  [[nodiscard]] std::uint64_t num_bad() const { return num_bad_; }
  [[nodiscard]] std::size_t num_free() const { return free_.size(); }
  void push_free(std::uint32_t segment) {
    num_used_ -= segments_[segment].used;
    segments_[segment] = {};
    free_.push_back(segment);
  }
  std::uint32_t pop_free() {
    assert(!free_.empty());
    const std::uint32_t segment = free_.front();
    free_.pop_front();
    return segment;
  }

  /// The sealed segment that is to become free next.
  [[nodiscard]] std::optional<std::uint32_t> victim(SegmentEviction eviction) const {
    std::optional<std::uint32_t> best;
    const auto age = [&](const Segment& s) {
      return eviction == SegmentEviction::lru ? s.last_use : s.generation;
    };
    for (std::uint32_t i = 0; i < size(); ++i) {
      if (segments_[i].state != SegmentState::sealed) continue;
      if (!best || age(segments_[i]) < age(segments_[*best])) best = i;
    }
    return best;
  }

 private:
  std::vector<Segment> segments_;
  std::deque<std::uint32_t> free_;
  std::uint64_t clock_ = 0;
  std::uint64_t num_used_ = 0;
  std::uint64_t num_bad_ = 0;
};

}  // namespace kv_offload
