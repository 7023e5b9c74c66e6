#pragma once

#include "kv_offload/messages/expected.hpp"
#include "kv_offload/tiers/obj/obj_core.hpp"
#include "kv_offload/tiers/obj/obj_credentials.hpp"
#include "kv_offload/tiers/obj/obj_keeper.hpp"
#include "kv_offload/tiers/obj/obj_lane.hpp"
#include "kv_offload/tiers/obj/obj_prober.hpp"
#include "kv_offload/tiers/obj/obj_start_check.hpp"
#include "kv_offload/tiers/obj/obj_transfers.hpp"

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <functional>
#include <string>

namespace kv_offload {

/// What the thread of an obj tier does: takes what the inbox holds as far as there is room, and lets the parts work.
/// Each answer of the store ends in another look at the inbox. Lane thread.
class ObjWorker {
 public:
  enum class End : std::uint8_t { stopped, killed };

  ObjWorker(const ObjLaneSetup& setup, asio::io_context& loop, LaneInbox& inbox, SinkGate& sink,
            LaneCounters& counters, ObjShared& shared);

  /// Runs the loop until the tier stops. `started`: once, with what the start check said.
  End run(std::function<void(Expected<std::string>)> started);
  /// In the loop: looks for work.
  void look();
  /// In the loop: what runs may end by itself for so long.
  void stop_within(Duration patience);

 private:
  void adopt_news();
  void check_store();
  void serve();
  void leave_if_done();

  ObjCore core_;
  ObjKeeper keeper_;
  ObjProber prober_;
  ObjTransfers transfers_;
  ObjCredentials credentials_;
  ObjStartCheck check_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  asio::steady_timer cut_timer_;
  std::function<void(Expected<std::string>)> started_;
  std::uint64_t refused_seen_ = 0;
  bool is_started_ = false;
  bool looking_ = false;   // a look is posted
  bool stopping_ = false;
  bool killed_ = false;
};

}  // namespace kv_offload
