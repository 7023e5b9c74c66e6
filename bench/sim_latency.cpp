#include "kv_offload/bench/sim_latency.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace kv_offload::bench {
namespace {

constexpr double kLatencyMax = 3600;

double as_number(const ConfigNode& node) {
  if (const auto* d = std::get_if<double>(&node.value())) return *d;
  if (const auto* i = std::get_if<std::int64_t>(&node.value())) return static_cast<double>(*i);
  return -1;
}

}  // namespace

double uniform(Random& random) { return static_cast<double>(random.next() >> 11) * 0x1.0p-53; }

double lognormal(Random& random, double median, double sigma) {
  if (sigma == 0) return median;
  // Box and Muller; the second of the pair is not kept, so that every draw takes two numbers.
  const double radius = std::sqrt(-2 * std::log(1 - uniform(random)));
  return median * std::exp(sigma * radius * std::cos(2 * std::numbers::pi * uniform(random)));
}

double exponential(Random& random, double mean) { return -mean * std::log(1 - uniform(random)); }

Duration SimLatency::draw(Random& random, std::uint64_t bytes) const {
  if (!recorded.empty()) {
    const auto& [of_bytes, seconds] = recorded[random.below(recorded.size())];
    return from_seconds(seconds * static_cast<double>(bytes) / static_cast<double>(of_bytes));
  }
  const double seconds = lognormal(random, median_s, sigma);
  return from_seconds(max_s > 0 ? std::min(seconds, max_s) : seconds);
}

bool read_recorded(const ConfigNode& node, SimLatency& latency) {
  const auto* list = node.list();
  if (list == nullptr || list->empty()) return false;
  for (const ConfigNode& entry : *list) {
    const auto* pair = entry.list();
    if (pair == nullptr || pair->size() != 2) return false;
    const double bytes = as_number((*pair)[0]);
    const double seconds = as_number((*pair)[1]);
    if (!(bytes >= 1 && bytes < 1e15 && seconds >= 0 && seconds <= kLatencyMax)) return false;
    latency.recorded.emplace_back(static_cast<std::uint64_t>(bytes), seconds);
  }
  return true;
}

SimLatency read_latency(ConfigReader& reader, const std::string& key) {
  SimLatency latency;
  const ConfigNode* node = reader.child(key);
  if (node == nullptr) return latency;
  if (node->object() == nullptr) {
    latency.median_s = reader.number(key, 0, 0, kLatencyMax);
    return latency;
  }
  ConfigReader inner(*node, reader.path_of(key));
  latency.median_s = inner.number("median_s", 0, 0, kLatencyMax);
  latency.sigma = inner.number("sigma", 0, 0, 10);
  latency.max_s = inner.number("max_s", 0, 0, kLatencyMax);
  if (const ConfigNode* recorded = inner.child("recorded");
      recorded != nullptr && !read_recorded(*recorded, latency))
    inner.fail("recorded", *recorded, "a list of [bytes, seconds]");
  if (auto error = inner.finish()) reader.fail(error->detail);
  return latency;
}

}  // namespace kv_offload::bench
