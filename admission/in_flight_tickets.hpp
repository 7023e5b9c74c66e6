#pragma once

#include "kv_offload/messages/monotonic_time.hpp"
#include "kv_offload/messages/transfer_job.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>

namespace kv_offload {

/// Chunks that a policy saw admitted and not yet ended, by ticket, with the time of admission.
/// A ticket leaves with its last chunk. Size is bounded by the chunks in flight, which the ledger's
/// pin shares bound. Never iterated, so its order is never visible.
class InFlightTickets {
 public:
  struct Ended {
    std::uint32_t chunks = 0;   ///< how many of the asked chunks really were in flight
    MonotonicTime admitted_at;  ///< of the ticket's first chunk
  };

  /// Adds chunks to a ticket; the first call of a ticket fixes its time.
  void admit(AdmissionTicket ticket, std::uint32_t chunks, MonotonicTime now) {
    if (chunks == 0) return;
    tickets_.try_emplace(ticket, Ended{0, now}).first->second.chunks += chunks;
    chunks_ += chunks;
  }
  /// Takes up to `chunks` chunks out. Nothing: the ticket was never admitted or has ended.
  std::optional<Ended> end(AdmissionTicket ticket, std::uint32_t chunks) {
    const auto it = tickets_.find(ticket);
    if (it == tickets_.end() || chunks == 0) return std::nullopt;
    const Ended ended{std::min(chunks, it->second.chunks), it->second.admitted_at};
    it->second.chunks -= ended.chunks;
    chunks_ -= ended.chunks;
    if (it->second.chunks == 0) tickets_.erase(it);
    return ended;
  }
  void clear() {
    tickets_.clear();
    chunks_ = 0;
  }

  [[nodiscard]] std::uint64_t chunks() const { return chunks_; }
  [[nodiscard]] std::size_t size() const { return tickets_.size(); }

 private:
  std::unordered_map<AdmissionTicket, Ended> tickets_;
  std::uint64_t chunks_ = 0;
};

}  // namespace kv_offload
