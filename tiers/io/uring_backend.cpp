#include "kv_offload/tiers/io/uring_backend.hpp"

#include <liburing.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

namespace kv_offload {

namespace {

constexpr std::uint64_t kWakeTag = ~std::uint64_t{0};
/// A submit that the kernel refuses for lack of memory is tried again every millisecond; after this
/// many in a row (10 s) the ring counts as dead.
constexpr std::uint32_t kRefusalsMax = 10'000;

/// Ends each line that says why there is no ring.
constexpr const char* kWayOut = "; \"io\": \"threads\" does without";

struct RingFlags {
  unsigned flags;
  const char* name;
};

std::string refusal(const char* call, int error) {
  std::string line = "io_uring is not available (";
  line += call;
  line += ": ";
  line += std::strerror(error);
  line += "): ";
  if (error == ENOMEM)
    line += "raise the locked-memory limit (ulimit -l)";
  else if (error == EMFILE || error == ENFILE)
    line += "raise the limit of open files (ulimit -n)";
  else
    line +=
        "the kernel or the container's seccomp profile forbids it; allow io_uring_setup, "
        "io_uring_enter and io_uring_register, and set kernel.io_uring_disabled to 0";
  return line + kWayOut;
}

__kernel_timespec to_timespec(Duration d) {
  __kernel_timespec ts{};
  ts.tv_sec = d.count() / 1'000'000'000;
  ts.tv_nsec = d.count() % 1'000'000'000;
  return ts;
}

void pause_ms(long ms) {
  timespec ts{};
  ts.tv_nsec = ms * 1'000'000;
  ::nanosleep(&ts, nullptr);
}

}  // namespace

struct UringBackend::Ring {
  io_uring uring{};
};

UringBackend::UringBackend(UringOptions options) : options_(std::move(options)) {}

UringBackend::~UringBackend() {
  if (ring_) io_uring_queue_exit(&ring_->uring);
  if (wake_fd_ >= 0) ::close(wake_fd_);
}

Expected<std::string> UringBackend::open() {
  assert(!ring_);
  auto ring = set_up_ring();
  if (!ring) return ring;
  std::string description = std::move(ring).value();
  if (const std::string missing = missing_operations(); !missing.empty())
    return {OffloadErrc::unsupported, "io_uring of this kernel lacks " + missing +
                                          ": Linux 5.11 or newer is needed" + kWayOut};
  if (const int error = try_entering(); error != 0)
    return {OffloadErrc::unsupported, refusal("io_uring_enter", error)};
  wake_fd_ = ::eventfd(0, EFD_CLOEXEC);
  if (wake_fd_ < 0) {
    return {OffloadErrc::io_error, std::string("eventfd: ") + std::strerror(errno)};
  }
  description += ", " + register_rows();
  post_wake_read();
  return description;
}

Expected<std::string> UringBackend::set_up_ring() {
  static constexpr RingFlags kTries[] = {
      {IORING_SETUP_CLAMP | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
       "io_uring (single issuer, deferred task work)"},
      {IORING_SETUP_CLAMP, "io_uring (default flags)"},
  };
  int error = 0;
  for (const RingFlags& attempt : kTries) {
    auto ring = std::make_unique<Ring>();
    io_uring_params params{};
    params.flags = attempt.flags;
    // One entry more than requests: the eventfd read.
    error = -io_uring_queue_init_params(options_.queue_depth + 1, &ring->uring, &params);
    if (error == 0) {
      ring_ = std::move(ring);
      return std::string(attempt.name);
    }
    if (error != EINVAL) break;
  }
  return {OffloadErrc::unsupported, refusal("io_uring_setup", error)};
}

/// A profile may allow a ring and forbid its use: nothing is sent through it to find out. 0 or an errno.
int UringBackend::try_entering() {
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_->uring);
  io_uring_prep_nop(sqe);
  int result = io_uring_submit_and_wait(&ring_->uring, 1);
  while (result == -EINTR) result = io_uring_submit_and_wait(&ring_->uring, 1);
  if (result < 0) return -result;
  io_uring_cqe* cqe = nullptr;
  if (io_uring_peek_cqe(&ring_->uring, &cqe) == 0) io_uring_cqe_seen(&ring_->uring, cqe);
  return 0;
}

std::string UringBackend::missing_operations() {
  if ((ring_->uring.features & IORING_FEAT_EXT_ARG) == 0) return "timed waits (EXT_ARG)";
  io_uring_probe* probe = io_uring_get_probe_ring(&ring_->uring);
  if (probe == nullptr) return "the operation probe";
  static constexpr std::pair<int, const char*> kNeeded[] = {
      {IORING_OP_READ, "READ"},
      {IORING_OP_WRITE, "WRITE"},
      {IORING_OP_READ_FIXED, "READ_FIXED"},
      {IORING_OP_WRITE_FIXED, "WRITE_FIXED"},
      {IORING_OP_FSYNC, "FSYNC"},
  };
  std::string missing;
  for (const auto& [op, name] : kNeeded)
    if (io_uring_opcode_supported(probe, op) == 0)
      missing += (missing.empty() ? "" : ", ") + std::string(name);
  has_unlink_ =
      options_.unlink_in_ring && io_uring_opcode_supported(probe, IORING_OP_UNLINKAT) != 0;
  io_uring_free_probe(probe);
  return missing;
}

std::string UringBackend::register_rows() {
  const PrimaryView& view = options_.primary;
  const RegistrationPlan plan = registration_plan(view);
  if (!options_.register_buffers || plan.buffers.empty()) return "plain buffers";

  const int result = io_uring_register_buffers(&ring_->uring, plan.buffers.data(),
                                               static_cast<unsigned>(plan.buffers.size()));
  if (result == 0) {
    chunks_per_buffer_ = plan.chunks_per_buffer;
    return std::to_string(plan.buffers.size()) + " registered buffer" +
           (plan.buffers.size() == 1 ? "" : "s");
  }
  std::string why = "plain buffers (registering " +
                    std::to_string(view.row_bytes * view.num_chunks >> 20) +
                    " MiB: " + std::strerror(-result);
  if (result == -ENOMEM) why += "; raise the locked-memory limit, ulimit -l";
  return why + ")";
}

int UringBackend::buffer_index(const std::byte* begin, std::uint64_t length) const {
  if (chunks_per_buffer_ == 0) return -1;
  const PrimaryView& view = options_.primary;
  const std::byte* end = view.base + view.row_bytes * view.num_chunks;
  if (begin < view.base || begin + length > end) return -1;
  const std::uint64_t bytes_per_buffer = view.row_bytes * chunks_per_buffer_;
  const auto at = static_cast<std::uint64_t>(begin - view.base);
  const std::uint64_t first = at / bytes_per_buffer;
  if ((at + length - 1) / bytes_per_buffer != first) return -1;
  return static_cast<int>(first);
}

void UringBackend::post_wake_read() {
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_->uring);
  if (sqe == nullptr) return;  // posted by the next reap, once there is room
  io_uring_prep_read(sqe, wake_fd_, &wake_count_, sizeof wake_count_, 0);
  sqe->user_data = kWakeTag;
  wake_posted_ = true;
}

bool UringBackend::push(const IoRequest& request) {
  assert(request.tag != kWakeTag);
  if (in_flight_ >= options_.queue_depth) return false;
  if (request.op == IoOp::unlink && !has_unlink_) {
    ready_.push_back({request.tag, ::unlink(request.path) == 0 ? 0 : -errno});
    ++in_flight_;
    return true;
  }
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_->uring);
  if (sqe == nullptr) return false;
  switch (request.op) {
    case IoOp::read:
      if (request.buffer_index >= 0)
        io_uring_prep_read_fixed(sqe, request.fd, request.buffer, request.length, request.offset,
                                 request.buffer_index);
      else
        io_uring_prep_read(sqe, request.fd, request.buffer, request.length, request.offset);
      break;
    case IoOp::write:
      if (request.buffer_index >= 0)
        io_uring_prep_write_fixed(sqe, request.fd, request.buffer, request.length, request.offset,
                                  request.buffer_index);
      else
        io_uring_prep_write(sqe, request.fd, request.buffer, request.length, request.offset);
      break;
    case IoOp::sync_data: io_uring_prep_fsync(sqe, request.fd, IORING_FSYNC_DATASYNC); break;
    case IoOp::sync_file: io_uring_prep_fsync(sqe, request.fd, 0); break;
    case IoOp::unlink: io_uring_prep_unlinkat(sqe, AT_FDCWD, request.path, 0); break;
  }
  sqe->user_data = request.tag;
  ++in_flight_;
  return true;
}

int UringBackend::submit() { return tolerate(io_uring_submit_and_get_events(&ring_->uring)); }

int UringBackend::reap(std::vector<IoCompletion>& completions, Duration wait) {
  if (!wake_posted_) post_wake_read();
  int result = 0;
  if (wait <= Duration::zero() || !ready_.empty()) {
    result = io_uring_submit_and_get_events(&ring_->uring);
  } else {
    __kernel_timespec timeout = to_timespec(wait);
    io_uring_cqe* first = nullptr;
    result = io_uring_submit_and_wait_timeout(&ring_->uring, &first, 1, &timeout, nullptr);
  }
  const int fatal = tolerate(result);
  take_completions(completions);
  return fatal;
}

/// Sorts the results of a submit into normal (0) and fatal (errno).
int UringBackend::tolerate(int result) {
  if (result >= 0 || result == -ETIME || result == -EINTR) {
    refusals_ = 0;
    return 0;
  }
  // No memory for a request, or completions must be reaped first: what was pushed stays in the
  // submission queue and goes with the next submit.
  if (result == -EAGAIN || result == -EBUSY) {
    if (++refusals_ > kRefusalsMax) return -result;
    pause_ms(1);
    return 0;
  }
  return -result;
}

void UringBackend::take_completions(std::vector<IoCompletion>& completions) {
  unsigned head = 0;
  unsigned count = 0;
  io_uring_cqe* cqe = nullptr;
  io_uring_for_each_cqe(&ring_->uring, head, cqe) {
    ++count;
    if (cqe->user_data == kWakeTag) {
      wake_posted_ = false;
      continue;
    }
    completions.push_back({cqe->user_data, cqe->res});
    --in_flight_;
  }
  io_uring_cq_advance(&ring_->uring, count);
  completions.insert(completions.end(), ready_.begin(), ready_.end());
  in_flight_ -= ready_.size();
  ready_.clear();
  if (!wake_posted_) post_wake_read();
}

void UringBackend::wake() {
  const std::uint64_t one = 1;
  // Fails only if the counter would overflow, and then the lane is being woken anyway.
  [[maybe_unused]] const ssize_t written = ::write(wake_fd_, &one, sizeof one);
}

std::string why_no_uring() {
  io_uring ring{};
  const int result = io_uring_queue_init(2, &ring, 0);
  if (result < 0) return refusal("io_uring_setup", -result);
  io_uring_queue_exit(&ring);
  return {};
}

}  // namespace kv_offload
