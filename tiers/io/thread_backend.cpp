#include "kv_offload/tiers/io/thread_backend.hpp"

#include "kv_offload/tiers/io/io_thread.hpp"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace kv_offload {

namespace {

/// A thread between two calls ends at once. Whoever destroys the backend with requests out has waited
/// for them already; this is for the last one of a device that is slow and not dead.
constexpr auto kEndPatience = std::chrono::seconds(1);
/// Waits longer than this are the same to a lane, and far from any overflow of the clock.
constexpr Duration kWaitMax = std::chrono::hours(24);

}  // namespace

std::int32_t perform_io(const IoRequest& r) {
  const auto offset = static_cast<off_t>(r.offset);
  ssize_t result = 0;
  switch (r.op) {
    case IoOp::read: result = ::pread(r.fd, r.buffer, r.length, offset); break;
    case IoOp::write: result = ::pwrite(r.fd, r.buffer, r.length, offset); break;
    case IoOp::sync_data: result = ::fdatasync(r.fd); break;
    case IoOp::sync_file: result = ::fsync(r.fd); break;
    case IoOp::unlink: result = ::unlink(r.path); break;
  }
  return static_cast<std::int32_t>(result < 0 ? -errno : result);
}

struct ThreadBackend::Pool {
  explicit Pool(std::uint32_t queue_depth, std::function<std::int32_t(const IoRequest&)> f)
      : perform(std::move(f)), waiting(queue_depth) {
    done.reserve(queue_depth);
  }

  const std::function<std::int32_t(const IoRequest&)> perform;

  std::mutex mutex;  // guards the rest
  std::condition_variable has_work;
  std::condition_variable has_news;   // for the lane's thread
  std::condition_variable has_ended;  // a thread did
  std::vector<IoRequest> waiting;     // a ring of fixed size
  std::size_t first = 0;
  std::size_t count = 0;
  std::vector<IoCompletion> done;  // never more than queue_depth: threads allocate nothing
  std::uint32_t idle = 0;          // threads waiting for work
  std::uint32_t alive = 0;
  bool lane_waits = false;
  bool is_woken = false;
  bool is_over = false;
};

ThreadBackend::ThreadBackend(ThreadOptions options)
    : queue_depth_(std::max(options.queue_depth, 1U)),
      num_threads_(std::clamp(std::min(options.threads, options.queue_depth), 1U, kThreadsMax)),
      name_(std::move(options.name)),
      pool_(std::make_shared<Pool>(queue_depth_, std::move(options.perform))) {
  pushed_.reserve(queue_depth_);
}

ThreadBackend::~ThreadBackend() { close(); }

void ThreadBackend::close() {
  std::unique_lock lock(pool_->mutex);
  pool_->is_over = true;
  pool_->has_work.notify_all();
  const bool all_ended =
      pool_->has_ended.wait_for(lock, kEndPatience, [this] { return pool_->alive == 0; });
  lock.unlock();
  for (std::thread& thread : threads_)
    if (all_ended)
      thread.join();
    else
      thread.detach();
  threads_.clear();
}

Expected<std::string> ThreadBackend::open() {
  assert(threads_.empty());
  threads_.reserve(num_threads_);
  const SignalsBlocked signals_blocked;
  try {
    for (std::uint32_t i = 0; i < num_threads_; ++i) {
      {
        const std::lock_guard lock(pool_->mutex);
        ++pool_->alive;
      }
      threads_.emplace_back([pool = pool_, name = "kvo" + std::to_string(i) + "-" + name_] {
        name_this_thread(name);
        work(*pool);
      });
    }
  } catch (const std::system_error& e) {
    const std::lock_guard lock(pool_->mutex);
    --pool_->alive;
    return {OffloadErrc::io_error, "I/O thread " + std::to_string(threads_.size() + 1) + " of " +
                                       std::to_string(num_threads_) + ": " + e.code().message() +
                                       "; raise the limit of processes (ulimit -u, pids.max)"};
  }
  return std::to_string(num_threads_) + (num_threads_ == 1 ? " I/O thread" : " I/O threads");
}

void ThreadBackend::work(Pool& pool) {
  std::unique_lock lock(pool.mutex);
  while (true) {
    ++pool.idle;
    pool.has_work.wait(lock, [&] { return pool.count > 0 || pool.is_over; });
    --pool.idle;
    if (pool.is_over) break;
    const IoRequest request = pool.waiting[pool.first];
    pool.first = (pool.first + 1) % pool.waiting.size();
    --pool.count;
    lock.unlock();
    const std::int32_t result = pool.perform(request);
    lock.lock();
    pool.done.push_back({request.tag, result});
    if (pool.lane_waits) pool.has_news.notify_one();
  }
  --pool.alive;
  pool.has_ended.notify_all();
}

bool ThreadBackend::push(const IoRequest& request) {
  if (in_flight_ >= queue_depth_) return false;
  pushed_.push_back(request);
  ++in_flight_;
  return true;
}

int ThreadBackend::submit() {
  if (pushed_.empty()) return 0;
  std::size_t to_wake = 0;
  {
    const std::lock_guard lock(pool_->mutex);
    for (const IoRequest& request : pushed_)
      pool_->waiting[(pool_->first + pool_->count++) % pool_->waiting.size()] = request;
    to_wake = std::min<std::size_t>(pushed_.size(), pool_->idle);
  }
  pushed_.clear();
  for (; to_wake > 0; --to_wake) pool_->has_work.notify_one();
  return 0;
}

int ThreadBackend::reap(std::vector<IoCompletion>& completions, Duration wait) {
  submit();
  std::unique_lock lock(pool_->mutex);
  if (wait > Duration::zero()) {
    pool_->lane_waits = true;
    pool_->has_news.wait_for(lock, std::min(wait, kWaitMax),
                             [this] { return !pool_->done.empty() || pool_->is_woken; });
    pool_->lane_waits = false;
    pool_->is_woken = false;
  }
  completions.insert(completions.end(), pool_->done.begin(), pool_->done.end());
  in_flight_ -= pool_->done.size();
  pool_->done.clear();
  return 0;
}

void ThreadBackend::wake() {
  const std::lock_guard lock(pool_->mutex);
  pool_->is_woken = true;
  if (pool_->lane_waits) pool_->has_news.notify_one();
}

}  // namespace kv_offload
