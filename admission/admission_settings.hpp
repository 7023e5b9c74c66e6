#pragma once

#include "kv_offload/admission/admission_policy.hpp"

#include <string>
#include <vector>

namespace kv_offload {

/// One value that an admission policy works with, after defaults and presets, for people.
struct AdmissionSetting {
  /// As in the document: "admission_policy.policies[0].alpha". A preset that differs from tier to
  /// tier has the tier's label behind it: "admission_policy.high_water_s[1:fs]".
  std::string path;
  std::string value;
  std::string unit;    ///< empty: a name, or a number without one
  std::string preset;  ///< whose default it is where the document is silent: "local tiers"; or empty
  /// Paths in the document that can have set it, the decisive one first.
  std::vector<std::string> sources;
};

/// Effective settings of all policies, the implicit ones of the tiers included.
std::vector<AdmissionSetting> admission_settings(const AdmissionPolicy& policy);

}  // namespace kv_offload
