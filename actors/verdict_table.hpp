#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kv_offload/messages/ids.hpp"
#include "kv_offload/messages/monotonic_time.hpp"
#include "kv_offload/messages/offload_key.hpp"

#include <absl/container/flat_hash_map.h>

namespace kv_offload {

/// What one tier said of each key that live requests asked for in the polling view. Plain state of that
/// tier's actor. A verdict lives as long as some request that asked for it; what the engine itself stores
/// or finds missing corrects it at once, so neither a stale hit nor a stale miss is repeated. Bounded.
class VerdictTable {
 public:
  /// Probes of one key that may fail before the tier counts as unable to tell.
  static constexpr std::uint32_t kTriesMax = 3;
  enum class State : std::uint8_t { probing, hit, miss, failed };
  struct Verdict {
    State state = State::probing;
    std::uint32_t failures = 0;
    std::uint64_t probe = 0;   ///< the one whose answer is awaited; others are ignored
    MonotonicTime asked_at;
    Duration probe_time{};     ///< from the first probe to the verdict; zero while there is none
    std::vector<RequestHandle> askers;
  };
  enum class Ask : std::uint8_t { known, probe, full };

  explicit VerdictTable(std::size_t keys_max) : keys_max_(keys_max) {}

  /// `probe`: nobody has asked yet, or the last probe failed and another try is left; the caller starts
  /// the one it named.
  Ask ask(const OffloadKey& key, RequestHandle request, std::uint64_t probe, MonotonicTime now);
  [[nodiscard]] const Verdict* find(const OffloadKey& key) const;
  /// Answer of `probe`; nullopt: it failed.
  void answer(const OffloadKey& key, std::uint64_t probe, std::optional<bool> present, MonotonicTime now);
  /// The engine knows better: it has just stored the key there, or found it missing.
  void correct(const OffloadKey& key, bool present);
  /// Forgets the request, and each verdict that nobody else asked for.
  void close(RequestHandle request);
  /// As correct(key, false) for every key that `matches`.
  template <class Matches>
  void correct_missing(Matches matches) {
    for (auto& [key, verdict] : verdicts_)
      if (matches(key)) verdict.state = State::miss;
  }
  [[nodiscard]] std::size_t size() const { return verdicts_.size(); }

 private:
  std::size_t keys_max_;
  absl::flat_hash_map<OffloadKey, Verdict> verdicts_;
  absl::flat_hash_map<RequestHandle, KeyList> by_request_;
};

}  // namespace kv_offload
