#include "kv_offload/tiers/obj/object_index.hpp"

namespace kv_offload {

void ObjectIndex::put(const OffloadKey& key, std::uint64_t bytes, std::uint32_t generation) {
  const auto it = entries_.find(key);
  if (it != entries_.end()) {
    bytes_ += bytes - it->second.bytes;
    it->second.bytes = bytes;
    it->second.generation = generation;
    order_.splice(order_.end(), order_, it->second.at);
    return;
  }
  entries_.emplace(key, Entry{bytes, generation, order_.insert(order_.end(), key)});
  bytes_ += bytes;
  bound();
}

void ObjectIndex::put_coldest(const OffloadKey& key, std::uint64_t bytes, std::uint32_t generation) {
  const auto it = entries_.find(key);
  if (it != entries_.end()) {
    bytes_ += bytes - it->second.bytes;
    it->second.bytes = bytes;
    it->second.generation = generation;
    return;
  }
  if (entries_.size() >= keys_max_) {
    ++dropped_;
    return;
  }
  entries_.emplace(key, Entry{bytes, generation, order_.insert(order_.begin(), key)});
  bytes_ += bytes;
}

void ObjectIndex::touch(const OffloadKey& key) {
  const auto it = entries_.find(key);
  if (it != entries_.end()) order_.splice(order_.end(), order_, it->second.at);
}

void ObjectIndex::erase(const OffloadKey& key) {
  const auto it = entries_.find(key);
  if (it == entries_.end()) return;
  bytes_ -= it->second.bytes;
  order_.erase(it->second.at);
  entries_.erase(it);
}

std::uint64_t ObjectIndex::bytes_of(const OffloadKey& key) const {
  const auto it = entries_.find(key);
  return it == entries_.end() ? 0 : it->second.bytes;
}

std::size_t ObjectIndex::keep_since(std::uint32_t generation) {
  std::size_t gone = 0;
  for (auto at = order_.begin(); at != order_.end();) {
    const OffloadKey key = *at++;
    if (entries_.find(key)->second.generation >= generation) continue;
    erase(key);
    ++gone;
  }
  return gone;
}

void ObjectIndex::clear() {
  entries_.clear();
  order_.clear();
  bytes_ = 0;
}

void ObjectIndex::bound() {
  while (entries_.size() > keys_max_) {
    ++dropped_;
    erase(OffloadKey(order_.front()));
  }
}

}  // namespace kv_offload
