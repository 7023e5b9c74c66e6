#pragma once

#include "kv_offload/tiers/io/io_backend.hpp"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace kv_offload {

/// What a script says about one request.
struct ScriptedResult {
  std::optional<std::int32_t> result;       ///< given instead of doing the operation
  std::optional<std::uint32_t> length_max;  ///< the operation moves at most so many bytes
  std::uint32_t after_reaps = 0;            ///< completes at the earliest that many reaps later
  bool never = false;                       ///< never completes
  const std::atomic<bool>* held = nullptr;  ///< not while it is true; outlives the request
};

/// A small device for tests: does each request with plain system calls at the time it completes, in an
/// order, with lengths and with results that a script decides. Deterministic: same requests and script,
/// same completions.
class ScriptedBackend final : public IoBackend {
 public:
  /// Called once per request in push order; `ordinal` counts from 0.
  using Script = std::function<ScriptedResult(const IoRequest& request, std::uint64_t ordinal)>;
  struct Options {
    std::uint32_t queue_depth = 128;
    bool newest_first = false;            ///< completions of one reap come in reverse order
    std::uint32_t completions_max = ~0U;  ///< per reap
    std::optional<std::string> open_error;
  };

  explicit ScriptedBackend(Script script = {}) : ScriptedBackend(std::move(script), Options{}) {}
  ScriptedBackend(Script script, Options options)
      : script_(std::move(script)), options_(std::move(options)) {}

  Expected<std::string> open() override;
  bool push(const IoRequest& request) override;
  int submit() override;
  int reap(std::vector<IoCompletion>& completions, Duration wait) override;
  void wake() override;
  [[nodiscard]] std::size_t in_flight() const override { return requests_.size(); }

  /// From now on submit and reap answer this errno. Any thread.
  void break_with(int error);
  /// Requests that push had no room for. Lane thread, or after it ended.
  [[nodiscard]] std::uint64_t refused_pushes() const { return refused_pushes_; }

 private:
  struct Pending {
    IoRequest request;
    ScriptedResult plan;
    bool submitted = false;
  };
  static std::int32_t perform(const Pending& pending);

  const Script script_;
  const Options options_;
  std::deque<Pending> requests_;
  std::uint64_t next_ordinal_ = 0;
  std::uint64_t refused_pushes_ = 0;

  std::mutex mutex_;  // guards what other threads set
  std::condition_variable woken_;
  bool wake_ = false;
  int fatal_ = 0;
};

}  // namespace kv_offload
