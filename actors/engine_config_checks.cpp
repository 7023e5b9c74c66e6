#include "kv_offload/actors/engine_config.hpp"
#include "kv_offload/actors/engine_config_admission.hpp"
#include "kv_offload/actors/engine_config_domains.hpp"
#include "kv_offload/actors/engine_config_fields.hpp"
#include "kv_offload/actors/engine_config_places.hpp"
#include "kv_offload/actors/engine_metrics_socket.hpp"
#include "kv_offload/messages/atomic_groups.hpp"
#include "kv_offload/messages/byte_size.hpp"
#include "kv_offload/tiers/eviction/eviction_registry.hpp"
#include "kv_offload/tiers/io_mode.hpp"
#include "kv_offload/tiers/obj/obj_config.hpp"
#include "kv_offload/tiers/secondary_tier_registry.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>

namespace kv_offload {
namespace {

using namespace config_fields;
using Problem = std::optional<std::string>;

std::string refuse(const std::string& path, const std::string& value, const std::string& expected) {
  return path + ": " + value + " is not allowed; expected " + expected;
}
std::string quoted(const std::string& text) { return '"' + text.substr(0, 80) + '"'; }
std::string interval(std::int64_t min, std::int64_t max) {
  return "in [" + std::to_string(min) + ", " + std::to_string(max) + "]";
}

template <std::size_t N>
Problem check_choice(const std::string& path, const std::string& value,
                     const std::array<std::string_view, N>& allowed) {
  std::string list;
  for (const auto name : allowed) {
    if (value == name) return std::nullopt;
    list += (list.empty() ? "" : ", ") + std::string(name);
  }
  return refuse(path, quoted(value), "one of: " + list);
}

Problem check_sizes(const EngineConfig& config) {
  std::string forms(kByteSizeForms);
  forms += " in [";
  const std::string chunk_range =
      forms + format_bytes(kChunkBytesMin) + ", " + format_bytes(kChunkBytesMax) + "]";
  if (config.chunk_bytes == 0) return "chunk_bytes: missing; expected " + chunk_range;
  if (config.chunk_bytes < kChunkBytesMin || config.chunk_bytes > kChunkBytesMax)
    return refuse("chunk_bytes", std::to_string(config.chunk_bytes), chunk_range);
  const std::string cpu_range = forms + "one row of " + format_bytes(config.row_bytes()) + ", " +
                                format_bytes(kCpuBytesMax) + "]";
  if (config.cpu_bytes_to_use == 0) return "cpu_bytes_to_use: missing; expected " + cpu_range;
  if (config.cpu_bytes_to_use > kCpuBytesMax || config.num_chunks() == 0)
    return refuse("cpu_bytes_to_use", std::to_string(config.cpu_bytes_to_use), cpu_range);
  // The largest chunk id means "no chunk".
  if (config.num_chunks() >= kNoChunk)
    return refuse("cpu_bytes_to_use", std::to_string(config.cpu_bytes_to_use),
                  "at most " + std::to_string(kNoChunk - 1) + " chunks, and this is " +
                      std::to_string(config.num_chunks()));
  return std::nullopt;
}

Problem check_numbers(const EngineConfig& config) {
  for (const auto& field : kIntegers) {
    const std::int64_t value = config.*field.member;
    if (value < field.min || value > field.max)
      return refuse(std::string(field.key), std::to_string(value),
                    "an integer " + interval(field.min, field.max));
  }
  for (const auto& field : kDeadlines) {
    const Duration value = config.deadlines.*field.member;
    if (value <= Duration::zero() || value > std::chrono::milliseconds(kDeadlineMsMax))
      return refuse("deadlines." + std::string(field.key), std::to_string(to_ms(value)),
                    "an integer " + interval(1, kDeadlineMsMax));
  }
  if (config.store_threshold >= kStoreThresholdMin && !config.secondary_tiers.empty())
    return refuse("store_threshold", std::to_string(config.store_threshold),
                  "an integer " + interval(0, kStoreThresholdMin - 1) +
                      " beside secondary_tiers: a tiered cache stores at first sight");
  if (config.compute_tokens_per_s > 0 && config.tokens_per_chunk == 0)
    return refuse("compute_tokens_per_s", std::to_string(config.compute_tokens_per_s),
                  "0 without tokens_per_chunk: what a chunk takes to compute is unknown");
  if (const auto& port = config.metrics.port; port && (*port < 0 || *port > 65535))
    return refuse("metrics.port", std::to_string(*port), "an integer " + interval(0, 65535));
  if (!is_listen_address(config.metrics.address))
    return refuse("metrics.address", quoted(config.metrics.address),
                  std::string(kListenAddressForms));
  if (auto p = check_choice("log_level", config.log_level, kLogLevels)) return p;
  return check_choice("io", config.io, kIoModeNames);
}

Problem check_text(const std::string& path, const std::string& text, std::size_t max_bytes,
                   bool may_be_empty) {
  const bool control = std::any_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
  if (control) return path + ": control characters are not allowed; expected printable text";
  if ((text.empty() && !may_be_empty) || text.size() > max_bytes)
    return path + ": " + std::to_string(text.size()) + " bytes are not allowed; expected " +
           (may_be_empty ? "at most " : "1 to ") + std::to_string(max_bytes) + " bytes";
  return std::nullopt;
}

Problem check_domains(const EngineConfig& config) {
  if (auto p = check_text("topology", config.topology, kPathBytesMax, true)) return p;
  const auto plan = planned_domains(config);
  return plan ? std::nullopt : Problem(to_string(plan.error()));
}

/// Each share in [0, 1], and all of them together at most 1.
Problem check_shares(const EngineConfig& config) {
  double sum = 0;
  std::string terms;
  Problem problem;
  const auto add = [&](const std::string& path, double share) {
    if (!problem && !(share >= 0 && share <= 1))
      problem = refuse(path, number_text(share), "a number in [0, 1]");
    sum += share;
    terms += (terms.empty() ? "" : " + ") + path + " " + number_text(share);
  };
  for (const auto& field : kShares)
    add("primary." + std::string(field.key), config.primary.*field.member);
  for (std::size_t i = 0; i < config.secondary_tiers.size(); ++i)
    add("secondary_tiers[" + std::to_string(i) + "].pin_share", config.pin_share(i));
  if (problem) return problem;
  // 0.1 + 0.25 + 0.25 + 0.4 need not be exactly 1.
  if (sum > 1 + 1e-9)
    return "shares of the primary tier: " + terms + " = " + number_text(sum) +
           " is not allowed; expected a sum of at most 1";
  return std::nullopt;
}

Problem check_identity(const NamespaceIdentity& identity) {
  if (auto p = check_text("identity.model_name", identity.model_name, kModelNameBytesMax, false))
    return p;
  if (auto p = check_text("identity.dtype", identity.dtype, kIdentityTextBytesMax, false)) return p;
  if (auto p = check_text("identity.inference_engine", identity.inference_engine,
                          kIdentityTextBytesMax, false))
    return p;
  if (auto p = check_text("identity.tenant", identity.tenant, kIdentityTextBytesMax, true))
    return p;
  if (auto p = check_text("revision", identity.revision, kIdentityTextBytesMax, true)) return p;
  if (identity.canonical_format)
    if (auto p = check_text("identity.canonical_format", *identity.canonical_format,
                            kIdentityTextBytesMax, false))
      return p;
  for (const auto& field : kIdentityIntegers) {
    const std::int64_t value = identity.*field.member;
    if (value < field.min || value > field.max)
      return refuse("identity." + std::string(field.key), std::to_string(value),
                    "an integer " + interval(field.min, field.max));
  }
  for (std::size_t i = 0; i < identity.kv_cache_groups.size(); ++i) {
    const std::int64_t tokens = identity.kv_cache_groups[i].tokens_per_block;
    if (tokens < 1 || tokens > kTokensPerBlockMax)
      return refuse("identity.kv_cache_groups[" + std::to_string(i) + "].tokens_per_block",
                    std::to_string(tokens), "an integer " + interval(1, kTokensPerBlockMax));
  }
  return std::nullopt;
}

Problem check_atomic_groups(const EngineConfig& config) {
  static_assert(AtomicGroups::kSetMax == 64);  // kAtomicGroupForms says so
  const auto num_groups = config.identity.kv_cache_groups.size();
  std::set<std::uint32_t> seen;
  for (std::size_t s = 0; s < config.atomic_groups.size(); ++s) {
    const auto& set = config.atomic_groups[s];
    const std::string path = "atomic_groups[" + std::to_string(s) + "]";
    if (set.size() < 2 || set.size() > AtomicGroups::kSetMax)
      return refuse(path, "a list of " + std::to_string(set.size()),
                    std::string(kAtomicGroupForms));
    for (std::size_t i = 0; i < set.size(); ++i) {
      const std::string at = path + "[" + std::to_string(i) + "]";
      if (!seen.insert(set[i]).second)
        return refuse(at, std::to_string(set[i]), "every cache group in one place at most");
      if (num_groups > 0 && set[i] >= num_groups)
        return refuse(at, std::to_string(set[i]),
                      "the index of one of the " + std::to_string(num_groups) +
                          " identity.kv_cache_groups");
    }
  }
  return std::nullopt;
}

Problem check_eviction(const EngineConfig& config) {
  std::string list;
  for (const auto& name : eviction_policies().names()) {
    if (name == config.eviction_policy) return std::nullopt;
    list += (list.empty() ? "" : ", ") + name;
  }
  return refuse("eviction_policy", quoted(config.eviction_policy), "one of: " + list);
}

/// Where a tier that counts its bytes keeps them; empty for others.
std::string place_of(const SecondaryTierConfig& tier) {
  if (tier.type == "obj") {
    const auto obj = parse_obj_config(tier.node, "");
    return obj ? to_string(obj->place) + "/" + obj->prefix : std::string();
  }
  const char* key = tier.type == "extent" ? "path" : tier.type == "fs" ? "root_dir" : nullptr;
  const ConfigNode* node = key != nullptr ? tier.node.find(key) : nullptr;
  const auto* text = node != nullptr ? std::get_if<std::string>(&node->value()) : nullptr;
  return text == nullptr ? std::string() : canonical_place(*text);
}

/// Two tiers in one place: an extent file has one owner, and a capacity of a directory would count what
/// the other tier stores, too. Without a capacity two file tiers share a directory with a warning.
Problem check_places(const EngineConfig& config) {
  const auto& tiers = config.secondary_tiers;
  const auto counts = [](const SecondaryTierConfig& tier) {
    return tier.node.find("capacity_bytes") != nullptr;
  };
  for (std::size_t i = 0; i < tiers.size(); ++i) {
    const std::string place = place_of(tiers[i]);
    if (place.empty()) continue;
    for (std::size_t j = 0; j < i; ++j)
      if (tiers[j].type == tiers[i].type && place_of(tiers[j]) == place &&
          (counts(tiers[i]) || counts(tiers[j])))
        return refuse(tier_path(i) + (tiers[i].type == "fs"    ? ".root_dir"
                                      : tiers[i].type == "obj" ? ".prefix"
                                                               : ".path"),
                      quoted(place), "another place than that of " + tier_path(j));
  }
  return std::nullopt;
}

Problem check_tiers(const EngineConfig& config) {
  if (config.secondary_tiers.size() > kTiersMax)
    return refuse("secondary_tiers", std::to_string(config.secondary_tiers.size()) + " tiers",
                  "at most " + std::to_string(kTiersMax));
  for (std::size_t i = 0; i < config.secondary_tiers.size(); ++i) {
    const SecondaryTierConfig& tier = config.secondary_tiers[i];
    const std::string path = tier.path.empty() ? tier_path(i) : tier.path;
    if (tier.type.empty()) return path + ".type: missing; expected the name of a tier type";
    // The start asks the same question, so that it refuses nothing that was called valid before.
    const TierConfig built{tier.type,       tier.node,   path,
                           config.identity, tier.faults, config.row_bytes()};
    if (auto error = secondary_tiers().validate(built)) return to_string(*error);
  }
  return check_places(config);
}

Problem check_workers(const EngineConfig& config) {
  if (auto p = check_text("engine_id", config.engine_id, kEngineNameBytesMax, true)) return p;
  if (!config.workers) return std::nullopt;
  const WorkersConfig& workers = *config.workers;
  const std::int64_t ranks = workers.world_size;
  if (ranks < 1 || ranks > kWorldSizeMax)
    return refuse("workers.world_size", std::to_string(ranks),
                  "an integer " + interval(1, kWorldSizeMax));
  if (workers.socket.empty() && workers.region_file.empty())
    return std::string(
        "workers.socket: missing; expected \"@name\", a path, or an engine_id to name it after (or "
        "workers.region_file)");
  if (!workers.socket.empty()) {
    // sockaddr_un has 108 bytes, one of them the end of a path or the beginning of an abstract name.
    if (auto p = check_text("workers.socket", workers.socket, 107, false)) return p;
    if (workers.socket == "@" || (workers.socket[0] != '@' && workers.socket[0] != '/'))
      return refuse("workers.socket", quoted(workers.socket), "\"@name\" or an absolute path");
  }
  if (!workers.region_file.empty()) {
    if (auto p = check_text("workers.region_file", workers.region_file, kPathBytesMax, false))
      return p;
    if (workers.region_file[0] != '/' || workers.region_file.ends_with('/'))
      return refuse("workers.region_file", quoted(workers.region_file),
                    "an absolute path of a file");
  }
  if (workers.join <= Duration::zero() || workers.join > std::chrono::milliseconds(kDeadlineMsMax))
    return refuse("workers.join_ms", std::to_string(to_ms(workers.join)),
                  "an integer " + interval(1, kDeadlineMsMax));
  if (config.chunk_layout() == ChunkLayout::sharded && config.chunk_bytes % workers.world_size != 0)
    return refuse("chunk_bytes", std::to_string(config.chunk_bytes),
                  "a multiple of workers.world_size " + std::to_string(ranks) +
                      ": each worker has a slot in every row");
  if (config.chunk_bytes % config.identity.blocks_per_file != 0)
    return refuse("chunk_bytes", std::to_string(config.chunk_bytes),
                  "a multiple of identity.blocks_per_file " +
                      std::to_string(config.identity.blocks_per_file) + ", the blocks of a chunk");
  return std::nullopt;
}

/// Nobody must rely on bytes that have no memory.
Problem check_reserve_only(const EngineConfig& config) {
  if (!config.reserve_only || (config.secondary_tiers.empty() && !config.workers))
    return std::nullopt;
  return refuse("reserve_only", "true",
                std::string("false beside ") + (config.workers ? "workers" : "secondary_tiers"));
}

Problem check_admission(const EngineConfig& config) {
  if (auto p = check_text("admission_state_file", config.admission_state_file, kPathBytesMax, true))
    return p;
  if (config.admission_state_file.ends_with('/'))
    return refuse("admission_state_file", quoted(config.admission_state_file), "the name of a file");
  const auto setup = build_admission(config);
  if (!setup) return to_string(setup.error());
  return std::nullopt;
}

}  // namespace

std::optional<OffloadError> EngineConfig::validate() const {
  Problem problem = check_sizes(*this);
  if (!problem) problem = check_numbers(*this);
  if (!problem) problem = check_domains(*this);
  if (!problem) problem = check_shares(*this);
  if (!problem) problem = check_identity(identity);
  if (!problem) problem = check_atomic_groups(*this);
  if (!problem) problem = check_eviction(*this);
  if (!problem) problem = check_tiers(*this);
  if (!problem) problem = check_admission(*this);
  if (!problem) problem = check_workers(*this);
  if (!problem) problem = check_reserve_only(*this);
  if (!problem) return std::nullopt;
  return OffloadError{OffloadErrc::invalid_config, one_line(*problem)};
}

}  // namespace kv_offload
