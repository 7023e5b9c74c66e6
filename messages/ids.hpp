#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>

namespace kv_offload {

/// One NUMA domain: its scheduler_step, primary_tier and job_tracker actors and its slice of memory.
using DomainId = std::uint16_t;

/// Index of a secondary tier in configuration order (0 is the first one asked).
using TierIndex = std::uint16_t;

/// Slot of a chunk in the primary tier; row number in the region.
using ChunkId = std::uint32_t;
inline constexpr ChunkId kNoChunk = std::numeric_limits<ChunkId>::max();

/// Counts resets of the engine. Results that carry an older epoch reach no policy.
using Epoch = std::uint32_t;

/// Name given by one domain's owner: unique for the life of the engine, never reused.
template <class Tag>
struct DomainScopedId {
  DomainId domain = 0;
  std::uint64_t sequence = 0;
  friend auto operator<=>(const DomainScopedId&, const DomainScopedId&) = default;
  friend std::string to_string(const DomainScopedId& id) {
    return std::to_string(id.domain) + ":" + std::to_string(id.sequence);
  }
  template <class H>
  friend H AbslHashValue(H h, const DomainScopedId& id) {
    return H::combine(std::move(h), id.domain, id.sequence);
  }
};

/// Handle of a live request; carries the domain that owns it, whichever thread calls later.
using RequestHandle = DomainScopedId<struct RequestTag>;
/// Stands where no request does; never given out.
inline constexpr RequestHandle kNoRequest{std::numeric_limits<DomainId>::max(),
                                          std::numeric_limits<std::uint64_t>::max()};
/// One transfer between the primary tier and a secondary tier. Dense per domain.
using JobId = DomainScopedId<struct JobTag>;
/// A caller's pin between prepare_* and complete_*.
using LeaseId = DomainScopedId<struct LeaseTag>;
/// One facade call inside its domain.
using CallId = DomainScopedId<struct CallTag>;

/// The domain that owns `key_hash`: exactly one entry, one flight and one event order per key.
constexpr DomainId home(std::uint64_t key_hash, DomainId num_domains) {
  return static_cast<DomainId>(key_hash % num_domains);
}

}  // namespace kv_offload

template <class Tag>
struct std::hash<kv_offload::DomainScopedId<Tag>> {
  std::size_t operator()(const kv_offload::DomainScopedId<Tag>& id) const noexcept {
    return std::hash<std::uint64_t>{}(id.sequence * 0x9e3779b97f4a7c15ULL ^ id.domain);
  }
};
