// An engine with a file tier in a temporary directory: store, look up, load, shut down.
#include "kv_offload/actors/offload_engine.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <stdlib.h>

int main() {
  using namespace kv_offload;
  char dir[] = "/tmp/kv_offload-example-XXXXXX";
  if (mkdtemp(dir) == nullptr) return 1;
  auto config = EngineConfig::parse(R"({"chunk_bytes": "64KiB", "cpu_bytes_to_use": "16MiB", "log_level": "error",
      "secondary_tiers": [{"type": "fs", "root_dir": ")" + std::string(dir) + R"("}]})");
  if (!config) return std::fprintf(stderr, "%s\n", to_string(config.error()).c_str()), 2;
  auto started = OffloadEngine::start(*config);
  if (!started) return std::fprintf(stderr, "%s\n", to_string(started.error()).c_str()), 2;
  auto& engine = **started;

  const std::byte hash[32] = {std::byte{1}};  // of the chunk and everything before it
  const KeyList keys = {*OffloadKey::make(hash, 0)};
  const auto request = *engine.new_request({.req_id = "r1", .prompt_tokens = 16}).get();
  const auto plan = *engine.prepare_store(request, keys).get();
  for (const auto chunk : plan.chunk_ids) std::ranges::fill(engine.chunk(chunk), std::byte{42});  // device → slot
  bool ok = engine.complete_store(plan.lease, {.wait_cascades = true}).get().has_value();  // and in the file tier
  ok = ok && engine.reset().get();                                                         // forget the primary tier

  const auto found = *engine.lookup(request, keys).get();            // promoted from the file, verified
  const auto load = *engine.prepare_load(request, keys).get();
  const bool same = load.chunk_ids.size() == 1 && engine.chunk(load.chunk_ids[0]).back() == std::byte{42};
  ok = ok && engine.complete_load(load.lease).get() && engine.request_finished(request).get();
  std::printf("%u of 1 chunks found in tier %s, bytes %s\n", found.leading_hits,
              found.tier_hits[1] == 1 ? "1:fs" : "0:primary", same ? "right" : "WRONG");
  const bool clean = engine.shutdown();
  std::filesystem::remove_all(dir);
  return ok && same && clean && found.tier_hits[1] == 1 ? 0 : 1;
}
