#include "kv_offload/actors/http_health.hpp"

#include <nlohmann/json.hpp>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

namespace kv_offload {
namespace {

using Clock = std::chrono::steady_clock;

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::string milliseconds(Duration d) {
  return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(d).count()) + " ms";
}

}  // namespace

EngineHealth health_of(const EngineStats& stats) {
  EngineHealth health;
  for (std::size_t t = 0; t + 1 < stats.tier_labels.size(); ++t) {
    const bool is_disabled = t < stats.tracker.tiers.size() && stats.tracker.tiers[t].disabled;
    const bool is_dead = t < stats.tiers.size() && !stats.tiers[t].alive;
    if (is_disabled || is_dead) health.disabled_tiers.push_back(stats.tier_labels[t + 1]);
  }
  if (health.disabled_tiers.empty()) return health;
  health.status = HealthStatus::degraded;
  health.reason = "disabled: " + listed(health.disabled_tiers);
  return health;
}

std::string health_json(const EngineHealth& health) {
  nlohmann::ordered_json json;
  json["status"] = to_string(health.status);
  if (!health.reason.empty()) json["reason"] = health.reason;
  json["disabled_tiers"] = health.disabled_tiers;
  if (serves(health.status)) json["answer_seconds"] = health.answer_s;
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

struct HealthProbe::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::uint64_t asked = 0, answered = 0;  // the same while no question is open
  Clock::time_point asked_at;
  std::optional<EngineHealth> answer;  // of the last answered question; empty: an error
  std::string error;
  bool ends = false;

  void take(const Expected<EngineStats>& stats) {
    const std::scoped_lock lock(mutex);
    answer.reset();
    if (stats) {
      answer = health_of(*stats);
      answer->answer_s = to_seconds(Clock::now() - asked_at);
    } else {
      error = to_string(stats.error());
    }
    answered = asked;
    changed.notify_all();
  }
};

HealthProbe::HealthProbe(std::function<void(Reply<EngineStats>)> ask,
                         std::function<std::string()> failed, Duration patience)
    : ask_(std::move(ask)),
      failed_(std::move(failed)),
      patience_(patience),
      shared_(std::make_shared<Shared>()) {}

EngineHealth HealthProbe::check() {
  const auto until = Clock::now() + patience_;
  const auto down = [&]() -> std::optional<EngineHealth> {
    if (shared_->ends)
      return EngineHealth{HealthStatus::shutting_down, "the engine is shutting down", {}, 0};
    if (std::string name = failed_(); !name.empty())
      return EngineHealth{HealthStatus::failed, std::move(name), {}, 0};
    return std::nullopt;
  };
  std::unique_lock lock(shared_->mutex);
  if (auto health = down()) return *health;
  if (shared_->asked == shared_->answered) {
    ++shared_->asked;
    shared_->asked_at = Clock::now();
    auto slot = std::make_shared<CompletionSlot<EngineStats>>(0U);
    slot->on_ready([shared = shared_](const Expected<EngineStats>& s) { shared->take(s); });
    lock.unlock();
    ask_(Reply<EngineStats>(std::move(slot)));  // may answer at once
    lock.lock();
  }
  const std::uint64_t question = shared_->asked;
  const auto is_over = [&] { return shared_->ends || shared_->answered >= question; };
  const bool in_time = shared_->changed.wait_until(lock, until, is_over);
  if (auto health = down()) return *health;
  if (!in_time)
    return {HealthStatus::unresponsive,
            "the engine's actors have not answered for " +
                milliseconds(Clock::now() - shared_->asked_at),
            {},
            0};
  if (!shared_->answer)
    return {HealthStatus::unresponsive, "the engine's actors answered: " + shared_->error, {}, 0};
  return *shared_->answer;
}

void HealthProbe::begin_shutdown() {
  const std::scoped_lock lock(shared_->mutex);
  shared_->ends = true;
  shared_->changed.notify_all();
}

}  // namespace kv_offload
