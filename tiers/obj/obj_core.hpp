#pragma once

#include "kv_offload/messages/offload_key.hpp"
#include "kv_offload/tiers/fs/refused_keys.hpp"
#include "kv_offload/tiers/io/lane_faults.hpp"
#include "kv_offload/tiers/io/lane_inbox.hpp"
#include "kv_offload/tiers/io/lane_options.hpp"
#include "kv_offload/tiers/io/sink_gate.hpp"
#include "kv_offload/tiers/obj/obj_config.hpp"
#include "kv_offload/tiers/obj/obj_metadata.hpp"
#include "kv_offload/tiers/obj/obj_namespace.hpp"
#include "kv_offload/tiers/obj/obj_shared.hpp"
#include "kv_offload/tiers/obj/s3_client.hpp"
#include "kv_offload/tiers/obj/verdict_cache.hpp"

#include <asio/io_context.hpp>

#include <chrono>
#include <functional>
#include <string>

namespace kv_offload {

/// What the parts of an obj tier's lane have in common. Lane thread only, but for what says otherwise.
struct ObjCore {
  asio::io_context& loop;
  const LaneOptions& options;
  const ObjConfig& config;
  LaneInbox& inbox;       // any thread
  SinkGate& sink;         // any thread
  LaneCounters& lane;     // any thread
  ObjShared& shared;      // any thread
  S3Client client;
  ObjNamespace name_space;
  std::uint32_t generation = 0;  ///< of the namespace: an answer about another one says nothing about this
  VerdictCache verdicts;
  RefusedKeys refused;    ///< corrupt: a miss until stored again; foreign: so said the metadata, ask again
  LaneFaults faults;
  std::function<void(const std::string&)> log;
  std::function<void(const std::string&)> warn;
  std::function<std::chrono::sys_seconds()> wall_clock;
  /// Something has ended or become possible: look for what can begin.
  std::function<void()> pump;
  /// Takes what the tier's actor left before it left what was just taken: another namespace, above all.
  std::function<void()> adopt;

  [[nodiscard]] MonotonicTime now() const { return options.now(); }
};

}  // namespace kv_offload
