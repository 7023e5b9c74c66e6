#pragma once

#include "kv_offload/messages/monotonic_time.hpp"

#include <algorithm>
#include <cstdint>
#include <random>

namespace kv_offload {

struct S3RetryOptions {
  std::uint32_t attempts = 4;                                 ///< of one call, the first included
  Duration base = std::chrono::milliseconds(50);              ///< before the second, at most
  Duration max = std::chrono::seconds(2);                     ///< before any
  double budget_share = 0.2;                                  ///< retries per call that went well
  std::uint32_t budget_burst = 32;                            ///< retries saved up at most
};

/// When a call may be made again. The wait is drawn from (0, base * 2^n], so that engines which failed together
/// do not come back together; a budget of retries that only successes fill keeps retries from multiplying the
/// load of a store that cannot serve what it has. One owner.
class S3Retry {
 public:
  S3Retry(S3RetryOptions options, std::uint64_t seed)
      : options_(options), random_(seed), budget_(options.budget_burst) {}

  void succeeded() { budget_ = std::min<double>(budget_ + options_.budget_share, options_.budget_burst); }
  [[nodiscard]] bool has_attempt(std::uint32_t made) const { return made < options_.attempts; }
  /// Takes one retry out of the budget. False: it is spent.
  bool take() {
    if (budget_ < 1) return false;
    budget_ -= 1;
    return true;
  }
  /// @param made  attempts so far, at least one
  Duration wait_after(std::uint32_t made) {
    const std::uint32_t doublings = std::min<std::uint32_t>(made - 1, 20);
    const Duration most = std::min<Duration>(options_.max, options_.base * (1LL << doublings));
    std::uniform_int_distribution<std::int64_t> draw(1, std::max<std::int64_t>(1, most.count()));
    return Duration(draw(random_));
  }

 private:
  const S3RetryOptions options_;
  std::mt19937_64 random_;
  double budget_;
};

struct S3BreakerOptions {
  std::uint32_t failures = 8;                               ///< in a row that open it; 0: never
  Duration open = std::chrono::seconds(1);                  ///< the first time
  Duration open_max = std::chrono::seconds(30);             ///< doubled until then
};

/// Stops asking a store that does not answer: every lookup would wait for its time limit. Once the time is over,
/// one call goes out and decides. One owner.
class S3Breaker {
 public:
  explicit S3Breaker(S3BreakerOptions options) : options_(options), next_open_(options.open) {}

  /// Whether a call may go out now. The one that goes out of an open breaker must be told about.
  bool may_call(MonotonicTime now) {
    if (!is_open_) return true;
    if (now < until_ || probing_) return false;
    probing_ = true;
    return true;
  }
  void answered() {
    failures_ = 0;
    is_open_ = probing_ = false;
    next_open_ = options_.open;
  }
  /// True: it opened just now.
  bool failed(MonotonicTime now) {
    ++failures_;
    const bool again = is_open_ && probing_;
    if (options_.failures == 0 || (!again && (is_open_ || failures_ < options_.failures))) return false;
    is_open_ = true;
    probing_ = false;
    until_ = now + next_open_;
    next_open_ = std::min<Duration>(next_open_ * 2, options_.open_max);
    return true;
  }
  /// The call that was to decide ended without an answer about the store.
  void abandoned() { probing_ = false; }
  [[nodiscard]] bool is_open() const { return is_open_; }

 private:
  const S3BreakerOptions options_;
  Duration next_open_;
  std::uint32_t failures_ = 0;
  MonotonicTime until_{};
  bool is_open_ = false;
  bool probing_ = false;
};

}  // namespace kv_offload
