#include "kv_offload/tiers/device/host_stream.hpp"

#include "kv_offload/tiers/device/host_crew.hpp"
#include "kv_offload/tiers/io/io_thread.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

namespace kv_offload {
namespace {

using Clock = std::chrono::steady_clock;
constexpr Duration kPatienceMax =
    std::chrono::hours(24);  // longer is the same, and far from the clock's overflow

struct Wait {
  std::shared_ptr<HostMark> mark;
};
struct Copy {
  std::vector<CopyFragment> fragments;
};
struct Then {
  std::function<void(std::string, Duration)> done;
};
struct Launch {
  std::function<std::string()> work;
};
struct Record {
  std::shared_ptr<HostMark> mark;
};
using Operation = std::variant<Wait, Copy, Then, Launch, Record>;

const char* text_of(const Operation& operation) {
  static constexpr const char* kTexts[] = {"a wait for an event", "a copy", "the report of an end",
                                           "work", "an event"};
  return kTexts[operation.index()];
}

}  // namespace

struct HostStream::Impl {
  Impl(const HostOptions& o, std::string l)
      : options(o), label(std::move(l)), crew(o.threads_per_stream - 1, label) {
    const SignalsBlocked blocked;
    thread = std::thread([this] { run(); });
  }

  Expected<Ok> push(Operation operation) {
    const std::lock_guard lock(mutex);
    if (queue.size() >= kOperationsMax)
      return {OffloadErrc::busy,
              "stream " + label + ": " + std::to_string(queue.size()) + " operations wait already"};
    queue.push_back(std::move(operation));
    changed.notify_all();
    return Ok{};
  }

  void run() {
    name_this_thread(label);
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return is_over || !queue.empty(); });
      if (queue.empty()) return;
      Operation operation = std::move(queue.front());
      queue.pop_front();
      running = text_of(operation);
      lock.unlock();
      std::visit([this](auto& o) { perform(o); }, operation);
      operation = Wait{};  // what it holds goes before anyone is told that it ended
      lock.lock();
      running = nullptr;
      if (queue.empty()) changed.notify_all();
    }
  }

  void perform(Wait& wait) {
    if (auto why = wait.mark->wait(); !why.empty()) fail("the event waited for failed: " + why);
  }
  void perform(Copy& copy) {
    if (failed()) return;
    const auto begin = Clock::now();
    if (!timed) first_begin = begin;
    timed = true;
    HostTrouble trouble;
    if (options.before_copy) trouble = options.before_copy(copy.fragments);
    if (trouble.error.empty())
      crew.copy(copy.fragments);
    else if (trouble.device_lost)
      lost = trouble.error;
    else
      fail(trouble.error);
    last_end = Clock::now();
  }
  void perform(Then& then) {
    const Duration time = timed ? last_end - first_begin : Duration{};
    timed = false;
    std::string error = lost.empty() ? std::exchange(job_error, {}) : lost;
    if (!lost.empty()) remember(lost);
    then.done(std::move(error), time);
  }
  void perform(Launch& launch) {
    if (failed()) return;
    if (auto why = launch.work(); !why.empty()) fail(why);
  }
  void perform(Record& record) { record.mark->pass(lost.empty() ? job_error : lost); }

  [[nodiscard]] bool failed() const { return !lost.empty() || !job_error.empty(); }
  void fail(std::string why) {
    if (job_error.empty()) job_error = std::move(why);
  }
  /// For whoever synchronises. The failure of one job is told at its end and is over.
  void remember(const std::string& error) {
    const std::lock_guard lock(mutex);
    last_error = error;
  }

  const HostOptions options;
  const std::string label;
  HostCrew crew;

  // Of the stream's thread.
  std::string job_error;  // until the next end is told
  std::string lost;       // for ever
  bool timed = false;
  Clock::time_point first_begin, last_end;

  std::mutex mutex;  // guards the rest
  std::condition_variable changed;
  std::deque<Operation> queue;
  const char* running = nullptr;
  std::string last_error;
  bool is_over = false;
  std::thread thread;
};

HostStream::HostStream(const HostOptions& options, const std::string& label)
    : impl_(std::make_unique<Impl>(options, label)) {}

HostStream::~HostStream() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->is_over = true;
    impl_->changed.notify_all();
  }
  impl_->thread.join();
}

Expected<Ok> HostStream::wait(DeviceEventHandle event) {
  if (event == 0) return Ok{};
  auto mark = host_mark_of(event);
  if (!mark) return mark.error();
  if (*mark == nullptr) return Ok{};
  return impl_->push(Wait{std::move(*mark)});
}

Expected<Ok> HostStream::copy(std::span<const CopyFragment> fragments, bool) {
  try {
    return impl_->push(Copy{{fragments.begin(), fragments.end()}});
  } catch (const std::bad_alloc&) {
    return {OffloadErrc::no_space, "stream " + impl_->label + ": no memory for " +
                                       std::to_string(fragments.size()) + " fragments"};
  }
}

Expected<Ok> HostStream::then(std::function<void(std::string, Duration)> done) {
  return impl_->push(Then{std::move(done)});
}

Expected<Ok> HostStream::launch(std::function<std::string()> work) {
  return impl_->push(Launch{std::move(work)});
}

Expected<Ok> HostStream::record(const HostEvent& event) {
  auto mark = std::make_shared<HostMark>();
  // First the place in the queue, then the event: a mark that is refused must not be waited for.
  if (auto pushed = impl_->push(Record{mark}); !pushed) return pushed;
  event.set_mark(std::move(mark));
  return Ok{};
}

Expected<Ok> HostStream::synchronize(Duration patience) {
  Impl& s = *impl_;
  std::unique_lock lock(s.mutex);
  const auto is_idle = [&s] { return s.queue.empty() && s.running == nullptr; };
  if (!s.changed.wait_until(lock, Clock::now() + std::clamp(patience, Duration{}, kPatienceMax),
                            is_idle))
    return {OffloadErrc::deadline,
            "stream " + s.label + ": " + (s.running != nullptr ? s.running : "nothing") +
                " is running and " + std::to_string(s.queue.size()) + " operations wait after " +
                std::to_string(to_seconds(patience)) + " s"};
  if (!s.last_error.empty())
    return {OffloadErrc::io_error, "stream " + s.label + ": " + s.last_error};
  return Ok{};
}

}  // namespace kv_offload
