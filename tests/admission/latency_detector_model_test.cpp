// The signal seconds per MiB against a model that does what the public detector does, step by step.
#include "kv_offload/admission/latency_detector.hpp"

#include "kv_offload/tests/admission/admission_fixture.hpp"

#include <catch2/catch.hpp>

#include <random>
#include <vector>

using namespace kv_offload;
using namespace kv_offload::test;

namespace {

/// State in the order of the public text, decay left out: there it happens when somebody asks, here
/// with time.
class ModelDetector {
 public:
  explicit ModelDetector(const LatencyDetectorOptions& options) : o_(options) {}

  void complete(double latency, double now) {
    ++completions_;
    if (completions_ <= o_.warmup_completions) {
      warmup_.push_back(latency);
      if (completions_ == o_.warmup_completions) {
        double sum = 0;
        for (const double sample : warmup_) sum += sample;
        average_ = sum / static_cast<double>(warmup_.size());
      }
      return;
    }
    average_ = o_.alpha * latency + (1 - o_.alpha) * average_;
    if (average_ > o_.high_water) {
      pressured_ = true;
      cleared_at_ = 0;
      streak_ = 0;
    } else if (average_ < o_.low_water) {
      if (pressured_) {
        cleared_at_ = now;
        candidates_ = 0;
      }
      pressured_ = false;
      ++streak_;
    } else {
      streak_ = 0;
    }
  }
  bool offer(std::uint32_t chunks, double now) {
    if (!pressured_ && streak_ >= 10) return true;
    if (!pressured_ && cleared_at_ > 0 && now - cleared_at_ < o_.cooldown_s &&
        ++candidates_ % 2 == 0)
      return drop(chunks);
    return pressured_ ? drop(chunks) : true;
  }
  [[nodiscard]] double average() const { return average_; }
  [[nodiscard]] bool pressured() const { return pressured_; }
  [[nodiscard]] std::uint64_t stores() const { return stores_; }
  [[nodiscard]] std::uint64_t dropped() const { return chunks_; }

 private:
  bool drop(std::uint32_t chunks) {
    ++stores_;
    chunks_ += chunks;
    return false;
  }

  LatencyDetectorOptions o_;
  std::vector<double> warmup_;
  double average_ = 0, cleared_at_ = 0;
  std::uint64_t completions_ = 0, stores_ = 0, chunks_ = 0;
  int streak_ = 0, candidates_ = 0;
  bool pressured_ = false;
};

}  // namespace

TEST_CASE("without decay every decision, average and counter is the public detector's",
          "[admission][unit]") {
  const auto seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  const auto uniform = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  int drops = 0, clears = 0;
  for (int run = 0; run < 40; ++run) {
    auto options = per_mib_defaults({run % 2 == 0 ? "fs" : "obj", {}, {}});
    options.decay_half_life_s = 0;
    options.response = PressureResponse::drop;
    options.warmup_completions = static_cast<std::uint32_t>(random() % 12);
    options.alpha = uniform(0.05, 1);
    options.cooldown_s = uniform(0, 2);
    LatencyDetector detector(options);
    ModelDetector model(options);
    double now = 1;
    bool was_pressured = false;
    for (int event = 0; event < 600; ++event) {
      CAPTURE(run, event, now);
      now += uniform(0, 0.2);
      // Phases of a slow, a middling and a fast device.
      const double level = std::vector{3.0, 0.5, 0.05}[static_cast<std::size_t>(event / 40 % 3)];
      if (random() % 2 == 0) {
        const double latency = options.high_water * level * uniform(0.5, 1.5);
        detector.add_sample(latency, at(now));
        model.complete(latency, now);
      } else {
        const auto chunks = static_cast<std::uint32_t>(1 + random() % 8);
        const bool passes = detector.should_store(at(now));
        if (passes)
          detector.on_stored(at(now));
        else
          detector.on_dropped(chunks, at(now));
        REQUIRE(passes == model.offer(chunks, now));
        drops += passes ? 0 : 1;
      }
      REQUIRE(detector.average(at(now)) == Approx(model.average()));
      REQUIRE(detector.is_under_pressure(at(now)) == model.pressured());
      REQUIRE(detector.stores_dropped() == model.stores());
      REQUIRE(detector.chunks_dropped() == model.dropped());
      clears += was_pressured && !model.pressured() ? 1 : 0;
      was_pressured = model.pressured();
    }
  }
  CHECK(drops > 100);
  CHECK(clears > 20);
}
