#pragma once

#include "kv_offload/messages/expected.hpp"
#include "kv_offload/tiers/io/lane_options.hpp"
#include "kv_offload/tiers/obj/obj_config.hpp"
#include "kv_offload/tiers/obj/obj_namespace.hpp"
#include "kv_offload/tiers/obj/obj_shared.hpp"
#include "kv_offload/tiers/secondary_tier.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace kv_offload {

/// What an obj tier's lane is made of.
struct ObjLaneSetup {
  LaneOptions options;
  ObjConfig config;
  ObjNamespace name_space;
  Environment environment;
  std::function<std::chrono::sys_seconds()> wall_clock;
  std::function<void(const std::string&)> log;  ///< any thread; outlives the lane, or is copied by value
  std::function<void(const std::string&)> warn;  ///< likewise, for what somebody should look into
  std::uint64_t seed = 1;                       ///< of the waits between attempts
};

/// The one thread of an obj tier: an Asio loop in which libcurl's transfers run. The same contract as `Lane`:
/// probes, jobs and forgets go in, verdicts, answers and the two ends of each job come out through the sink.
/// All functions are called by one thread at a time and never block, start and stop excepted.
class ObjLane {
 public:
  explicit ObjLane(ObjLaneSetup setup);
  /// Stops with a patience of 5 s if nobody did.
  ~ObjLane();
  ObjLane(const ObjLane&) = delete;
  ObjLane& operator=(const ObjLane&) = delete;

  /// Starts the thread, gets credentials and tries the store. The value says whose credentials they are.
  Expected<std::string> start();

  bool probe(ProbeId id, KeyList keys);
  void submit(std::vector<TransferJob> jobs);
  void cancel(const JobId& id);
  void cancel_queued();
  /// False: too many wait already.
  bool forget(ObjForget forget);
  /// Called while no job is active; probes and jobs that come later find it.
  void change_namespace(ObjNamespace name_space);

  /// Queued jobs are cancelled; running ones end by themselves in half of the patience, then their connections are
  /// cut and they have failed. False: the thread did not end (a name server that does not answer): it is left
  /// behind, touches no slot, and the sink is not called any more.
  bool stop(Duration patience);

  [[nodiscard]] const LaneCounters& counters() const;
  [[nodiscard]] const ObjShared& shared() const;
  [[nodiscard]] ObjShared& shared();
  [[nodiscard]] std::uint64_t queued_jobs() const;

 private:
  struct State;
  static void run_thread(const std::shared_ptr<State>& state);
  void end_unstarted(const std::vector<TransferJob>& jobs, TransferFailure why);

  std::shared_ptr<State> state_;  // shared with the thread, which may outlive the lane
};

}  // namespace kv_offload
