#pragma once

#include "kv_offload/tiers/workers/hub_listener.hpp"
#include "kv_offload/tiers/workers/hub_shared.hpp"
#include "kv_offload/tiers/workers/order_table.hpp"
#include "kv_offload/tiers/workers/process_watch.hpp"
#include "kv_offload/tiers/workers/wake_event.hpp"
#include "kv_offload/tiers/workers/wire_messages.hpp"
#include "kv_offload/tiers/workers/wire_socket.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kv_offload {

/// The hub's thread: connections, ranks, orders. Nobody else touches it.
class HubLoop {
 public:
  HubLoop(const WorkerHub::Options& options, HubShared& shared, HubListener& listener,
          const WakeEvent& wake, bool is_sealed);
  /// Until told to stop and everybody is gone, or the time for that is over.
  void run();

 private:
  /// Before `ready`, no copy was ever ordered of it: it is free when its connection ends. From `ready` on, only a
  /// goodbye or its death frees it.
  enum class State { absent, joining, fitted, ready, silent };
  struct Connection {
    WireSocket socket;
    ProcessWatch process;
    std::optional<std::uint32_t> rank = {};
    MonotonicTime hello_until{};
    bool is_gone = false;  // closed at the end of this turn
  };
  struct Rank {
    State state = State::absent;
    ProcessWatch process = {};
    Connection* connection = nullptr;
    LayoutMessage layout = {};
    std::string why_missing = "has not joined";
    MonotonicTime silent_since{};
    bool said_silent = false;
  };

  // --- a turn ---
  void take_inbox();
  void sweep(MonotonicTime now);
  /// What became known, counted.
  std::vector<OrderTable::Event> take_events();
  void publish();
  /// After it was published: whoever is told of an end finds it in the figures, and a missing rank missing.
  void tell(std::vector<OrderTable::Event> events);
  void wait(MonotonicTime now);
  [[nodiscard]] bool everybody_is_gone() const;
  [[nodiscard]] bool everybody_is_ready() const;
  // --- connections ---
  void accept_all();
  void read(Connection& connection);
  void flush(Connection& connection);
  void drop_gone();
  void strange(Connection& connection, const std::string& what);
  /// `context` is for the engine's log alone.
  void refuse(Connection& connection, const std::string& why, const std::string& context = "");
  void lost(Connection& connection, const std::string& how);
  // --- what they say ---
  void on_frame(Connection& connection, const Frame& frame);
  void on_hello(Connection& connection, const HelloMessage& hello);
  void on_layout(Connection& connection, LayoutMessage layout);
  void on_report(std::uint32_t rank, const ReportMessage& report);
  void on_goodbye(Connection& connection, const std::string& why);
  // --- ranks ---
  void judge();
  void on_death(std::uint32_t rank);
  void free_rank(std::uint32_t rank, std::string why_missing);
  void begin_stop();
  [[nodiscard]] std::string name_of(std::uint32_t rank) const;
  void log(const char* level, const std::string& line) const;

  const WorkerHub::Options& options_;
  HubShared& shared_;
  HubListener& listener_;
  const WakeEvent& wake_;
  const bool is_sealed_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<Rank> ranks_;
  OrderTable orders_;
  WorkerHubStats stats_;
  std::optional<bool> all_portable_;
  std::optional<OffloadError> misfit_;
  std::string last_refusal_;
  bool stopping_ = false;
  MonotonicTime stop_at_{};
  MonotonicTime accept_after_{};  // descriptors ran out
};

}  // namespace kv_offload
