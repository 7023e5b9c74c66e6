#pragma once

#include "kv_offload/messages/config_node.hpp"
#include "kv_offload/messages/expected.hpp"
#include "kv_offload/messages/monotonic_time.hpp"
#include "kv_offload/messages/tier_traits.hpp"
#include "kv_offload/tiers/obj/credential_sources.hpp"
#include "kv_offload/tiers/obj/s3_place.hpp"
#include "kv_offload/tiers/obj/s3_retry.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kv_offload {

/// How the tier learns whether an object is there.
enum class ObjExistence : std::uint8_t {
  head,      ///< asks the store, many keys at once
  manifest,  ///< from a listing that is renewed; asks only where that does not tell
};

/// Parameters of one `obj` tier. Secrets are in `credentials` alone.
struct ObjConfig {
  S3Place place;
  CredentialSources credentials;
  std::string sts_endpoint;  ///< URL, for web identities; empty: of the region
  std::string ca_bundle;
  bool insecure_skip_verify = false;
  std::string proxy;
  std::string prefix;
  std::optional<Locality> locality;
  bool enable_kv_events = false;
  bool refuse_foreign = true;
  bool checksum = true;
  bool if_none_match = false;     ///< PUT only where nothing is: the store refuses what is there (412)
  bool start_unreachable = false; ///< start although the store does not answer

  /// Requests in flight, per direction. 16: what the figures of bench/README.md were taken with; at 20 ms of latency it is
  /// 800 chunks a second.
  std::uint32_t max_inflight = 16;
  std::uint32_t max_probes = 32;  ///< HEAD requests in flight
  Duration connect_timeout = std::chrono::seconds(2);
  Duration probe_timeout = std::chrono::seconds(2);     ///< of one HEAD
  Duration request_timeout = std::chrono::seconds(10);  ///< of one attempt of anything else
  S3RetryOptions retry;
  S3BreakerOptions breaker;

  ObjExistence existence = ObjExistence::head;
  std::uint32_t manifest_keys_max = 1U << 20;
  Duration manifest_refresh = std::chrono::seconds(60);
  std::uint32_t verdicts_max = 1U << 16;               ///< keys remembered as present or absent
  Duration positive_ttl = std::chrono::seconds(60);
  Duration negative_ttl = std::chrono::milliseconds(500);
  std::optional<std::uint64_t> capacity_bytes;  ///< of this namespace's objects; unset: no bound
  std::vector<std::string> without_effect;      ///< keys of the public layout that nothing here needs
};

inline constexpr std::uint64_t kObjCapacityMax = 1ULL << 60;  ///< 1 EiB: far from any overflow

/// Reads the parameters; looks at nothing else but, for what is not given, AWS_REGION, AWS_DEFAULT_REGION,
/// AWS_CA_BUNDLE and AWS_ENDPOINT_URL. An error never shows a secret.
/// @param row_bytes  of a chunk, for the range of `capacity_bytes`; 0: not known
Expected<ObjConfig> parse_obj_config(const ConfigNode& node, const std::string& path,
                                     std::uint64_t row_bytes, const Environment& environment);
/// With the environment of this process.
Expected<ObjConfig> parse_obj_config(const ConfigNode& node, const std::string& path,
                                     std::uint64_t row_bytes = 0);
std::optional<std::string> process_environment(const std::string& name);

/// Takes what must not be shown out of a tier's entry.
void hide_obj_secrets(ConfigNode& node);

}  // namespace kv_offload
