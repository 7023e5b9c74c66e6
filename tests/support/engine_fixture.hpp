#pragma once

// Helpers of tests over the real engine: real threads, real memory, real files.
#include "kv_offload/actors/offload_engine.hpp"
#include "kv_offload/tests/support/open_things.hpp"
#include "kv_offload/tests/support/secondary_tier_config.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <stdlib.h>
#include <string>
#include <utility>

namespace kv_offload::test {

/// A temporary directory that goes with the test.
struct TempDir {
  TempDir() {
    char name[] = "/tmp/kv_offload-test-XXXXXX";
    REQUIRE(mkdtemp(name) != nullptr);
    path = name;
  }
  ~TempDir() { std::filesystem::remove_all(path); }
  std::string path;
};

inline EngineConfig small_config() {
  EngineConfig config;
  config.chunk_bytes = 16 * 1024;
  config.cpu_bytes_to_use = 64 * config.chunk_bytes;
  config.log_level = "off";
  return config;
}

inline KeyList keys(unsigned char name, std::size_t n) {
  KeyList out;
  for (std::size_t i = 0; i < n; ++i) {
    std::byte hash[32] = {static_cast<std::byte>(name), static_cast<std::byte>(i)};
    out.push_back(*OffloadKey::make(hash, 0));
  }
  return out;
}

inline std::unique_ptr<OffloadEngine> start(EngineConfig config) {
  auto engine = OffloadEngine::start(std::move(config));
  INFO((engine ? std::string() : to_string(engine.error())));
  REQUIRE(engine);
  return std::move(engine).value();
}

inline void store(OffloadEngine& engine, RequestHandle request, const KeyList& wanted, std::byte fill, bool wait) {
  const auto plan = engine.prepare_store(request, wanted).get();
  REQUIRE(plan);
  for (const auto chunk : plan->chunk_ids) std::ranges::fill(engine.chunk(chunk), fill);
  REQUIRE(engine.complete_store(plan->lease, {.wait_cascades = wait}).get());
}

inline void require_promises(OffloadEngine& engine) {
  const auto stats = engine.stats().get();
  REQUIRE(stats);
  for (const auto& check : check_promises(*stats, true)) {
    INFO("promise " << check.number << " (" << check.name << "): " << check.why);
    CHECK(check.held);
  }
}

}  // namespace kv_offload::test
