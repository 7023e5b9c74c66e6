#pragma once

// An engine behind the C ABI, and the words its tests use.
#include "kv_offload/actors/c_api/kv_offload.h"
#include "kv_offload/tests/support/engine_fixture.hpp"

#include <array>
#include <cstring>
#include <string>
#include <vector>

namespace kv_offload::test {

inline constexpr std::size_t kChunkBytes = 16 * 1024;

/// Keys whose hashes lie in `hashes`.
struct CKeys {
  CKeys(unsigned char name, std::size_t n) : hashes(n), keys(n) {
    for (std::size_t i = 0; i < n; ++i) {
      hashes[i] = {name, static_cast<unsigned char>(i)};
      keys[i] = {hashes[i].data(), static_cast<std::uint32_t>(hashes[i].size()), 0};
    }
  }
  std::vector<std::array<unsigned char, 32>> hashes;
  std::vector<kvo_key> keys;
  const kvo_key* data() const { return keys.data(); }
  std::size_t size() const { return keys.size(); }
};

/// A zeroed struct that says its size.
template <class S>
S sized() {
  S s;
  std::memset(static_cast<void*>(&s), 0, sizeof(s));
  s.struct_size = sizeof(s);
  return s;
}

inline std::string config_json(const std::string& fs_dir = {}, const std::string& more = {}) {
  return R"({"chunk_bytes": 16384, "cpu_bytes_to_use": 1048576, "log_level": ")" +
         std::string(more.find("log_level") == std::string::npos ? "off\"" : "debug\"") +
         (fs_dir.empty() ? "" : R"(, "secondary_tiers": [{"type": "fs", "root_dir": ")" + fs_dir + "\"}]") +
         (more.empty() || more == "log_level" ? "" : ", " + more) + "}";
}

/// Ends with the test, if the test has not ended it.
struct CEngine {
  explicit CEngine(const std::string& json = config_json(), kvo_log_callback log = nullptr, void* log_user = nullptr) {
    auto options = sized<kvo_start_options>();
    options.config_json = json.c_str();
    options.log = log;
    options.log_user = log_user;
    const int code = kvo_start(&options, &engine);
    INFO(kvo_error_text());
    REQUIRE(code == KVO_OK);
  }
  ~CEngine() { kvo_destroy(engine); }
  CEngine(const CEngine&) = delete;
  CEngine& operator=(const CEngine&) = delete;
  operator kvo_engine*() const { return engine; }  // NOLINT: stands for its handle

  kvo_request request(const char* id) const {
    auto options = sized<kvo_request_options>();
    options.req_id = id;
    kvo_request made = 0;
    REQUIRE(kvo_new_request(engine, &options, &made, nullptr) == KVO_OK);
    return made;
  }
  /// Stores each key with a byte of its own, through every tier.
  void store(kvo_request r, const CKeys& keys, unsigned char fill) const {
    auto plan = sized<kvo_store_plan>();
    std::vector<std::uint32_t> key_idx(keys.size()), chunks(keys.size());
    REQUIRE(kvo_prepare_store(engine, r, keys.data(), keys.size(), nullptr, &plan, key_idx.data(), chunks.data()) == KVO_OK);
    for (std::uint32_t i = 0; i < plan.num_chunks; ++i)
      std::memset(kvo_chunk(engine, chunks[i]), fill + static_cast<int>(key_idx[i]), kChunkBytes);
    REQUIRE(kvo_complete_store(engine, plan.lease, KVO_WAIT_CASCADES, nullptr) == KVO_OK);
  }
  /// How many of the keys load with the bytes that store() gave them.
  std::size_t load(kvo_request r, const CKeys& keys, unsigned char fill) const {
    auto plan = sized<kvo_load_plan>();
    std::vector<std::uint32_t> chunks(keys.size());
    REQUIRE(kvo_prepare_load(engine, r, keys.data(), keys.size(), &plan, chunks.data()) == KVO_OK);
    std::size_t right = 0;
    for (std::uint32_t i = 0; i < plan.num_chunks; ++i) {
      const auto* bytes = static_cast<const unsigned char*>(kvo_chunk(engine, chunks[i]));
      right += std::all_of(bytes, bytes + kChunkBytes, [&](unsigned char b) { return b == static_cast<unsigned char>(fill + i); });
    }
    REQUIRE(kvo_complete_load(engine, plan.lease) == KVO_OK);
    return right;
  }

  kvo_engine* engine = nullptr;
};

}  // namespace kv_offload::test
