#include "kv_offload/tiers/workers/order_table.hpp"

#include <algorithm>
#include <iterator>

namespace kv_offload {

OrderTable::OrderTable(std::uint32_t world_size, std::size_t early_max)
    : world_size_(world_size), early_max_(early_max), early_(world_size) {}

void OrderTable::add(const NewOrder& order) {
  const auto at = orders_.emplace(order.id, Entry{}).first;
  Entry& entry = at->second;
  entry.deadline = order.deadline;
  entry.checks_reports = order.told_by_embedder;
  entry.is_load = order.is_load;
  entry.rows = order.rows;
  entry.over.assign(world_size_, 0);
  entry.left = world_size_;
  deadlines_.emplace(entry.deadline, order.id);
  for (const auto& [rank, missing] : order.missing) {
    fail(at, OffloadErrc::io_error, missing.why);
    if (!missing.is_over) continue;
    entry.over[rank] = 1;
    --entry.left;
  }
  for (std::uint32_t rank = 0; rank < world_size_; ++rank) {
    auto& early = early_[rank];
    const auto found = early.reports.find(order.id);
    if (found == early.reports.end()) continue;
    // An order of our own has the id of a job of the embedder's own: what was said of that one does not count.
    if (order.told_by_embedder && entry.over[rank] == 0) count(at, rank, found->second);
    early.reports.erase(found);
    std::erase(early.order, order.id);
  }
  end_if_over(at);
}

OrderTable::Counted OrderTable::report(std::uint32_t rank, const ReportMessage& report) {
  const auto at = orders_.find(report.id);
  if (at != orders_.end()) {
    if (at->second.over[rank] != 0) return Counted::dropped;
    count(at, rank, report);
    end_if_over(at);
    return Counted::counted;
  }
  auto& early = early_[rank];
  if (!early.reports.emplace(report.id, report).second) return Counted::dropped;
  early.order.push_back(report.id);
  if (early.order.size() > early_max_) {
    early.reports.erase(early.order.front());
    early.order.pop_front();
    ++forgotten_;
  }
  return Counted::early;
}

void OrderTable::count(Orders::iterator at, std::uint32_t rank, const ReportMessage& report) {
  Entry& entry = at->second;
  entry.bytes += report.bytes;
  entry.time = std::max(entry.time, report.time);
  entry.over[rank] = 1;
  --entry.left;
const std::string who = "rank " + std::to_string(rank) + ": ";
  if (!report.success) return fail(at, OffloadErrc::io_error, who + report.error);
  if (entry.checks_reports && report.is_load != entry.is_load)
    return fail(at, OffloadErrc::io_error, who + "was told to " + (report.is_load ? "load" : "store") + ", the order is a " +
                                               (entry.is_load ? "load" : "store"));
  if (entry.checks_reports && report.rows != entry.rows)
    fail(at, OffloadErrc::io_error, who + "was told other rows than the order's");
}

void OrderTable::rank_over(std::uint32_t rank, OffloadErrc errc, const std::string& why) {
  for (auto at = orders_.begin(); at != orders_.end();) {
    const auto here = at++;  // it may go
    if (here->second.over[rank] != 0) continue;
    fail(here, errc, why);
    here->second.over[rank] = 1;
    --here->second.left;
    end_if_over(here);
  }
}

void OrderTable::rank_silent(std::uint32_t rank, const std::string& why) {
  for (auto at = orders_.begin(); at != orders_.end(); ++at)
    if (at->second.over[rank] == 0) fail(at, OffloadErrc::io_error, why);
}

void OrderTable::expire(MonotonicTime now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const auto at = orders_.find(deadlines_.begin()->second);
    std::string who;
    for (std::uint32_t rank = 0; rank < world_size_; ++rank)
      if (at->second.over[rank] == 0) who += (who.empty() ? "" : ", ") + std::to_string(rank);
    ++deadlines_expired_;
    fail(at, OffloadErrc::deadline, "no report in time from rank " + who);
  }
}

void OrderTable::fail_all(OffloadErrc errc, const std::string& why) {
  while (!deadlines_.empty()) fail(orders_.find(deadlines_.begin()->second), errc, why);
}

void OrderTable::fail(Orders::iterator at, OffloadErrc errc, const std::string& why) {
  Entry& entry = at->second;
  if (entry.has_outcome) return;
  entry.has_outcome = true;
  deadlines_.erase({entry.deadline, at->first});
  events_.emplace_back(OrderOutcome{at->first, false, errc, why, entry.bytes, entry.time});
}

void OrderTable::end_if_over(Orders::iterator at) {
  Entry& entry = at->second;
  if (entry.left > 0) return;
  if (!entry.has_outcome) {
    deadlines_.erase({entry.deadline, at->first});
    events_.emplace_back(
        OrderOutcome{at->first, true, OffloadErrc::io_error, "", entry.bytes, entry.time});
  }
  events_.emplace_back(Quiesced{at->first});
  orders_.erase(at);
}

std::optional<MonotonicTime> OrderTable::next_deadline() const {
  if (deadlines_.empty()) return std::nullopt;
  return deadlines_.begin()->first;
}

}  // namespace kv_offload
