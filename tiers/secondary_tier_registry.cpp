#include "kv_offload/tiers/secondary_tier_registry.hpp"

#include "kv_offload/tiers/example/example_tier.hpp"
#include "kv_offload/tiers/extent/extent_tier.hpp"
#include "kv_offload/tiers/fs/fs_tier.hpp"
#include "kv_offload/tiers/obj/obj_namespace.hpp"
#include "kv_offload/tiers/obj/obj_tier.hpp"

#include <exception>
#include <utility>

namespace kv_offload {

namespace {

TierType fs_type() {
  TierType type;
  type.make = [](const TierConfig& tier,
                 TierEnvironment environment) -> Expected<std::unique_ptr<SecondaryTier>> {
    auto config = parse_fs_config(tier.node, tier.path);
    if (!config) return config.error();
    return FsTier::make(*config, tier.identity, std::move(environment), tier.faults);
  };
  type.validate = [](const TierConfig& tier) -> std::optional<OffloadError> {
    const auto config = parse_fs_config(tier.node, tier.path, tier.row_bytes);
    if (!config) return config.error();
    const auto mapper = FileMapper::make(config->root_dir, tier.identity);
    if (!mapper) return mapper.error();
    return std::nullopt;
  };
  return type;
}

TierType extent_type() {
  TierType type;
  type.make = [](const TierConfig& tier,
                 TierEnvironment environment) -> Expected<std::unique_ptr<SecondaryTier>> {
    auto config = parse_extent_config(tier.node, tier.path);
    if (!config) return config.error();
    return ExtentTier::make(*config, tier.identity, std::move(environment), tier.faults);
  };
  type.validate = [](const TierConfig& tier) -> std::optional<OffloadError> {
    const auto config = parse_extent_config(tier.node, tier.path, tier.row_bytes);
    if (!config) return config.error();
    const auto mapper = FileMapper::make("/", tier.identity);
    if (!mapper) return mapper.error();
    return std::nullopt;
  };
  return type;
}

TierType obj_type() {
  TierType type;
  type.make = [](const TierConfig& tier,
                 TierEnvironment environment) -> Expected<std::unique_ptr<SecondaryTier>> {
    auto config = parse_obj_config(tier.node, tier.path);
    if (!config) return config.error();
    return ObjTier::make(*config, tier.identity, std::move(environment), tier.faults);
  };
  type.validate = [](const TierConfig& tier) -> std::optional<OffloadError> {
    const auto config = parse_obj_config(tier.node, tier.path, tier.row_bytes);
    if (!config) return config.error();
    const auto name_space = ObjNamespace::make(config->prefix, tier.identity);
    if (!name_space) return name_space.error();
    return std::nullopt;
  };
  return type;
}

TierType example_type() {
  TierType type;
  type.make = [](const TierConfig& tier,
                 TierEnvironment environment) -> Expected<std::unique_ptr<SecondaryTier>> {
    auto config = parse_example_config(tier.node, tier.path);
    if (!config) return config.error();
    return std::unique_ptr<SecondaryTier>(
        std::make_unique<ExampleTier>(*config, std::move(environment), tier.faults));
  };
  type.validate = [](const TierConfig& tier) -> std::optional<OffloadError> {
    const auto config = parse_example_config(tier.node, tier.path);
    if (!config) return config.error();
    return std::nullopt;
  };
  return type;
}

}  // namespace

Expected<Ok> SecondaryTierRegistry::register_tier(const std::string& type, TierType tier) {
  if (type.empty() || !tier.make)
    return {OffloadErrc::invalid_argument, "a tier type needs a name and a way to make it"};
  const std::lock_guard lock(mutex_);
  if (!types_.emplace(type, std::move(tier)).second)
    return {OffloadErrc::invalid_argument, "tier type \"" + type + "\" is registered already"};
  return Ok{};
}

Expected<TierType> SecondaryTierRegistry::find(const TierConfig& config) const {
  const std::lock_guard lock(mutex_);
  if (const auto it = types_.find(config.type); it != types_.end()) return it->second;
  std::string known;
  for (const auto& [name, type] : types_) known += (known.empty() ? "" : ", ") + name;
  const std::string where = config.path.empty() ? "type" : config.path + ".type";
  if (config.type.empty())
    return {OffloadErrc::invalid_config, where + ": required, one of: " + known};
  return {OffloadErrc::invalid_config,
          where + ": \"" + config.type + "\" is not a tier type; known: " + known};
}

std::optional<OffloadError> SecondaryTierRegistry::validate(const TierConfig& config) const {
  const auto type = find(config);
  if (!type) return type.error();
  if (!type->validate) return std::nullopt;
  return type->validate(config);
}

Expected<std::unique_ptr<SecondaryTier>> SecondaryTierRegistry::make(
    const TierConfig& config, TierEnvironment environment) const {
  const auto type = find(config);
  if (!type) return type.error();
  // A tier from outside may throw, or build nothing: neither may reach the caller.
  const auto failed = [&](const std::string& what) {
    return OffloadError{OffloadErrc::invalid_config, config.path + ": a tier of type \"" + config.type + "\" " + what};
  };
  try {
    auto tier = type->make(config, std::move(environment));
    if (tier && *tier == nullptr) return failed("was not built, without a reason");
    return tier;
  } catch (const std::exception& error) {
    return failed(std::string("could not be built: ") + error.what());
  } catch (...) {
    return failed("could not be built");
  }
}

std::vector<std::string> SecondaryTierRegistry::types() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, type] : types_) names.push_back(name);
  return names;
}

SecondaryTierRegistry& secondary_tiers() {
  static SecondaryTierRegistry* registry = [] {
    auto* built = new SecondaryTierRegistry;  // never destroyed: engines may outlive static storage
    (void)built->register_tier("fs", fs_type());
    (void)built->register_tier("extent", extent_type());
    (void)built->register_tier("obj", obj_type());
    (void)built->register_tier("example", example_type());
    return built;
  }();
  return *registry;
}

}  // namespace kv_offload
