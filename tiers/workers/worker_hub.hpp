#pragma once

#include "kv_offload/messages/expected.hpp"
#include "kv_offload/messages/monotonic_time.hpp"
#include "kv_offload/messages/worker_order.hpp"
#include "kv_offload/tiers/primary/region_record.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kv_offload {

/// Told by the hub's thread: outcome, then quiesced, each once per accepted order. Must not block.
class WorkerOrderSink {
 public:
  virtual ~WorkerOrderSink() = default;
  virtual void order_outcome(OrderOutcome outcome) = 0;
  /// No process can touch the order's rows any more: every rank has reported it ended, or is proven dead.
  virtual void order_quiesced(std::uint64_t id) = 0;
};

/// The engine's end of its worker processes: hands out the region, checks what joins, passes orders, counts reports,
/// proves deaths. One thread of its own. Listens on a Unix socket: "@name" in the abstract namespace (leaves nothing
/// behind, whatever happens), or a path, which is removed when all have joined and by the next start.
class WorkerHub {
 public:
  struct Options {
    std::string socket = {};
    RegionRecord record = {};
    int region_fd = -1;             ///< lent; passed to joiners
    std::size_t orders_max = 4096;  ///< accepted and not quiesced
    std::function<MonotonicTime()> now = {};
    std::function<void(const std::string& level, const std::string& line)> log = {};
    WorkerOrderSink* sink = nullptr;  ///< outlives the hub
  };
  static Expected<std::unique_ptr<WorkerHub>> start(Options options);
  ~WorkerHub();
  WorkerHub(const WorkerHub&) = delete;
  WorkerHub& operator=(const WorkerHub&) = delete;

  /// Waits until every rank has joined and the ranks fit together; the error names who is missing, or why one
  /// was refused.
  Expected<Ok> wait_joined(Duration patience);
  /// Refused, with the rank's name, while a rank is missing.
  Expected<Ok> submit(WorkerOrder order);
  /// Of the record; later joiners see it.
  void set_revision(const std::string& revision);
  [[nodiscard]] WorkerHubStats stats() const;
  /// Canonical layout: known once all have joined.
  [[nodiscard]] std::optional<bool> all_layers_portable() const;
  /// Tells the workers to end, waits for their copies; false: one did neither end nor die (named in the log).
  bool stop(Duration patience);

 private:
  struct Impl;
  explicit WorkerHub(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kv_offload
