#pragma once

#include "kv_offload/admission/admission_policy.hpp"
#include "kv_offload/messages/config_node.hpp"
#include "kv_offload/messages/expected.hpp"
#include "kv_offload/messages/export.hpp"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace kv_offload {

class AdmissionRegistry;

/// What a factory is called with besides the reader of its own object.
struct AdmissionBuild {
  const AdmissionRegistry& registry;
  const AdmissionEnvironment& environment;
  int composite_depth = 0;  ///< composites around this policy
};

/// Builds admission policies by the name under `type`. Policies from outside the library are
/// registered here. Not synchronised: register everything before the first engine is built.
class KV_OFFLOAD_EXPORT AdmissionRegistry {
 public:
  /// Reads every key it knows through the reader, which collects the first error and refuses keys
  /// that were not asked for. May return null after an error. Must not throw.
  using Factory =
      std::function<std::unique_ptr<AdmissionPolicy>(ConfigReader&, const AdmissionBuild&)>;

  /// invalid_argument if the name is empty, taken, or the factory is null.
  Expected<Ok> register_policy(const std::string& name, Factory factory);

  /// Builds what `node` describes; null means always_admit. `path` names the node in error lines.
  [[nodiscard]] Expected<std::unique_ptr<AdmissionPolicy>> make(
      const ConfigNode& node, const std::string& path,
      const AdmissionEnvironment& environment) const;
  /// The same; nullptr (the key is absent) means always_admit.
  [[nodiscard]] Expected<std::unique_ptr<AdmissionPolicy>> make(
      const ConfigNode* node, const std::string& path,
      const AdmissionEnvironment& environment) const;
  /// For factories of policies that contain others: `node` must describe a policy.
  [[nodiscard]] Expected<std::unique_ptr<AdmissionPolicy>> make_member(
      const ConfigNode& node, const std::string& path, const AdmissionBuild& build) const;

  /// Known names, sorted.
  [[nodiscard]] std::vector<std::string> names() const;

 private:
  std::map<std::string, Factory> factories_;
};

/// The registry that engines use; the library's own policies are in it from the start.
KV_OFFLOAD_EXPORT AdmissionRegistry& admission_policies();
/// Adds the library's own policies to an empty registry (tests).
KV_OFFLOAD_EXPORT void register_builtin_policies(AdmissionRegistry& registry);

}  // namespace kv_offload
