#include "kv_offload/actors/offload_engine.hpp"
#include "kv_offload/bench/io_tier.hpp"
#include "kv_offload/bench/io_tier_harness.hpp"

#include <algorithm>
#include <deque>
#include <string>
#include <utility>

namespace kv_offload::bench {
namespace {

/// Chunks of a request: 4,096 tokens where a chunk has 256.
constexpr std::uint32_t kBatch = 16;
/// Requests under way at least.
constexpr std::uint32_t kRequests = 4;
/// The primary tier, in windows: its shares leave every tier at least one window of pins.
constexpr std::uint32_t kPrimaryWindows = 8;

class IoEngine final : public IoContestant {
 public:
  IoEngine(const IoShape& shape, const WorkDir& dir)
      : shape_(shape), dir_(dir), window_(std::max(io_window_chunks(shape), kBatch * kRequests)) {}

  [[nodiscard]] std::string name() const override { return "engine"; }

  Expected<IoFigure> store() override {
    engine_.reset();
    auto files = io_directory(dir_, "engine-" + shape_.tier);
    if (!files) return files.error();
    place_ = files->string();
    auto started = OffloadEngine::start(config(*files));
    if (!started) return started.error();
    engine_ = std::move(*started);
    if (auto warm = store_all(std::uint64_t{1} << 40, kIoDirectories); !warm) return warm.error();
    const IoStopwatch watch;
    if (auto stored = store_all(0, shape_.chunks()); !stored) return stored.error();
    return watch.stop(shape_);
  }

  Expected<IoFigure> load() override {
    // Only the tier has them: what the primary tier kept is forgotten.
    if (auto forgotten = engine_->reset().get(); !forgotten) return forgotten.error();
    const auto order = io_order(shape_.chunks());
    const IoStopwatch watch;
    std::deque<Lookup> open;
    for (std::size_t at = 0; at < order.size(); at += kBatch) {
      if (open.size() == window_ / kBatch) {
        if (auto ended = finish(open.front()); !ended) return ended.error();
        open.pop_front();
      }
      Lookup lookup;
      for (std::size_t i = at; i < std::min<std::size_t>(at + kBatch, order.size()); ++i)
        lookup.keys.push_back(io_key(order[i]));
      auto request = engine_->new_request(next_request(lookup.keys)).get();
      if (!request) return request.error();
      lookup.request = *request;
      lookup.answer = engine_->lookup(*request, lookup.keys).future();
      open.push_back(std::move(lookup));
    }
    for (Lookup& lookup : open)
      if (auto ended = finish(lookup); !ended) return ended.error();
    return watch.stop(shape_);
  }

 private:
  struct Lookup {
    KeyList keys;
    RequestHandle request;
    std::future<Expected<LookupAnswer>> answer;
  };

  EngineConfig config(const std::filesystem::path& files) const {
    EngineConfig config;
    config.chunk_bytes = shape_.chunk_bytes;
    config.cpu_bytes_to_use = std::uint64_t{kPrimaryWindows} * window_ * config.row_bytes();
    config.identity.model_name = "kv-offload-bench";
    config.log_level = "error";
    SecondaryTierConfig tier;
    tier.type = shape_.tier;
    tier.path = "secondary_tiers[0]";
    tier.node = io_tier_parameters(shape_, files);
    config.secondary_tiers.push_back(std::move(tier));
    return config;
  }

  NewRequest next_request(const KeyList& keys) {
    NewRequest request;
    request.req_id = std::to_string(requests_++);
    request.prompt_tokens = keys.size() * 16;
    return request;
  }

  Expected<Ok> store_all(std::uint64_t first, std::uint64_t count) {
    std::deque<std::future<Expected<StoreOutcome>>> open;
    const auto take = [&]() -> Expected<Ok> {
      auto outcome = open.front().get();
      open.pop_front();
      if (!outcome) return outcome.error();
      if (outcome->chunks_failed == 0 && outcome->cascades_refused == 0) return Ok{};
      return OffloadError{OffloadErrc::io_error,
                          "engine: a store was refused or failed, in " + place_};
    };
    for (std::uint64_t at = 0; at < count; at += kBatch) {
      if (open.size() == window_ / kBatch)
        if (auto taken = take(); !taken) return taken;
      KeyList keys;
      for (std::uint64_t i = at; i < std::min<std::uint64_t>(at + kBatch, count); ++i)
        keys.push_back(io_key(first + i));
      auto request = engine_->new_request(next_request(keys)).get();
      if (!request) return request.error();
      auto plan = engine_->prepare_store(*request, std::move(keys)).get();
      if (!plan) return plan.error();
      open.push_back(
          engine_->complete_store(plan->lease, {.success = true, .wait_cascades = true}).future());
      (void)engine_->request_finished(*request);
    }
    while (!open.empty())
      if (auto taken = take(); !taken) return taken;
    return Ok{};
  }

  Expected<Ok> finish(Lookup& lookup) {
    auto answer = lookup.answer.get();
    if (!answer) return answer.error();
    if (answer->leading_hits != lookup.keys.size())
      return OffloadError{OffloadErrc::io_error, "engine: " + std::to_string(answer->leading_hits) +
                                                     " of " + std::to_string(lookup.keys.size()) +
                                                     " chunks were found"};
    auto plan = engine_->prepare_load(lookup.request, lookup.keys).get();
    if (!plan) return plan.error();
    (void)engine_->complete_load(plan->lease);
    (void)engine_->request_finished(lookup.request);
    return Ok{};
  }

  const IoShape shape_;
  const WorkDir& dir_;
  const std::uint32_t window_;
  std::string place_;  // of the tier's files
  std::unique_ptr<OffloadEngine> engine_;
  std::uint64_t requests_ = 0;
};

}  // namespace

std::unique_ptr<IoContestant> io_engine(const IoShape& shape, const WorkDir& dir) {
  return std::make_unique<IoEngine>(shape, dir);
}

}  // namespace kv_offload::bench
