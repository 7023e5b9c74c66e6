#pragma once

#include "kv_offload/bench/inspect_damage.hpp"
#include "kv_offload/messages/expected.hpp"
#include "kv_offload/messages/namespace_identity.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kv_offload::bench {

/// What an extent file holds.
struct ExtentReport {
  std::string model;
  std::string fingerprint;  ///< of the namespace without revision, 32 hex digits
  std::uint64_t capacity_bytes = 0, row_bytes = 0;
  std::uint32_t slots_per_segment = 0, segments = 0, free_segments = 0, unreadable_segments = 0;
  std::uint64_t chunks = 0;      ///< live records
  std::uint64_t dead_slots = 0;  ///< handed out, and no load finds them
  std::uint64_t superseded = 0;
  bool is_in_use = false;  ///< by a process, when it was opened
  bool was_clean = false;  ///< the last stop wrote its checkpoint
  std::vector<std::string> notes;
  // With verify:
  std::uint64_t verified = 0;
  std::uint64_t without_digest = 0;   ///< rows stored with `checksum: off`: nothing to verify
  std::uint64_t other_revisions = 0;  ///< rows whose revision is not the one given: not verified
  std::uint64_t changed = 0;          ///< rows that the engine replaced meanwhile

  [[nodiscard]] double dead_share() const {
    const std::uint64_t used = chunks + dead_slots;
    return used == 0 ? 0 : static_cast<double>(dead_slots) / static_cast<double>(used);
  }
};

/// Looks into an extent file, read-only and without its lock. One-line errors.
/// @param verify    computes every row's digest, which takes the namespace
/// @param identity  the engine's, if it was given; otherwise the default one with the file's model is tried
Expected<ExtentReport> inspect_extent(const std::string& path, bool verify,
                                      const std::optional<NamespaceIdentity>& identity,
                                      DamageList& damage);

}  // namespace kv_offload::bench
