#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace kv_offload::bench {

/// The device's KV pool with its prefix cache: chunks of running requests are referenced, those of ended
/// ones stay until somebody needs their room, least recently used first and from the end of a prompt.
class SimHbm {
 public:
  /// What one running request occupies.
  struct Lease {
    std::vector<std::uint64_t> cached;  ///< chunks that others may share
    std::uint64_t own = 0;              ///< chunks that nobody else can find
  };

  /// `chunks` 0: nothing is cached and everything fits.
  explicit SimHbm(std::uint64_t chunks) : chunks_(chunks) {}

  /// Leading chunks that are cached.
  [[nodiscard]] std::size_t match(std::span<const std::uint64_t> prompt) const;
  /// Whether a request of this many chunks can ever run.
  [[nodiscard]] bool can_ever_fit(std::uint64_t total) const {
    return chunks_ == 0 || total <= chunks_;
  }
  /// References the first `matched` chunks of `prompt` (which must be cached) and takes room for the rest
  /// of `total` chunks; nullopt, changing nothing, while running requests leave too little.
  std::optional<Lease> take(std::span<const std::uint64_t> prompt, std::size_t matched,
                            std::uint64_t total);
  /// The request's own chunks now hold these: others may share them from now on.
  void publish(Lease& lease, std::span<const std::uint64_t> computed);
  void release(Lease lease);
  /// Whether the engine has been given this chunk since the device has it. A chunk that left the device is
  /// computed and offered again.
  [[nodiscard]] bool is_saved(std::uint64_t chunk) const;
  void mark_saved(std::uint64_t chunk);
  [[nodiscard]] std::uint64_t evictions() const { return evictions_; }

 private:
  struct Entry {
    std::uint32_t references = 0;
    bool saved = false;
    std::list<std::uint64_t>::iterator idle;  // valid while references == 0
  };
  void reference(std::uint64_t chunk);

  const std::uint64_t chunks_;
  std::uint64_t used_ = 0;  // referenced or owned
  std::unordered_map<std::uint64_t, Entry> entries_;
  std::list<std::uint64_t> idle_;  // least recently used first
  std::uint64_t evictions_ = 0;
};

}  // namespace kv_offload::bench
