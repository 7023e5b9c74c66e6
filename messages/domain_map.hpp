#pragma once

#include <cstdint>

#include "kv_offload/messages/ids.hpp"
#include "kv_offload/messages/offload_key.hpp"

namespace kv_offload {

/// Which domain owns a key, and where the rows of the region lie. Every key has exactly one home, hence one entry,
/// one flight and one order of its events. A home owns a contiguous range of rows, in equal slices, one per domain: a
/// chunk's bytes lie in the slice of the domain that stores it, near its device.
///
///     home 0: [slice on domain 0 | slice on domain 1 | …] home 1: [slice on domain 0 | slice on domain 1 | …] …
struct DomainMap {
  DomainId domains = 1;
  ChunkId slice_chunks = 0;  ///< rows per home and slice

  [[nodiscard]] ChunkId home_chunks() const { return slice_chunks * domains; }
  [[nodiscard]] ChunkId num_chunks() const { return home_chunks() * domains; }
  [[nodiscard]] ChunkId first_chunk(DomainId home) const { return home_chunks() * home; }
  [[nodiscard]] DomainId home_of(const OffloadKey& key) const {
    return domains == 1 ? DomainId{0} : home(key.hash(), domains);
  }
  [[nodiscard]] DomainId home_of(ChunkId chunk) const {
    return static_cast<DomainId>(chunk / home_chunks());
  }
  /// The domain whose memory holds the row.
  [[nodiscard]] DomainId domain_of(ChunkId chunk) const {
    return static_cast<DomainId>(chunk % home_chunks() / slice_chunks);
  }
};

}  // namespace kv_offload
