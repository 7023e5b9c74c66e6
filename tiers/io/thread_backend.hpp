#pragma once

#include "kv_offload/tiers/io/io_backend.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace kv_offload {

/// Does the request with one system call on the calling thread: bytes moved, or a negative errno.
std::int32_t perform_io(const IoRequest& request);

struct ThreadOptions {
  std::string name = "io";          ///< of the lane; thread i is called "kvo<i>-<name>"
  std::uint32_t queue_depth = 128;  ///< requests pushed and not reaped at most
  /// At most queue_depth are started. 16: with direct I/O on a cloud disk it moves 64 KiB rows at 90 to 100 %
  /// of io_uring's rate in most runs, 8 threads at 70 %; rows of 2 MiB need two. Numbers: tiers/README.md.
  std::uint32_t threads = 16;
  /// Replaces the system calls, in tests. Called by the pool's threads.
  std::function<std::int32_t(const IoRequest&)> perform = perform_io;
};

/// Plain system calls on a bounded pool of threads, for where the kernel or a container forbids io_uring.
/// First in, first out. The lane's thread owns it; the pool's threads only take requests and leave
/// completions, under one lock that is never held over a system call.
///
/// The end (close() or the destructor): what no thread has begun is dropped and the threads are joined. One that does not come back
/// from its call within kEndPatience is left behind: then the buffer of its request must stay.
class ThreadBackend final : public IoBackend {
 public:
  static constexpr std::uint32_t kThreadsMax = 64;

  explicit ThreadBackend(ThreadOptions options);
  ~ThreadBackend() override;
  ThreadBackend(const ThreadBackend&) = delete;
  ThreadBackend& operator=(const ThreadBackend&) = delete;

  Expected<std::string> open() override;
  bool push(const IoRequest& request) override;
  int submit() override;
  int reap(std::vector<IoCompletion>& completions, Duration wait) override;
  void wake() override;
  void close() override;
  [[nodiscard]] std::size_t in_flight() const override { return in_flight_; }

 private:
  struct Pool;
  static void work(Pool& pool);

  const std::uint32_t queue_depth_;
  const std::uint32_t num_threads_;
  const std::string name_;
  const std::shared_ptr<Pool> pool_;  // shared with the threads, which may outlive this
  std::vector<std::thread> threads_;
  std::vector<IoRequest> pushed_;  // not yet submitted
  std::size_t in_flight_ = 0;
};

}  // namespace kv_offload
