#include "kv_offload/actors/engine_config_warnings.hpp"

#include "kv_offload/actors/engine_config.hpp"
#include "kv_offload/actors/engine_config_admission.hpp"
#include "kv_offload/actors/engine_config_domains.hpp"
#include "kv_offload/actors/engine_config_fields.hpp"
#include "kv_offload/actors/engine_metrics_socket.hpp"
#include "kv_offload/messages/byte_size.hpp"

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <sys/vfs.h>
#include <system_error>
#include <thread>
#include <vector>

namespace kv_offload {
namespace {

using namespace config_fields;
using namespace config_warnings;

/// Below this the shares come to a handful of chunks, and one request evicts another's.
constexpr std::uint64_t kChunksAdvised = 64;
/// The serving process, its weights in transit and the page cache live in the rest.
constexpr double kMemoryShareAdvised = 0.8;

void warn_about_sizes(const EngineConfig& config, Warnings& warnings) {
  if (config.num_chunks() < kChunksAdvised)
    warnings.push_back("cpu_bytes_to_use: " + counted(config.num_chunks(), "chunk") + " of " +
                       format_bytes(config.row_bytes()) + "; a primary tier below " +
                       std::to_string(kChunksAdvised) + " chunks evicts before anything is read");
  const std::uint64_t padding = config.row_bytes() - config.chunk_bytes;
  if (padding * 10 > config.row_bytes())
    warnings.push_back(
        "chunk_bytes: " + std::to_string(config.chunk_bytes) + " in rows of " +
        std::to_string(config.row_bytes()) + " bytes wastes " +
        number_text(static_cast<double>(padding) * 100 / static_cast<double>(config.row_bytes())) +
        " % of memory and of every file; a multiple of " + std::to_string(kRowAlignment) +
        " wastes none");
  const auto memory = memory_bytes();
  if (memory && !config.reserve_only &&
      static_cast<double>(config.cpu_bytes_to_use) >
          kMemoryShareAdvised * static_cast<double>(*memory))
    warnings.push_back("cpu_bytes_to_use: " + std::to_string(config.cpu_bytes_to_use >> 20) +
                       " MiB is " +
                       number_text(static_cast<double>(config.cpu_bytes_to_use) * 100 /
                                   static_cast<double>(*memory)) +
                       " % of the " + std::to_string(*memory >> 20) +
                       " MiB of memory here; above 80 % the process risks being killed");
}

void warn_about_shares(const EngineConfig& config, Warnings& warnings) {
  const auto zero = [&](const std::string& path, double share, const std::string& harm) {
    if (config.share_chunks(share) == 0)
      warnings.push_back(path + ": " + number_text(share) + " of " +
                         counted(config.num_chunks(), "chunk") + " is 0 chunks: " + harm);
  };
  const PrimaryConfig& primary = config.primary;
  const bool tiers = !config.secondary_tiers.empty();
  if (tiers)
    zero("primary.headroom_share", primary.headroom_share,
         "promotions may take the last slot from a device store");
  if (primary.hold)
    zero("primary.hold_share", primary.hold_share,
         "no hit is held, and it may be evicted between lookup and prepare_load");
  if (tiers && primary.pin_unread == PrimaryConfig::PinUnread::until_read)
    zero("primary.max_pinned_share", primary.max_pinned_share,
         "no promoted chunk is kept until it is read");
  for (std::size_t i = 0; i < config.secondary_tiers.size(); ++i)
    zero("secondary_tiers[" + std::to_string(i) + "].pin_share", config.pin_share(i),
         "every cascade to this tier is refused");
  if (tiers && !primary.hold && primary.pin_unread == PrimaryConfig::PinUnread::never)
    warnings.push_back(
        "primary.hold: false together with primary.pin_unread: never keeps nothing: a promoted "
        "chunk "
        "may be evicted before the request that asked for it reads it");
}

/// Does the policy, or one inside it, decide by tokens?
bool counts_tokens(const ConfigNode& node) {
  if (const std::string* type = string_of(node, "type"))
    if (*type == "payoff" || *type == "lookup_gate") return true;
  if (const ConfigNode* members = node.find("policies"); members != nullptr && members->list())
    for (const ConfigNode& member : *members->list())
      if (counts_tokens(member)) return true;
  return false;
}

/// Whether what must survive a restart does.
void warn_about_admission_state(const EngineConfig& config, const AdmissionPolicy& policy,
                                Warnings& warnings) {
  const std::string& file = config.admission_state_file;
  const bool has_state = !policy.saved_state({}, 0).empty();
  if (file.empty()) {
    if (has_state)
      warnings.emplace_back(
          "admission_state_file: not set: a restart forgets the bytes that were written, and "
          "write_budget begins each time with peak_bytes");
    return;
  }
  if (!has_state)
    warnings.push_back("admission_state_file: " + file +
                       " stays unused: no policy of admission_policy has anything to keep");
  const std::filesystem::path path(file);
  if (!path.is_absolute())
    warnings.push_back("admission_state_file: " + file +
                       " depends on the working directory; an absolute path does not");
  std::error_code error;
  if (path.is_absolute() && !std::filesystem::is_directory(path.parent_path(), error))
    warnings.push_back("admission_state_file: " + path.parent_path().string() +
                       " is not a directory of this machine: an engine does not start here");
}

void warn_about_admission(const EngineConfig& config, Warnings& warnings) {
  if (const auto setup = build_admission(config)) {
    warnings.insert(warnings.end(), setup->warnings.begin(), setup->warnings.end());
    warn_about_admission_state(config, *setup->policy, warnings);
  }
  if (config.secondary_tiers.empty() && !config.backpressure.is_null())
    warnings.emplace_back("backpressure: has nothing to watch: there are 0 secondary tiers");
  if (config.admission_policy.is_null()) return;
  if (config.secondary_tiers.empty())
    warnings.emplace_back("admission_policy: has nothing to decide: there are 0 secondary tiers");
  if (config.tokens_per_chunk == 0 && counts_tokens(config.admission_policy))
    warnings.emplace_back(
        "tokens_per_chunk: 0 (unknown): the policies of admission_policy that count tokens never "
        "refuse");
}

void warn_about_deadlines(const EngineConfig& config, Warnings& warnings) {
  const Deadlines& d = config.deadlines;
  const auto below = [&](const char* low_key, Duration low, const char* high_key, Duration high,
                         const std::string& harm) {
    if (low < high)
      warnings.push_back("deadlines." + std::string(low_key) + ": " + std::to_string(to_ms(low)) +
                         " ms is less than " + high_key + ", " + std::to_string(to_ms(high)) +
                         " ms: " + harm);
  };
  if (config.secondary_tiers.empty()) return;
  below("lookup_ms", d.lookup, "load_ms", d.load,
        "a lookup gives up while the promotion it started may still arrive");
  below("lookup_ms", d.lookup, "probe_ms", d.probe,
        "a lookup gives up before a tier has to answer");
  below("drain_ms", d.drain, "store_ms", d.store,
        "a drain gives up before the last store has to end");
  below("unread_ms", d.unread, "lookup_ms", d.lookup,
        "a promoted chunk may lose its hold while its lookup still waits for others");
}

void warn_about_limits(const EngineConfig& config, Warnings& warnings) {
  if (!config.secondary_tiers.empty() && config.probes_max < config.keys_max)
    warnings.push_back("probes_max: " + std::to_string(config.probes_max) +
                       " is less than keys_max, " + std::to_string(config.keys_max) +
                       ": the tail of one full lookup of the polling view is given up unasked");
  const unsigned cores = std::thread::hardware_concurrency();
  if (cores > 0 && config.worker_threads > std::max(cores, EngineConfig{}.worker_threads))
    warnings.push_back("worker_threads: " + std::to_string(config.worker_threads) + " on " +
                       std::to_string(cores) + " cores: idle ones only contend");
  if (!config.metrics.port) return;
  const std::string& address = config.metrics.address;
  // A name may mean a question to a name service; numbers are answered by the kernel.
  const bool is_number = address.find_first_not_of("0123456789.") == std::string::npos;
  if (is_number && listen_error(address, 0) == EADDRNOTAVAIL)
    warnings.push_back("metrics.address: " + address +
                       " is not an address of this machine: an engine does not start here");
  else if (address != "127.0.0.1" && address != "::1" && address != "localhost")
    warnings.push_back("metrics.address: " + address + " port " +
                       std::to_string(*config.metrics.port) +
                       ": whoever reaches it reads the metrics; there is no authentication");
}

void warn_about_workers(const EngineConfig& config, Warnings& warnings) {
  if (!config.workers) return;
  const WorkersConfig& workers = *config.workers;
  const NamespaceIdentity& id = config.identity;
  const std::uint64_t ranks = std::uint64_t{id.tp_size} * id.pp_size * id.pcp_size;
  if (ranks > 1 && ranks != workers.world_size)
    warnings.push_back("workers.world_size: " + std::to_string(workers.world_size) + ", but identity.tp_size x pp_size x " +
                       "pcp_size is " + std::to_string(ranks) + "; the namespace says who computed the bytes, and others " +
                       "may take them for theirs");
  if (!workers.region_file.empty()) {
    struct statfs where {};
    const auto directory = std::filesystem::path(workers.region_file).parent_path();
    constexpr long kTmpfs = 0x01021994, kHugetlbfs = 0x958458f6;
    if (::statfs(directory.c_str(), &where) == 0 && where.f_type != kTmpfs && where.f_type != kHugetlbfs)
      warnings.push_back("workers.region_file: " + workers.region_file +
                         " is on a disk, which would be written all the time; /dev/shm is memory");
  }
}

}  // namespace

std::optional<std::uint64_t> config_warnings::memory_bytes() {
  std::optional<std::uint64_t> bytes;
  std::ifstream meminfo("/proc/meminfo");
  std::string word;
  std::uint64_t kib = 0;
  if (meminfo >> word >> kib && word == "MemTotal:") bytes = kib << 10;
  std::ifstream cgroup("/sys/fs/cgroup/memory.max");
  if (std::uint64_t limit = 0; cgroup >> limit)  // "max" is no number
    bytes = std::min(limit, bytes.value_or(limit));
  return bytes;
}

std::vector<std::string> EngineConfig::warnings() const {
  EngineConfig here = *this;
  Warnings warnings;
  if (const auto plan = resolve_domains(here)) warn_about_domains(here, *plan, warnings);
  warn_about_sizes(here, warnings);
  warn_about_shares(here, warnings);
  warn_about_tiers(here, warnings);
  warn_about_admission(here, warnings);
  warn_about_deadlines(here, warnings);
  warn_about_limits(here, warnings);
  warn_about_workers(here, warnings);
  for (auto& line : warnings) line = one_line(std::move(line));
  return warnings;
}

}  // namespace kv_offload
