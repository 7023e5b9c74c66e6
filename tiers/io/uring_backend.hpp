#pragma once

#include "kv_offload/tiers/io/io_backend.hpp"
#include "kv_offload/tiers/primary/registration_plan.hpp"
#include "kv_offload/tiers/primary_view.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace kv_offload {

struct UringOptions {
  std::uint32_t queue_depth = 128;  ///< requests in flight at most
  PrimaryView primary;              ///< registered as fixed buffers where the machine allows it
  bool register_buffers = true;
  bool unlink_in_ring = true;  ///< false: as on a kernel that cannot
};

/// io_uring through liburing. The ring is set up with SINGLE_ISSUER|DEFER_TASKRUN where the kernel has
/// them, and with plain flags otherwise. An eventfd read stays posted in the ring so that wake() ends a
/// wait. Rows of the primary tier are registered (each registered buffer at most 1 GiB, ending at a
/// row's end); without enough lockable memory plain operations are used, and open() says so. Names are removed by the ring's worker
/// threads; a kernel whose ring cannot is asked directly, and the lane waits for it.
class UringBackend final : public IoBackend {
 public:
  explicit UringBackend(UringOptions options);
  ~UringBackend() override;
  UringBackend(const UringBackend&) = delete;
  UringBackend& operator=(const UringBackend&) = delete;

  Expected<std::string> open() override;
  bool push(const IoRequest& request) override;
  int submit() override;
  int reap(std::vector<IoCompletion>& completions, Duration wait) override;
  void wake() override;
  [[nodiscard]] std::size_t in_flight() const override { return in_flight_; }
  [[nodiscard]] int buffer_index(const std::byte* begin, std::uint64_t length) const override;

 private:
  struct Ring;

  Expected<std::string> set_up_ring();
  std::string missing_operations();
  int try_entering();
  std::string register_rows();
  void post_wake_read();
  int tolerate(int result);
  void take_completions(std::vector<IoCompletion>& completions);

  const UringOptions options_;
  std::unique_ptr<Ring> ring_;
  int wake_fd_ = -1;
  bool wake_posted_ = false;
  std::uint64_t wake_count_ = 0;  ///< where the kernel puts the eventfd's value
  std::size_t in_flight_ = 0;
  bool has_unlink_ = false;          ///< the kernel's ring can
  std::vector<IoCompletion> ready_;  ///< of requests done without the ring; counted as in flight
  std::uint32_t refusals_ = 0;     ///< submits in a row that the kernel had no room for
  ChunkId chunks_per_buffer_ = 0;  ///< 0: nothing registered
};

/// Empty if this process may set up a ring; else the reason in one line, with what an operator can do.
std::string why_no_uring();

}  // namespace kv_offload
