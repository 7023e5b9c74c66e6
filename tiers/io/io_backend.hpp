#pragma once

#include "kv_offload/messages/expected.hpp"
#include "kv_offload/messages/monotonic_time.hpp"
#include "kv_offload/tiers/io/io_request.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kv_offload {

/// Runs requests: a ring, or a script in tests. One owner: every function is called by the lane's
/// thread only, wake() excepted.
class IoBackend {
 public:
  virtual ~IoBackend() = default;

  /// Makes it ready on the calling thread, which must be the one that uses it. The value is a few words
  /// for the log ("io_uring, 2 registered buffers"); an error is one line for the operator.
  virtual Expected<std::string> open() = 0;

  /// Takes one request for the next submit. False: no room now, ask again after a reap. Never blocks.
  virtual bool push(const IoRequest& request) = 0;
  /// Hands everything pushed to the device; never blocks. 0, or the errno that ends this backend.
  virtual int submit() = 0;
  /// Submits, waits up to `wait` for a completion or wake(), and appends every completion there is.
  /// The queue is fully advanced before the call returns. 0, or the errno that ends this backend.
  virtual int reap(std::vector<IoCompletion>& completions, Duration wait) = 0;
  /// Ends a present or the next wait of reap(). Any thread; cheap, never blocks.
  virtual void wake() = 0;

  /// The lane's last call, with nothing in flight: what runs for it ends. Any later call but the
  /// destructor's is an error.
  virtual void close() {}

  /// Requests pushed and not yet reaped.
  [[nodiscard]] virtual std::size_t in_flight() const = 0;
  /// Registered buffer that holds all of the range, -1 if none does.
  [[nodiscard]] virtual int buffer_index(const std::byte* /*begin*/,
                                         std::uint64_t /*length*/) const {
    return -1;
  }
};

}  // namespace kv_offload
