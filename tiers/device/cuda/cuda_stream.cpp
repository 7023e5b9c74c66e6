#include "kv_offload/tiers/device/cuda/cuda_stream.hpp"

#include "kv_offload/tiers/device/cuda/cuda_batch.hpp"
#include "kv_offload/tiers/device/cuda/cuda_call.hpp"
#include "kv_offload/tiers/io/io_thread.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace kv_offload {
namespace {

using Clock = std::chrono::steady_clock;
constexpr Duration kPatienceMax =
    std::chrono::hours(24);                 // longer is the same, and far from the clock's overflow
constexpr std::size_t kEventsKept = 64;     // made anew beyond that; one costs a microsecond or two
constexpr std::size_t kEndsMax = 1U << 16;  // waiting at once; one more is refused with `busy`

/// An end that the thread waits for.
struct End {
  cudaEvent_t begin = nullptr, end = nullptr;  // begin: null if nothing was copied
  std::string error;                           // found when it was enqueued
  std::function<void(std::string, Duration)> done;
};

}  // namespace

struct CudaStream::Impl {
  const int device;
  const std::string label;
  const std::shared_ptr<CudaRegistration> registration;
  cudaStream_t stream = nullptr;

  // Of whoever enqueues.
  CudaBatch batch;
  cudaEvent_t begin = nullptr;  // of the first copy since the last end

  std::mutex mutex;  // guards the rest
  std::condition_variable changed;
  std::deque<End> ends;
  std::vector<cudaEvent_t> free_events;
  bool is_over = false;
  std::thread thread;

  Impl(int d, std::string l, std::shared_ptr<CudaRegistration> r)
      : device(d), label(std::move(l)), registration(std::move(r)) {}
  ~Impl() {
    if (thread.joinable()) {
      {
        const std::lock_guard lock(mutex);
        is_over = true;
        changed.notify_all();
      }
      thread.join();
    }
    const DeviceGuard guard(device);
    if (begin != nullptr) free_events.push_back(begin);
    for (cudaEvent_t event : free_events) static_cast<void>(cudaEventDestroy(event));
    if (stream != nullptr) static_cast<void>(cudaStreamDestroy(stream));
    static_cast<void>(cudaGetLastError());
  }

  std::string who() const { return "stream " + label; }

  cudaError_t take_event(cudaEvent_t& event) {
    {
      const std::lock_guard lock(mutex);
      if (!free_events.empty()) {
        event = free_events.back();
        free_events.pop_back();
        return cudaSuccess;
      }
    }
    // Blocking: the thread that waits sleeps instead of spinning on a core of the embedder's.
    return cudaEventCreateWithFlags(&event, cudaEventBlockingSync);
  }
  void give_back(cudaEvent_t event) {
    if (event == nullptr) return;
    {
      const std::lock_guard lock(mutex);
      if (free_events.size() < kEventsKept) return free_events.push_back(event);
    }
    static_cast<void>(cudaEventDestroy(event));
  }
  cudaError_t record_new(cudaEvent_t& event) {
    if (const auto error = take_event(event); error != cudaSuccess) return error;
    return cudaEventRecord(event, stream);
  }

  void run() {
    name_this_thread(label);
    static_cast<void>(cudaSetDevice(device));
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return is_over || !ends.empty(); });
      if (ends.empty()) return;
      End end = std::move(ends.front());
      ends.pop_front();
      lock.unlock();
      tell(end);
      lock.lock();
    }
  }

  void tell(End& end) {
    float milliseconds = 0;
    cudaError_t error = cudaSuccess;
    // Either answers an error only if the device runs nothing of this context any more.
    if (end.error.empty() && end.end != nullptr)
      error = cudaEventSynchronize(end.end);
    else
      error = cudaStreamSynchronize(stream);
    if (error == cudaSuccess && end.error.empty() && end.begin != nullptr)
      static_cast<void>(cudaEventElapsedTime(&milliseconds, end.begin, end.end));
    if (error != cudaSuccess && end.error.empty())
      end.error = to_string(cuda_error(who() + ": the device failed", error));
    static_cast<void>(cudaGetLastError());
    give_back(end.begin);
    give_back(end.end);
    end.done(std::move(end.error),
             std::chrono::duration_cast<Duration>(
                 std::chrono::duration<double, std::milli>(static_cast<double>(milliseconds))));
  }
};

CudaStream::CudaStream(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CudaStream::~CudaStream() = default;

Expected<std::unique_ptr<DeviceStream>> CudaStream::open(
    int device, const std::string& label, std::shared_ptr<CudaRegistration> registration) {
  auto impl = std::make_unique<Impl>(device, label, std::move(registration));
  {
    const DeviceGuard guard(device);
    cudaError_t error = guard.error();
    // Does not wait for the legacy default stream, nor that for it: copies run beside whatever is
    // computed there.
    if (error == cudaSuccess)
      error = cudaStreamCreateWithFlags(&impl->stream, cudaStreamNonBlocking);
    if (error != cudaSuccess) return cuda_error(impl->who() + " could not be opened", error);
  }
  try {
    const SignalsBlocked blocked;
    impl->thread = std::thread([s = impl.get()] { s->run(); });
  } catch (const std::system_error& error) {
    return {OffloadErrc::io_error,
            impl->who() + ": its thread could not be started: " + error.what()};
  }
  return std::unique_ptr<DeviceStream>(new CudaStream(std::move(impl)));
}

Expected<Ok> CudaStream::wait(DeviceEventHandle event) {
  if (event == 0) return Ok{};
  const DeviceGuard guard(impl_->device);
  if (guard.error() != cudaSuccess) return cuda_error(impl_->who(), guard.error());
  const auto error = cudaStreamWaitEvent(impl_->stream, reinterpret_cast<cudaEvent_t>(event), 0);
  if (error != cudaSuccess)
    return cuda_error(impl_->who() + ": after: the event cannot be waited for", error);
  return Ok{};
}

Expected<Ok> CudaStream::copy(std::span<const CopyFragment> fragments, bool is_load) try {
  const DeviceGuard guard(impl_->device);
  if (guard.error() != cudaSuccess) return cuda_error(impl_->who(), guard.error());
  if (impl_->begin == nullptr)
    if (const auto error = impl_->record_new(impl_->begin); error != cudaSuccess)
      return cuda_error(impl_->who() + ": its begin cannot be recorded", error);
  return impl_->batch.enqueue(fragments, is_load, *impl_->registration, impl_->stream);
} catch (const std::bad_alloc&) {
  return {OffloadErrc::no_space, impl_->who() + ": memory is exhausted"};
}

Expected<Ok> CudaStream::then(std::function<void(std::string, Duration)> done) {
  Impl& s = *impl_;
  End end{std::exchange(s.begin, nullptr), nullptr, {}, std::move(done)};
  {
    const DeviceGuard guard(s.device);
    const auto error = guard.error() != cudaSuccess ? guard.error() : s.record_new(end.end);
    // The thread finds out whether anything still runs; it can say the end all the same.
    if (error != cudaSuccess)
      end.error = to_string(cuda_error(s.who() + ": an end cannot be recorded", error));
  }
  std::unique_lock lock(s.mutex);
  if (s.ends.size() >= kEndsMax) {
    lock.unlock();
    s.begin = end.begin;
    s.give_back(end.end);
    return {OffloadErrc::busy,
            s.who() + ": " + std::to_string(kEndsMax) + " ends are waited for already"};
  }
  s.ends.push_back(std::move(end));
  s.changed.notify_all();
  return Ok{};
}

Expected<Ok> CudaStream::synchronize(Duration patience) {
  struct Told {
    std::mutex mutex;
    std::condition_variable changed;
    bool is_told = false;
    std::string error;
  };
  const auto told = std::make_shared<Told>();
  auto enqueued = then([told](const std::string& error, Duration) {
    const std::lock_guard lock(told->mutex);
    told->error = error;
    told->is_told = true;
    told->changed.notify_all();
  });
  if (!enqueued)
    return {OffloadErrc::deadline, to_string(enqueued.error())};  // not known to have ended
  std::unique_lock lock(told->mutex);
  const auto until = Clock::now() + std::clamp(patience, Duration{}, kPatienceMax);
  if (!told->changed.wait_until(lock, until, [&] { return told->is_told; }))
    return {OffloadErrc::deadline, impl_->who() +
                                       ": the device has not ended what it was given after " +
                                       std::to_string(to_seconds(patience)) + " s"};
  if (!told->error.empty()) return {OffloadErrc::io_error, told->error};
  return Ok{};
}

}  // namespace kv_offload
