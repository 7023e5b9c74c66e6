#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kv_offload/messages/ids.hpp"

namespace kv_offload {

enum class Medium : std::uint8_t { cpu, storage };
enum class Locality : std::uint8_t { local, remote };

constexpr std::string_view to_string(Medium m) { return m == Medium::cpu ? "CPU" : "STORAGE"; }
constexpr std::string_view to_string(Locality l) { return l == Locality::local ? "LOCAL" : "REMOTE"; }

/// What the engine knows of a secondary tier without asking it.
struct TierTraits {
  std::string type;  ///< "fs", "obj", …
  std::optional<Medium> medium;
  std::optional<Locality> locality;
  bool asks_requests = false;  ///< is told of every request, and may want its chunks whole
  bool wants_touch = false;    ///< is told of recency
};

/// Metric label of a tier: "0:primary" or "<index+1>:<type>".
inline std::string primary_label() { return "0:primary"; }
inline std::string tier_label(TierIndex tier, std::string_view type) {
  return std::to_string(tier + 1) + ":" + std::string(type);
}

/// A side that is missing on either the matcher or the tier matches everything.
struct TierMatcher {
  std::optional<Medium> medium;
  std::optional<Locality> locality;
  [[nodiscard]] bool allows(const TierTraits& tier) const {
    return (!medium || !tier.medium || *medium == *tier.medium) &&
           (!locality || !tier.locality || *locality == *tier.locality);
  }
};

/// Which secondary tiers a request may load from. Default-constructed: all. `only({})`: none.
/// The primary tier is never filtered.
class TierFilter {
 public:
  TierFilter() = default;
  static TierFilter only(std::vector<TierMatcher> matchers) {
    TierFilter f;
    f.all_ = false;
    f.matchers_ = std::move(matchers);
    return f;
  }
  [[nodiscard]] bool allows(const TierTraits& tier) const {
    if (all_) return true;
    for (const auto& m : matchers_)
      if (m.allows(tier)) return true;
    return false;
  }
  [[nodiscard]] bool is_all() const { return all_; }

 private:
  bool all_ = true;
  std::vector<TierMatcher> matchers_;
};

}  // namespace kv_offload
