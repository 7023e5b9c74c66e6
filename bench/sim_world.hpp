#pragma once

#include "kv_offload/messages/monotonic_time.hpp"

#include <cstdint>
#include <functional>
#include <vector>

namespace kv_offload::bench {

/// Who else lives in virtual time: the engine's actors.
class SimInhabitant {
 public:
  virtual ~SimInhabitant() = default;
  /// Does everything that is to be done now.
  virtual void settle() = 0;
  /// Time has moved on by `step`, at most up to `next_due()`.
  virtual void advance(Duration step) = 0;
  /// Its next deadline or tick.
  [[nodiscard]] virtual MonotonicTime next_due() const = 0;
};

/// Virtual time and what is due in it. Equal moments happen in the order in which they were asked for, so
/// a run is a function of its inputs. One thread; callbacks only.
class SimWorld {
 public:
  using Action = std::function<void()>;

  /// Time starts here: an arbitrary moment after the clock's epoch, as a real clock's does.
  static constexpr MonotonicTime kStart{std::chrono::seconds(1)};

  [[nodiscard]] MonotonicTime now() const { return now_; }
  /// Seconds since the start.
  [[nodiscard]] double seconds() const { return to_seconds(now_ - kStart); }
  void at(MonotonicTime when, Action action);
  void after(Duration delay, Action action) { at(now_ + delay, std::move(action)); }
  /// Null: nobody. Must stay alive until replaced.
  void inhabit(SimInhabitant* inhabitant) { inhabitant_ = inhabitant; }

  /// Lets things happen until `done`. False: nothing was due for `patience` although it was not done.
  bool run(const std::function<bool()>& done, Duration patience = std::chrono::minutes(10));

 private:
  struct Event {
    MonotonicTime when;
    std::uint64_t sequence;
    Action action;
  };
  static bool later(const Event& a, const Event& b) {
    return a.when != b.when ? a.when > b.when : a.sequence > b.sequence;
  }
  Event take_next();
  void move_to(MonotonicTime when);

  MonotonicTime now_ = kStart;
  std::uint64_t sequence_ = 0;
  std::vector<Event> heap_;
  SimInhabitant* inhabitant_ = nullptr;
};

}  // namespace kv_offload::bench
