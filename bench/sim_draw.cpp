#include "kv_offload/bench/sim_draw.hpp"

#include "kv_offload/bench/random.hpp"
#include "kv_offload/bench/sim_latency.hpp"
#include "kv_offload/bench/text_table.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace kv_offload::bench {
namespace {

constexpr std::uint64_t kDrawStream = 0x2545f4914f6cdd1dULL;  // not the streams that the runs draw from
constexpr std::uint64_t kTokensPerChunk = 128;
/// Chunk references of one run: what a run costs in real time. About a second.
constexpr double kReferences = 120'000;
/// Each client asks so often at least, so that its first request is no large part of what is measured.
constexpr double kTurnsPerClient = 30;

double between(Random& random, double low, double high) { return low + (high - low) * uniform(random); }
/// Every factor equally likely, two significant digits.
double spread(Random& random, double low, double high) {
  const double value = low * std::pow(high / low, uniform(random));
  const double digit = std::pow(10, std::floor(std::log10(value)) - 1);
  return std::clamp(std::round(value / digit) * digit, low, high);
}
std::uint64_t whole(double value) { return static_cast<std::uint64_t>(std::llround(value)); }
std::uint64_t pick(Random& random, std::initializer_list<std::uint64_t> values) {
  return *(values.begin() + random.below(values.size()));
}
Json around(double median, double sigma, double max) {
  return {{"median", whole(median)}, {"sigma", sigma}, {"max", whole(max)}};
}

struct Workload {
  Json node;
  double prompt_tokens = 0;   ///< a typical one
  double longest_tokens = 0;  ///< prompt and answer
  double clients = 0;
  std::string words;
};

/// Clients and requests that fit the budget of one run.
void size(Random& random, Workload& w, std::size_t requests_max) {
  const double affordable = kReferences / (w.prompt_tokens / kTokensPerChunk);
  w.clients = std::max(2.0, std::min(spread(random, 4, 64), affordable / kTurnsPerClient));
  double requests = std::clamp(affordable, kTurnsPerClient * std::floor(w.clients), 8'000.0);
  if (requests_max > 0) requests = std::min(requests, static_cast<double>(requests_max));
  w.clients = std::floor(w.clients);
  w.node["concurrency"] = whole(w.clients);
  w.node["requests"] = whole(requests);
}

Workload multi_turn(Random& random, std::size_t requests_max) {
  Workload w;
  const double context = spread(random, 4'000, 64'000), system = random.chance(30) ? 0 : spread(random, 100, 8'000);
  const double first = std::min(spread(random, 300, 10'000), context / 2), turn = spread(random, 50, 3'000);
  const double output = spread(random, 30, 600);
  w.prompt_tokens = (std::min(system + first, context) + context) / 2;
  w.longest_tokens = context + 4 * turn + 4 * output + system;
  w.node = {{"kind", "multi_turn"},
            {"system_tokens", whole(std::min(system, context / 2))},
            {"first_tokens", around(first, 0.5, 3 * first)},
            {"turn_tokens", around(turn, 0.6, 4 * turn)},
            {"output_tokens", around(output, 0.5, 4 * output)},
            {"context_max_tokens", whole(context)},
            {"mid_life", random.chance(75)}};
  size(random, w, requests_max);
  const double sessions = std::max(w.clients, std::round(w.clients * spread(random, 1, 30)));
  w.node["sessions"] = whole(sessions);
  w.words = with_commas(whole(sessions)) + " talks of " + with_commas(whole(context)) + " by " +
            std::to_string(whole(w.clients));
  return w;
}

Workload round_robin(Random& random, std::size_t requests_max) {
  Workload w;
  const double context = spread(random, 2'000, 50'000), question = spread(random, 30, 1'000);
  const double output = spread(random, 30, 400);
  w.prompt_tokens = context + question;
  w.longest_tokens = 2 * context + question + 4 * output;
  w.node = {{"kind", "round_robin"},
            {"context_tokens", around(context, 0.3, 2 * context)},
            {"question_tokens", whole(question)},
            {"output_tokens", around(output, 0.5, 4 * output)}};
  size(random, w, requests_max);
  const double requests = w.node["requests"].get<double>();
  w.node.erase("requests");
  const double contexts = std::max(1.0, std::floor(requests / spread(random, 2, 40)));
  w.node["contexts"] = whole(contexts);
  w.node["rounds"] = std::max<std::uint64_t>(1, whole(requests / contexts));
  w.words = with_commas(whole(contexts)) + " in turn of " + with_commas(whole(context)) + " by " +
            std::to_string(whole(w.clients));
  return w;
}

Workload no_reuse(Random& random, double prefill_tokens_s, std::size_t requests_max) {
  Workload w;
  const double prompt = spread(random, 300, 20'000), output = spread(random, 30, 600);
  w.prompt_tokens = prompt;
  w.longest_tokens = 6 * prompt + 4 * output;
  w.node = {{"kind", "no_reuse"},
            {"prompt_tokens", around(prompt, 0.7, 6 * prompt)},
            {"output_tokens", around(output, 0.5, 4 * output)}};
  size(random, w, requests_max);
  w.words = "no reuse of " + with_commas(whole(prompt)) + " by " + std::to_string(whole(w.clients));
  if (random.chance(50)) return w;
  // At their own times, up to what the device can just do; e^(sigma²/2) is the mean over the median.
  const double load = between(random, 0.3, 0.95);
  w.node["concurrency"] = 0;
  w.node["requests_per_s"] = load * prefill_tokens_s / (prompt * std::exp(0.7 * 0.7 / 2));
  w.words = "no reuse of " + with_commas(whole(prompt)) + " at " + fixed(100 * load, 0) + " % load";
  return w;
}

Workload storm(Random& random, std::size_t requests_max) {
  Workload w;
  const double prefix = spread(random, 2'000, 64'000), suffix = spread(random, 30, 1'000);
  const double output = spread(random, 30, 400);
  w.prompt_tokens = prefix + suffix;
  w.longest_tokens = prefix + 4 * suffix + 4 * output;
  double requests = std::min(spread(random, 50, 400), kReferences / (prefix / kTokensPerChunk));
  if (requests_max > 0) requests = std::min(requests, static_cast<double>(requests_max));
  w.clients = requests;
  w.node = {{"kind", "storm"},
            {"requests", whole(requests)},
            {"prefix_tokens", whole(prefix)},
            {"suffix_tokens", around(suffix, 0.5, 4 * suffix)},
            {"output_tokens", around(output, 0.5, 4 * output)},
            {"spread_s", random.chance(30) ? 0 : spread(random, 0.1, 30)}};
  w.words = "storm of " + std::to_string(whole(requests)) + " on " + with_commas(whole(prefix));
  return w;
}

Json tier(Random& random, double primary_bytes, std::string& words) {
  Json node = Json::object();
  const double read = spread(random, 0.1e9, 10e9), load = spread(random, 0.0001, 0.1);
  const double probe = spread(random, 0.00002, 0.05);
  node["engine"] = Json::object();
  const auto where = random.below(3);
  if (where > 0) node["locality"] = where == 1 ? "LOCAL" : "REMOTE";
  node["capacity_bytes"] = random.chance(50) ? 0 : whole(primary_bytes * spread(random, 1, 20));
  node["loads_first"] = random.chance(75);
  node["depth"] = pick(random, {4, 16, 32, 64});
  const auto latency = [](double median) { return Json{{"median_s", median}, {"sigma", 0.5}, {"max_s", 20 * median}}; };
  node["probe_s"] = latency(probe);
  node["load_s"] = latency(load);
  node["store_s"] = latency(load * spread(random, 1, 4));
  node["read_bytes_s"] = read;
  node["write_bytes_s"] = read * spread(random, 0.25, 1.5);
  words += (words.empty() ? "" : " + ") + fixed(read / 1e9, 1) + " GB/s " + fixed(load * 1e3, 1) + " ms";
  if (random.chance(50)) return node;
  const double written = between(random, 0, 0.3), per_read = between(random, 0, 2);
  node["stall_per_probe"] = between(random, 0, 1);
  node["stall_s_per_written_gb"] = written;
  node["stall_s_per_read_gb"] = per_read;
  words += ", stalls " + fixed(written, 2) + "/" + fixed(per_read, 2) + " s/GB";
  return node;
}

}  // namespace

SimDraw draw_scenario(std::uint64_t seed, std::size_t requests_max) {
  SimDraw draw;
  draw.seed = seed;
  Random random(seed ^ kDrawStream);
  (void)random.next();
  const double prefill = spread(random, 3'000, 30'000);
  const double token_bytes = spread(random, 16'384, 327'680);
  const auto kind = random.below(10);
  const Workload w = kind < 5   ? multi_turn(random, requests_max)
                     : kind < 7 ? round_robin(random, requests_max)
                     : kind < 9 ? no_reuse(random, prefill, requests_max)
                                : storm(random, requests_max);
  draw.workload = w.words;
  const std::uint64_t chunk_bytes = whole(token_bytes * kTokensPerChunk / 4096) * 4096;
  // Room for the longest request at least: whatever never fits runs on no policy.
  const double pool = std::max(spread(random, 100'000, 2'000'000), 1.5 * w.longest_tokens) / kTokensPerChunk;
  const double primary = std::max(64.0, pool * spread(random, 0.25, 8));
  draw.document["about"] = "drawn with seed " + std::to_string(seed) + ": " + draw.workload;
  draw.document["engine"] = {{"chunk_bytes", chunk_bytes},
                             {"cpu_bytes_to_use", whole(primary) * chunk_bytes},
                             {"tokens_per_chunk", kTokensPerChunk}};
  Json tiers = Json::array();
  const int count = random.chance(50) ? 1 : 2;
  for (int t = 0; t < count; ++t)
    tiers.push_back(tier(random, primary * static_cast<double>(chunk_bytes), draw.tiers));
  draw.document["tiers"] = std::move(tiers);
  draw.document["device"] = {{"hbm_chunks", whole(pool)},
                             {"prefill_tokens_s", prefill},
                             {"decode_tokens_s", spread(random, 20, 120)},
                             {"max_requests", 256},
                             {"to_host_bytes_s", spread(random, 8e9, 50e9)},
                             {"to_device_bytes_s", spread(random, 8e9, 50e9)}};
  draw.document["workload"] = w.node;
  draw.document["serving"] = {{"look_up", random.chance(50) ? "arrival" : "admission"}};
  // Until the first request of every client has been computed.
  const double start_s = w.node["kind"] == "storm" ? 0 : w.clients * w.prompt_tokens / prefill;
  draw.document["measure"] = {{"from_s", requests_max > 0 ? 0.0 : start_s}};
  draw.document["policies"] = {"off", "adaptive"};
  draw.document["judge"] = "mean";
  draw.document["expect"] = Json::array(
      {{{"name", "throughput"}, {"that", "adaptive.throughput_tokens_s >= 0.98 * off.throughput_tokens_s"}},
       {{"name", "ttft p99"}, {"that", "adaptive.ttft_p99_s <= 1.05 * off.ttft_p99_s"}}});
  return draw;
}

}  // namespace kv_offload::bench
