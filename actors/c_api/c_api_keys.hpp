#pragma once

// Keys and handles between the two languages.
#include "kv_offload/actors/c_api/c_api_entry.hpp"
#include "kv_offload/actors/offload_engine.hpp"

#include <limits>
#include <span>
#include <string>

namespace kv_offload::c_api {

/// The engine's own copy of the keys, the only one there is. At most keys_max of the engine.
inline int read_keys(const OffloadEngine& engine, const kvo_key* keys, std::size_t n, KeyList& list) {
  if (n == 0) return KVO_OK;
  if (keys == nullptr) return not_allowed("keys", "NULL", "num_keys keys");
  if (n > engine.config().keys_max)
    return not_allowed("num_keys", std::to_string(n), "at most keys_max (" + std::to_string(engine.config().keys_max) + ")");
  list.reserve(n);
  for (std::size_t i = 0; i < n; ++i) {
    const auto name = [i](const char* field) { return "keys[" + std::to_string(i) + "]." + field; };
    if (keys[i].hash == nullptr) return not_allowed(name("hash").c_str(), "NULL", "hash_size bytes");
    const auto key = OffloadKey::make({static_cast<const std::byte*>(keys[i].hash), keys[i].hash_size}, keys[i].group);
    if (!key)
      return not_allowed(name("hash_size").c_str(), std::to_string(keys[i].hash_size),
                         "1 to " + std::to_string(OffloadKey::kMaxHashBytes));
    list.push_back(*key);
  }
  return KVO_OK;
}

// An id as one number, never 0: the domain in the upper 16 bits, below it the sequence plus one. At a million
// ids a second 2^48 of them last nine years.
inline constexpr unsigned kSequenceBits = 48;
inline constexpr std::uint64_t kSequenceMask = (std::uint64_t{1} << kSequenceBits) - 1;

template <class Tag>
std::uint64_t number_of(const DomainScopedId<Tag>& id) {
  return (std::uint64_t{id.domain} << kSequenceBits) | ((id.sequence + 1) & kSequenceMask);
}
/// A number that no id has becomes an id that no engine gives out.
template <class Id>
Id id_of(std::uint64_t number) {
  const auto sequence = number & kSequenceMask;
  if (sequence == 0) return Id{std::numeric_limits<DomainId>::max(), std::numeric_limits<std::uint64_t>::max()};
  return Id{static_cast<DomainId>(number >> kSequenceBits), sequence - 1};
}

}  // namespace kv_offload::c_api
