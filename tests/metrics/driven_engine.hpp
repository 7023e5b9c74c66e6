#pragma once

#include "kv_offload/actors/engine_metrics.hpp"
#include "kv_offload/actors/offload_engine.hpp"
#include "kv_offload/tests/config/config_lines.hpp"
#include "kv_offload/tests/metrics/driven_tier.hpp"
#include "kv_offload/tests/metrics/exposition.hpp"
#include "kv_offload/tests/metrics/socket_of_test.hpp"

#include <catch2/catch.hpp>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace kv_offload::test {

/// A real engine with its metrics server, and the tiers' scripts. Calls wait for their answer; an error
/// is an exception, so that a workload that did not happen cannot pass for one that did.
class DrivenEngine {
 public:
  static constexpr std::uint64_t kChunkBytes = 4096;

  /// `keys` are added to the document; "$0" in it stands for a driven tier, "$1" for another.
  explicit DrivenEngine(std::size_t chunks, std::string keys = "") {
    for (int i = 0; i < 2; ++i) {
      const auto [name, script] = DrivenTier::make_script();
      tiers[i] = script;
      const std::string sign = "$" + std::to_string(i);
      if (const auto at = keys.find(sign); at != std::string::npos)
        keys.replace(at, sign.size(),
                     "\"type\": \"" + std::string(DrivenTier::kType) + "\", \"script\": \"" + name +
                         '"');
    }
    std::string document = R"({"chunk_bytes": 4096, "cpu_bytes_to_use": )" +
                           std::to_string(chunks * kChunkBytes) +
                           R"(, "tokens_per_chunk": 16, "log_level": "off", "metrics": {"port": 0})" +
                           (keys.empty() ? "" : ", " + keys) + "}";
    config_ = good_config(document);
  }
  void start() { engine_ = value(OffloadEngine::start(config_)); }
  OffloadEngine* operator->() {
    if (engine_ == nullptr) start();
    return engine_.get();
  }

  template <class T>
  static T value(Expected<T> answer) {
    if (!answer) throw std::runtime_error(to_string(answer.error()));
    return std::move(answer).value();
  }
  template <class T>
  static T wait(Pending<T> call) {
    return value(std::move(call).get());
  }

  RequestHandle request(const std::string& id) { return request(NewRequest{.req_id = id}); }
  RequestHandle request(NewRequest request) {
    return wait((*this)->new_request(std::move(request))).handle;
  }
  LookupAnswer lookup(RequestHandle request, const KeyList& keys, LookupOptions options = {}) {
    options.scan = LookupScan::window;  // every key is resolved, whatever is missing before it
    return wait((*this)->lookup(request, keys, options));
  }
  StorePlan prepare_store(RequestHandle request, const KeyList& keys) {
    return wait((*this)->prepare_store(request, keys));
  }
  StoreOutcome store(RequestHandle request, const KeyList& keys, bool waits = true) {
    return wait((*this)->complete_store(prepare_store(request, keys).lease,
                                        {.success = true, .wait_cascades = waits}));
  }
  LeaseId prepare_load(RequestHandle request, const KeyList& keys) {
    return wait((*this)->prepare_load(request, keys)).lease;
  }
  void finish(RequestHandle request) { wait((*this)->request_finished(request)); }

  /// The page as a scraper reads it over HTTP, with everything in it that happened before the call.
  Exposition scrape() {
    wait((*this)->stats());
    const auto socket = TestSocket::connect("127.0.0.1", (*this)->metrics_port());
    socket.send("GET /metrics HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    const std::string all = socket.receive_all();
    const auto end = all.find("\r\n\r\n");
    if (!all.starts_with("HTTP/1.1 200") || end == std::string::npos)
      throw std::runtime_error("no page: " + all.substr(0, 200));
    return Exposition::parse(std::string_view(all).substr(end + 4));
  }
  /// The same, and what the configuration declares.
  Exposition page(std::vector<MetricDefinition>& definitions) {
    definitions = metric_definitions(config_);
    return scrape();
  }
  /// Waits for what other threads do; the test's own time limit ends it.
  void until(const std::function<bool(const EngineStats&)>& is_so) {
    while (!is_so(wait((*this)->stats()))) std::this_thread::yield();
  }

  std::shared_ptr<TierScript> tiers[2];

 private:
  EngineConfig config_;
  std::unique_ptr<OffloadEngine> engine_;
};

/// `n` keys that no other name has.
inline KeyList keys_named(unsigned char name, std::size_t n) {
  KeyList keys;
  for (std::size_t i = 0; i < n; ++i) {
    std::byte hash[32] = {static_cast<std::byte>(name), static_cast<std::byte>(i)};
    keys.push_back(*OffloadKey::make(hash, 0));
  }
  return keys;
}
inline KeyList first_of(const KeyList& keys, std::size_t n) {
  return {keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(n)};
}

}  // namespace kv_offload::test
