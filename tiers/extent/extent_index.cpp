#include "kv_offload/tiers/extent/extent_index.hpp"

#include <xxhash.h>

#include <cassert>
#include <new>

namespace kv_offload {

KeyHash key_hash(std::uint64_t namespace_tag, const OffloadKey& key) {
  const XXH128_hash_t h =
      XXH3_128bits_withSeed(key.bytes().data(), key.bytes().size(), namespace_tag);
  return {h.low64, h.high64};
}

template <class T>
ExtentIndex::Array<T> ExtentIndex::make_array(std::uint64_t count) {
  // Zeroed by the system page by page, when it is touched.
  auto* p = static_cast<T*>(std::calloc(count, sizeof(T)));
  if (p == nullptr) throw std::bad_alloc();
  return Array<T>(p);
}

ExtentIndex::ExtentIndex(std::uint64_t num_slots)
    : num_slots_(num_slots),
      num_cells_(num_slots + num_slots / 4 + 1),
      cells_(make_array<std::uint32_t>(num_cells_)),
      hashes_(make_array<KeyHash>(num_slots)),
      digests_(make_array<ChunkDigest>(num_slots)),
      states_(make_array<std::uint8_t>(num_slots)) {}

std::uint64_t ExtentIndex::bytes() const {
  return num_cells_ * sizeof(std::uint32_t) +
         num_slots_ * (sizeof(KeyHash) + sizeof(ChunkDigest) + sizeof(std::uint8_t));
}

std::optional<std::uint32_t> ExtentIndex::find(const KeyHash& hash) const {
  for (std::uint64_t cell = home(hash); cells_[cell] != 0; cell = next(cell))
    if (const std::uint32_t slot = cells_[cell] - 1; hashes_[slot] == hash) return slot;
  return std::nullopt;
}

bool ExtentIndex::insert(const KeyHash& hash, const ChunkDigest& digest, std::uint32_t slot) {
  assert(slot < num_slots_ && !is_used(slot));
  const std::lock_guard lock(mutex_);
  std::uint64_t cell = home(hash);
  for (; cells_[cell] != 0; cell = next(cell))
    if (hashes_[cells_[cell] - 1] == hash) return false;
  cells_[cell] = slot + 1;
  hashes_[slot] = hash;
  digests_[slot] = digest;
  states_[slot] = kPresent;
  ++size_;
  return true;
}

std::uint64_t ExtentIndex::cell_of(std::uint32_t slot) const {
  std::uint64_t cell = home(hashes_[slot]);
  while (cells_[cell] != slot + 1) {
    assert(cells_[cell] != 0);
    cell = next(cell);
  }
  return cell;
}

bool ExtentIndex::erase(std::uint32_t slot) {
  if (!is_used(slot)) return false;
  const std::lock_guard lock(mutex_);
  close_gap(cell_of(slot));
  states_[slot] = 0;
  --size_;
  return true;
}

/// Empties the cell and moves back what was pushed behind it by collisions.
void ExtentIndex::close_gap(std::uint64_t cell) {
  std::uint64_t gap = cell;
  for (std::uint64_t at = next(gap); cells_[at] != 0; at = next(at)) {
    const std::uint64_t wanted = home(hashes_[cells_[at] - 1]);
    // May it stand at the gap? Only if the gap is not before its home, walking in a circle.
    const std::uint64_t from_home = at >= wanted ? at - wanted : at + num_cells_ - wanted;
    const std::uint64_t from_gap = at >= gap ? at - gap : at + num_cells_ - gap;
    if (from_home < from_gap) continue;
    cells_[gap] = cells_[at];
    gap = at;
  }
  cells_[gap] = 0;
}

void ExtentIndex::move(std::uint32_t from, std::uint32_t to) {
  assert(is_used(from) && !is_used(to));
  const std::lock_guard lock(mutex_);
  cells_[cell_of(from)] = to + 1;
  hashes_[to] = hashes_[from];
  digests_[to] = digests_[from];
  states_[to] = kPresent;
  states_[from] = 0;
}

}  // namespace kv_offload
