// A serving process in small: four threads take requests whose prompts share prefixes, load what the engine has, compute
// and store the rest, and check every byte that came back.
#include "kv_offload/actors/offload_engine.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <stdlib.h>
#include <thread>

using namespace kv_offload;

namespace {

constexpr int kThreads = 4, kRequestsPerThread = 40, kConversations = 6;
constexpr std::size_t kMaxTurns = 12;

/// Turn `turn` of a conversation: the hash stands for everything up to it, so conversations share their keys.
OffloadKey key_of(int conversation, std::size_t turn) {
  const std::byte hash[32] = {static_cast<std::byte>(conversation), static_cast<std::byte>(turn), std::byte{0x5e}};
  return *OffloadKey::make(hash, 0);
}
std::byte content_of(int conversation, std::size_t turn) {
  return static_cast<std::byte>(1 + 13 * static_cast<std::size_t>(conversation) + turn);
}

struct Totals {
  std::atomic<std::uint64_t> loaded{0}, computed{0}, wrong{0}, failed{0};
};

/// One request from its announcement to its end. False: a call failed that should not.
bool serve(OffloadEngine& engine, int conversation, std::size_t turns, const std::string& id, Totals& totals) {
  const auto request = engine.new_request({.req_id = id, .prompt_tokens = 16 * turns}).get();
  if (!request) return false;
  KeyList keys;
  for (std::size_t turn = 0; turn < turns; ++turn) keys.push_back(key_of(conversation, turn));

  const auto found = engine.lookup(*request, keys).get();  // waits until what tiers hold has landed
  if (!found) return false;
  const KeyList hits(keys.begin(), keys.begin() + found->leading_hits);
  const auto load = engine.prepare_load(*request, hits).get();  // may be fewer: unheld hits may have left
  if (!load) return false;
  for (std::size_t turn = 0; turn < load->chunk_ids.size(); ++turn) {
    const auto slot = engine.chunk(load->chunk_ids[turn]);  // slot → device
    if (!std::ranges::all_of(slot, [&](std::byte b) { return b == content_of(conversation, turn); })) ++totals.wrong;
  }
  totals.loaded += load->chunk_ids.size();
  if (!engine.complete_load(load->lease).get()) return false;

  const KeyList missing(keys.begin() + static_cast<std::ptrdiff_t>(load->chunk_ids.size()), keys.end());
  totals.computed += missing.size();
  const auto plan = engine.prepare_store(*request, missing).get();
  if (plan) {
    for (std::size_t i = 0; i < plan->chunk_ids.size(); ++i)  // device → slot
      std::ranges::fill(engine.chunk(plan->chunk_ids[i]), content_of(conversation, load->chunk_ids.size() + plan->key_idx[i]));
    if (!engine.complete_store(plan->lease).get()) return false;
  } else if (plan.error().code != OffloadErrc::no_space) {  // no room: what was computed is not kept, nothing else
    return false;
  }
  return engine.request_finished(*request).get().has_value();
}

}  // namespace

int main() {
  char dir[] = "/tmp/kv_offload-example-XXXXXX";
  if (mkdtemp(dir) == nullptr) return 1;
  // Room for 48 of the 72 chunks in memory: the rest comes back from files.
  const auto config = EngineConfig::parse(R"({"chunk_bytes": "16KiB", "cpu_bytes_to_use": "768KiB", "log_level": "error",
      "secondary_tiers": [{"type": "fs", "root_dir": ")" + std::string(dir) + R"("}]})");
  if (!config) return 2;
  auto started = OffloadEngine::start(*config);
  if (!started) return std::fprintf(stderr, "%s\n", to_string(started.error()).c_str()), 2;
  auto& engine = **started;

  Totals totals;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRequestsPerThread; ++i) {
        const int conversation = (t + i) % kConversations;
        const auto turns = std::min(kMaxTurns, 2 + static_cast<std::size_t>(i) / 3);  // prompts grow turn by turn
        if (!serve(engine, conversation, turns, std::to_string(t) + "-" + std::to_string(i), totals)) ++totals.failed;
      }
    });
  for (auto& thread : threads) thread.join();

  const bool clean = engine.drain().get() && engine.shutdown();
  std::filesystem::remove_all(dir);
  std::printf("%d requests: %llu chunks loaded, %llu computed, %llu wrong, %llu requests failed\n",
              kThreads * kRequestsPerThread, static_cast<unsigned long long>(totals.loaded),
              static_cast<unsigned long long>(totals.computed), static_cast<unsigned long long>(totals.wrong),
              static_cast<unsigned long long>(totals.failed));
  return clean && totals.wrong == 0 && totals.failed == 0 && totals.loaded > 0 ? 0 : 1;
}
