#pragma once

#include "kv_offload/messages/monotonic_time.hpp"
#include "kv_offload/tiers/workers/wire_messages.hpp"
#include "kv_offload/tiers/workers/worker_hub.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace kv_offload {

/// Orders that are out, and what their ranks have said. No thread, no clock, no socket: told what happened, it says
/// what became known. As many orders as its owner admits.
class OrderTable {
 public:
  struct Quiesced {
    std::uint64_t id = 0;
  };
  using Event = std::variant<OrderOutcome, Quiesced>;

  /// `early_max`: reports per rank that wait for their order.
  OrderTable(std::uint32_t world_size, std::size_t early_max);

  struct NewOrder {
    std::uint64_t id = 0;
    MonotonicTime deadline{};
    bool told_by_embedder = false;
    struct Missing {
      std::string why = {};
      bool is_over = true;  ///< false: its process lives and may have been told by the embedder
    };
    std::map<std::uint32_t, Missing> missing = {};  ///< ranks that it cannot go to
    bool is_load = false;
    std::uint64_t rows = 0;  ///< mark_of_rows
  };
  /// The id is not that of an order that is out.
  void add(const NewOrder& order);
  enum class Counted { counted, early, dropped };
  Counted report(std::uint32_t rank, const ReportMessage& report);
  /// Nothing of the rank's process touches a row any more.
  void rank_over(std::uint32_t rank, OffloadErrc errc, const std::string& why);
  /// The rank says no more, but its process may still be at work: outcomes fail, nothing quiesces.
  void rank_silent(std::uint32_t rank, const std::string& why);
  void expire(MonotonicTime now);
  /// Every order without an outcome has this one.
  void fail_all(OffloadErrc errc, const std::string& why);

  /// What became known since the last call, in order: of each order its outcome, then its quiesced.
  [[nodiscard]] std::vector<Event> take_events() { return std::exchange(events_, {}); }
  [[nodiscard]] std::optional<MonotonicTime> next_deadline() const;
  [[nodiscard]] std::size_t size() const { return orders_.size(); }
  [[nodiscard]] std::uint64_t forgotten() const { return forgotten_; }
  [[nodiscard]] std::uint64_t deadlines() const { return deadlines_expired_; }

 private:
  struct Entry {
    MonotonicTime deadline{};
    bool checks_reports = false;  // what the embedder told, it may have told wrongly
    bool is_load = false;
    std::uint64_t rows = 0;
    std::vector<char> over;  // per rank: reported, gone, or dead
    std::uint32_t left = 0;  // ranks that are not
    bool has_outcome = false;
    std::uint64_t bytes = 0;
    Duration time{};
  };
  /// Reports that came before their order; the oldest in front.
  struct Early {
    std::map<std::uint64_t, ReportMessage> reports;
    std::deque<std::uint64_t> order;
  };
  using Orders = std::map<std::uint64_t, Entry>;

  void end_if_over(Orders::iterator at);
  void fail(Orders::iterator at, OffloadErrc errc, const std::string& why);
  void count(Orders::iterator at, std::uint32_t rank, const ReportMessage& report);

  const std::uint32_t world_size_;
  const std::size_t early_max_;
  Orders orders_;
  std::set<std::pair<MonotonicTime, std::uint64_t>> deadlines_;  // of those without an outcome
  std::vector<Early> early_;
  std::vector<Event> events_;
  std::uint64_t forgotten_ = 0;
  std::uint64_t deadlines_expired_ = 0;
};

}  // namespace kv_offload
