#pragma once

#include "kv_offload/messages/config_node.hpp"
#include "kv_offload/messages/executor.hpp"
#include "kv_offload/messages/expected.hpp"
#include "kv_offload/messages/export.hpp"
#include "kv_offload/messages/kv_layout.hpp"
#include "kv_offload/messages/monotonic_time.hpp"
#include "kv_offload/messages/namespace_identity.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kv_offload {

struct TierFaults;

/// Shares of the primary tier's chunks that each purpose may use at most. Their sum, with the tiers'
/// pin shares, must not exceed 1: then no purpose can starve another.
struct PrimaryConfig {
  double headroom_share = 0.10;    ///< kept for device stores; promotions may not take it
  double hold_share = 0.25;        ///< chunks held for requests between lookup and prepare_load
  double max_pinned_share = 0.25;  ///< landed promotions held until read
  bool hold = true;                ///< default of LookupOptions::hold
  enum class PinUnread : std::uint8_t { never, until_read } pin_unread = PinUnread::until_read;
};

struct SecondaryTierConfig {
  std::string type;                 ///< registered tier type, e.g. "fs"
  std::string path;                 ///< "secondary_tiers[0]", for messages
  std::optional<double> pin_share;  ///< default: 0.4 ÷ number of tiers
  ConfigNode node;                  ///< the tier's own keys, read by the tier; `backpressure` if set
  std::shared_ptr<TierFaults> faults;  ///< fault drills; null in production
};

/// Every wait of the engine ends here at the latest. Milliseconds in the JSON document.
struct Deadlines {
  Duration load = std::chrono::seconds(30);      ///< promotion job, submission to Outcome
  Duration store = std::chrono::seconds(30);     ///< cascade job, submission to Outcome
  Duration probe = std::chrono::seconds(5);      ///< a tier's verdict
  Duration lookup = std::chrono::seconds(60);    ///< a whole lookup, promotions included
  Duration unread = std::chrono::seconds(120);   ///< hold of an unread promotion
  Duration drain = std::chrono::seconds(30);
  Duration shutdown = std::chrono::seconds(10);
  Duration copy = std::chrono::seconds(30);  ///< by the workers, order to outcome
};

/// Worker processes that copy between their devices and the primary tier, whose memory is then shared with them. How
/// they share a row follows from the identity: canonical_format, else replicated_layout, else a slot for each.
struct WorkersConfig {
  std::uint32_t world_size = 1;
  /// Where they join and get their orders: "@name" (abstract, leaves nothing behind) or a path. Empty: the engine gives
  /// no orders; who embeds it tells the workers, and completes leases itself.
  std::string socket;
  /// A file to share the memory by, on a memory file system; unlinked once all have mapped it. Empty: no name, the
  /// descriptor is passed over the socket.
  std::string region_file;
  Duration join = std::chrono::seconds(
      60);  ///< that start() waits for all of them; "join_ms" in the JSON document
};

struct MetricsConfig {
  std::optional<int> port;               ///< unset: no HTTP server; 0: any free port
  std::string address = "127.0.0.1";
};

/// Everything an engine is started with. Built in code or by parse(); `validate` finds what is wrong
/// before anything starts.
struct KV_OFFLOAD_EXPORT EngineConfig {
  std::uint64_t chunk_bytes = 0;        ///< payload of one chunk; rows are rounded up to 4 KiB
  std::uint64_t cpu_bytes_to_use = 0;   ///< primary tier; see num_chunks()
  std::uint32_t tokens_per_chunk = 0;   ///< 0: unknown (then token-based gates stay silent)
  /// Tokens of a prompt that the device computes in a second, for LookupAnswer::worth; 0: unknown.
  std::uint32_t compute_tokens_per_s = 0;
  std::string eviction_policy = "lru";
  /// Chunks are stored once they were looked up this often (below 2: at first sight). Only without
  /// secondary tiers.
  std::uint32_t store_threshold = 0;
  std::uint32_t max_tracker_size = 64000;  ///< keys whose lookups are counted for it
  /// Chunks that reach beyond the prompt are not stored; needs StoreOptions::first_token.
  bool offload_prompt_only = true;
  PrimaryConfig primary;
  std::vector<SecondaryTierConfig> secondary_tiers;
  ConfigNode admission_policy{ConfigNode::Value(nullptr)};  ///< null: always_admit
  /// Fields that every tier's latency detector starts from; a tier's own `backpressure` wins field by
  /// field. A tier has a detector if it has the key (also null or {}) or if this has any field.
  ConfigNode backpressure{ConfigNode::Value(nullptr)};
  /// Where admission keeps what must survive a restart (the bytes that write_budget has left), for
  /// one engine alone; empty: nowhere. `<file>.lock` and `<file>.tmp` lie beside it.
  std::string admission_state_file;
  NamespaceIdentity identity;
  Deadlines deadlines;
  MetricsConfig metrics;
  std::optional<WorkersConfig> workers;
  std::string engine_id;              ///< names the engine to its workers; one per replica
  std::uint32_t jobs_max = 4096;      ///< jobs registered and not quiesced, per domain
  std::uint32_t probes_max = 65536;   ///< keys waiting for a verdict, per tier
  std::uint32_t calls_max = 1024;     ///< facade calls outstanding, per domain
  std::uint32_t keys_max = 65536;     ///< keys in one call
  std::uint32_t requests_max = 65536; ///< live requests
  /// NUMA domains: "auto" (one per node that this process may use), "off", or how many nodes ("2").
  std::string domains = "auto";
  /// Of another machine, to plan for: "synthetic:DESCRIPTION" or "xml:FILE" (tiers/topology). Empty: of this one.
  std::string topology;
  /// What `domains` comes to here; set by resolve_domains (engine_config_domains.hpp), as every start does.
  std::uint32_t num_domains = 1;
  std::uint32_t worker_threads = 2;   ///< of the actor system
  /// A waiting caller spins this long before it parks, and 0.1 us more for each key of its call, ten times as long more
  /// at most. 0: parks at once.
  std::uint32_t spin_us = 20;
  /// Sets of cache groups whose chunks are visible together or not at all (messages/atomic_groups.hpp).
  std::vector<std::vector<std::uint32_t>> atomic_groups;
  bool huge_pages = true;
  /// The primary tier's rows have addresses and no memory until somebody touches them, so that a benchmark of the control
  /// path holds as many keys as it likes. Without secondary tiers and workers; not a key of the document.
  bool reserve_only = false;
  bool enable_kv_events = false;
  std::string log_level = "info";
  /// Takes log lines instead of standard error; called from any engine thread, must not block.
  std::function<void(const std::string& level, const std::string& line)> log;
  /// Runs the callbacks of Pending::then and of growing lookups; empty: the engine's own threads do. Called from any
  /// thread of the engine, and from callers of then() whose answer is there, never with a lock of the engine held. It
  /// may run a task inside the call (as on an engine thread: it must not block then), queue it, or drop it. shutdown()
  /// hands over all that is outstanding before it returns; queued tasks own what they need and may run later.
  Executor executor;
  std::vector<std::string> notes;     ///< accepted keys that have no effect here, and why
  std::string io = "auto";  ///< I/O of file tiers: auto, uring or threads (tiers/io_mode.hpp)
  /// Where a value came from ("config", "derived: …"), by path; filled by parse(). Whoever overrides a
  /// value afterwards may say so here ("command line"). Only shown, never acted on.
  std::map<std::string, std::string> origins;

  [[nodiscard]] std::uint64_t row_bytes() const { return (chunk_bytes + 4095) / 4096 * 4096; }
  /// A multiple of num_domains squared: the keys of each domain have as many rows in the memory of every domain.
  [[nodiscard]] std::uint64_t num_chunks() const {
    const std::uint64_t slices = std::uint64_t{num_domains} * num_domains;
    return row_bytes() == 0 ? 0 : cpu_bytes_to_use / row_bytes() / slices * slices;
  }
  /// Chunks that a share of the primary tier comes to, rounded down (0.1 of 10 chunks is 1).
  [[nodiscard]] std::uint64_t share_chunks(double share) const;
  /// Share of the primary tier that jobs of this tier may pin: configured, else 0.4 ÷ number of tiers.
  [[nodiscard]] double pin_share(std::size_t tier) const;
  /// How workers share a row.
  [[nodiscard]] ChunkLayout chunk_layout() const {
    return identity.canonical_format    ? ChunkLayout::canonical
           : identity.replicated_layout ? ChunkLayout::replicated
                                        : ChunkLayout::sharded;
  }

  /// Reads the JSON document; one line with path, value and allowed range on the first error.
  static Expected<EngineConfig> parse(const std::string& json_text);
  static Expected<EngineConfig> load_file(const std::string& file);
  /// Ranges, sums of shares, tier and policy parameters, domains that this machine has. Starts nothing.
  [[nodiscard]] std::optional<OffloadError> validate() const;

  /// One effective value with unit and where it came from, for check-config and the start-up log.
  struct Effective {
    std::string key, value, unit, origin;
  };
  [[nodiscard]] std::vector<Effective> effective() const;
  /// Harmful but possible combinations, each one line with numbers.
  [[nodiscard]] std::vector<std::string> warnings() const;
};

}  // namespace kv_offload
