// An embedder that does everything once per scheduler step and never waits for I/O: the polling view.
#include "kv_offload/actors/offload_engine.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <stdlib.h>
#include <thread>

int main() {
  using namespace kv_offload;
  char dir[] = "/tmp/kv_offload-example-XXXXXX";
  if (mkdtemp(dir) == nullptr) return 1;
  const auto config = EngineConfig::parse(R"({"chunk_bytes": "64KiB", "cpu_bytes_to_use": "4MiB", "log_level": "error",
      "secondary_tiers": [{"type": "fs", "root_dir": ")" + std::string(dir) + R"("}]})");
  if (!config) return 2;
  auto started = OffloadEngine::start(*config);
  if (!started) return std::fprintf(stderr, "%s\n", to_string(started.error()).c_str()), 2;
  auto& engine = **started;

  KeyList prompt;
  for (int i = 0; i < 4; ++i) {
    const std::byte hash[32] = {std::byte{7}, static_cast<std::byte>(i)};
    prompt.push_back(*OffloadKey::make(hash, 0));
  }
  {  // an earlier request left its chunks in the file tier
    const auto writer = *engine.new_request({.req_id = "writer"}).get();
    const auto plan = *engine.prepare_store(writer, prompt).get();
    for (const auto chunk : plan.chunk_ids) std::ranges::fill(engine.chunk(chunk), std::byte{1});
    if (!engine.complete_store(plan.lease, {.wait_cascades = true}).get() || !engine.request_finished(writer).get() ||
        !engine.reset().get())
      return 1;
  }

  const auto request = *engine.new_request({.req_id = "reader", .prompt_tokens = 1024}).get();
  std::string seen;
  bool scheduled = false;
  for (int step = 0; step < 5000 && !scheduled; ++step) {
    if (!engine.step_begin().get()) return 1;  // everything that ended before is applied now
    const auto answer = *engine.lookup(request, prompt, {.wait = LookupWait::polled}).get();
    const auto first = to_string(answer.results[0]);
    if (!seen.ends_with(first)) seen += (seen.empty() ? "" : " → ") + std::string(first);
    ScheduleEnd end;
    if (answer.results.back() == LookupResult::hit) {  // all here: load, and schedule the request
      const auto load = *engine.prepare_load(request, prompt).get();
      if (load.chunk_ids.size() != prompt.size() || !engine.complete_load(load.lease).get()) return 1;
      end.new_requests.push_back(request);
      scheduled = true;
    }
    if (!engine.step_end(end).get()) return 1;  // submits what this step found, one job per tier
    if (!scheduled && *engine.has_pending_work().get()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::printf("%s\n", seen.c_str());  // retry → hit_pending → hit
  const bool ok = engine.request_finished(request).get() && engine.shutdown();
  std::filesystem::remove_all(dir);
  return ok && scheduled ? 0 : 1;
}
