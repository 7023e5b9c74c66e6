#include "kv_offload/tests/support/tier_fs_fixture.hpp"
#include "kv_offload/tests/support/tier_memory.hpp"
#include "kv_offload/tiers/io/thread_backend.hpp"
#include "kv_offload/tiers/io/uring_backend.hpp"

#include <catch2/catch.hpp>

#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <memory>
#include <thread>
#include <unistd.h>
#include <vector>

// What a lane relies on, whichever backend it has.
namespace kv_offload {
namespace {

using test::TierMemory;

/// The ring and the pool of threads, one after the other, open.
std::unique_ptr<IoBackend> each_backend(const TierMemory& memory) {
  std::unique_ptr<IoBackend> backend;
  if (GENERATE(true, false)) {
    backend = std::make_unique<UringBackend>(UringOptions{4, memory.view(), true, true});
  } else {
    ThreadOptions options;
    options.queue_depth = 4;
    backend = std::make_unique<ThreadBackend>(options);
  }
  const auto opened = backend->open();
  REQUIRE(opened);
  UNSCOPED_INFO(*opened);
  return backend;
}

std::int32_t result_of(IoBackend& backend, const IoRequest& request) {
  REQUIRE(backend.push(request));
  std::vector<IoCompletion> done;
  for (int i = 0; i < 100 && done.empty(); ++i)
    REQUIRE(backend.reap(done, std::chrono::seconds(5)) == 0);
  REQUIRE(done.size() == 1);
  CHECK(done[0].tag == request.tag);
  return done[0].result;
}

TEST_CASE("an error is the completion's result and the backend goes on", "[io][uring]") {
  KV_OFFLOAD_NEEDS_URING();
  TierMemory memory(1, 4096);
  const auto backend = each_backend(memory);
  CHECK(result_of(*backend, {IoOp::read, 9999, 0, memory.row(0).data(), 4096, -1, 7}) == -EBADF);
  CHECK(result_of(*backend, {IoOp::sync_file, 9999, 0, nullptr, 0, -1, 8}) == -EBADF);
  const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  CHECK(result_of(*backend, {IoOp::write, full, 0, memory.row(0).data(), 4096, -1, 9}) == -ENOSPC);
  ::close(full);
  CHECK(backend->in_flight() == 0);
}

TEST_CASE("wake ends a wait, also when it comes before the wait", "[io][uring]") {
  KV_OFFLOAD_NEEDS_URING();
  TierMemory memory(1, 4096);
  const auto backend = each_backend(memory);
  std::vector<IoCompletion> none;
  const Duration for_ever = std::chrono::hours(24 * 365);
  for (int i = 0; i < 3; ++i) {
    backend->wake();
    REQUIRE(backend->reap(none, for_ever) == 0);
  }
  std::thread waker([&] { backend->wake(); });
  REQUIRE(backend->reap(none, for_ever) == 0);
  waker.join();
  CHECK(none.empty());
}

TEST_CASE("a wait without work ends by its limit", "[io][uring]") {
  KV_OFFLOAD_NEEDS_URING();
  TierMemory memory(1, 4096);
  const auto backend = each_backend(memory);
  std::vector<IoCompletion> none;
  CHECK(backend->reap(none, std::chrono::milliseconds(1)) == 0);
  CHECK(backend->reap(none, Duration::zero()) == 0);
  CHECK(none.empty());
}

}  // namespace
}  // namespace kv_offload
