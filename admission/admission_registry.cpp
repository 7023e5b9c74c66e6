#include "kv_offload/admission/admission_registry.hpp"

#include "kv_offload/admission/always_admit.hpp"

#include <utility>

namespace kv_offload {

Expected<Ok> AdmissionRegistry::register_policy(const std::string& name, Factory factory) {
  if (name.empty()) return {OffloadErrc::invalid_argument, "a policy needs a name"};
  if (!factory)
    return {OffloadErrc::invalid_argument, "admission policy \"" + name + "\" has no factory"};
  if (!factories_.try_emplace(name, std::move(factory)).second)
    return {OffloadErrc::invalid_argument,
            "admission policy \"" + name + "\" is registered already"};
  return Ok{};
}

std::vector<std::string> AdmissionRegistry::names() const {
  std::vector<std::string> names;
  for (const auto& [name, factory] : factories_) names.push_back(name);
  return names;
}

Expected<std::unique_ptr<AdmissionPolicy>> AdmissionRegistry::make(
    const ConfigNode* node, const std::string& path,
    const AdmissionEnvironment& environment) const {
  return make(node == nullptr ? ConfigNode(nullptr) : *node, path, environment);
}

Expected<std::unique_ptr<AdmissionPolicy>> AdmissionRegistry::make(
    const ConfigNode& node, const std::string& path,
    const AdmissionEnvironment& environment) const {
  if (node.is_null()) return std::unique_ptr<AdmissionPolicy>(std::make_unique<AlwaysAdmit>());
  return make_member(node, path, AdmissionBuild{*this, environment, 0});
}

Expected<std::unique_ptr<AdmissionPolicy>> AdmissionRegistry::make_member(
    const ConfigNode& node, const std::string& path, const AdmissionBuild& build) const {
  ConfigReader reader(node, path);
  std::string list;
  for (const auto& name : names()) list += (list.empty() ? "" : ", ") + name;
  if (!reader.failed() && !reader.has("type"))
    reader.fail(reader.path_of("type") + ": missing; expected one of: " + list);
  const std::string type = reader.choice("type", "", names());
  std::unique_ptr<AdmissionPolicy> policy;
  if (!reader.failed()) policy = factories_.at(type)(reader, build);
  if (auto error = reader.finish()) return *std::move(error);
  if (!policy)
    return {OffloadErrc::invalid_config,
            path + ": the factory of \"" + type + "\" returned nothing and named no error"};
  return policy;
}

AdmissionRegistry& admission_policies() {
  static AdmissionRegistry registry = [] {
    AdmissionRegistry fresh;
    register_builtin_policies(fresh);
    return fresh;
  }();
  return registry;
}

}  // namespace kv_offload
