#include "kv_offload/actors/offload_engine.hpp"

#include "kv_offload/actors/domain_calls.hpp"
#include "kv_offload/actors/engine_runtime.hpp"
#include "kv_offload/actors/fork_generation.hpp"
#include "kv_offload/actors/transfer_params.hpp"

#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <algorithm>
#include <mutex>
#include <shared_mutex>

namespace kv_offload {

struct OffloadEngine::Impl {
  explicit Impl(std::unique_ptr<EngineRuntime> engine)
      : runtime(std::move(engine)),
        credits(std::make_shared<std::atomic<std::int64_t>>(runtime->config().calls_max)) {
    if (runtime->config().executor) executor = std::make_shared<const Executor>(runtime->config().executor);
  }

  enum class Kind : std::uint8_t { starts_work, ends_work };

  /// Builds the message with its reply and puts it into the mailbox of the domain that it belongs to.
  template <class T, class Make>
  Pending<T> call(Kind kind, Make make, std::size_t keys = 0) {
    return begin<T>(
        kind, [&](Reply<T> reply) { send_call(runtime->steps(), make(std::move(reply))); }, keys);
  }
  /// Asks every domain and puts the answers together.
  template <class T, class Make, class Add>
  Pending<T> call_all(Make make, Add add) {
    return begin<T>(Kind::starts_work, [&](Reply<T> reply) {
      ask_all<T>(runtime->steps(), std::move(reply), make, add);
    });
  }
  template <class Make>
  Pending<Ok> call_all(Make make) {
    return call_all<Ok>(make, [](Ok&, Ok) {});
  }
  /// Rounds for a call about so many keys: who parks just before its answer comes waits for a wake-up as well.
  [[nodiscard]] std::uint32_t spin_for(std::size_t keys) const {
    constexpr std::size_t kNsPerKey = 100;  // 70 to 90 measured, bench/README.md
    constexpr std::size_t kTimesMax = 10;
    const std::size_t us = runtime->config().spin_us;
    return spin_rounds(
        static_cast<std::uint32_t>(us + std::min(keys * kNsPerKey / 1000, kTimesMax * us)));
  }
  /// `send` gets the reply and sends it on; every refusal answers at once through the same Pending.
  template <class T, class Send>
  Pending<T> begin(Kind kind, Send send, std::size_t keys = 0) {
    const auto spin = spin_for(keys);
    const bool takes_credit = kind == Kind::starts_work;
    const auto refuse = [&](OffloadErrc code, std::string why) {
      auto slot = std::make_shared<CompletionSlot<T>>(spin, nullptr, executor);
      slot->deliver(OffloadError{code, std::move(why)});
      return Pending<T>(std::move(slot));
    };
    if (forked()) return refuse(OffloadErrc::engine_failed, kForkedText);
    if (runtime->failed().failed()) return refuse(OffloadErrc::engine_failed, runtime->failed().name());
    const std::shared_lock lock(closing_mutex);  // shutdown takes it alone, once
    if (closed || (closing && takes_credit))
      return refuse(OffloadErrc::shutting_down, "the engine is shut down");
    if (takes_credit && credits->fetch_sub(1, std::memory_order_acq_rel) <= 0) {
      credits->fetch_add(1, std::memory_order_acq_rel);
      return refuse(OffloadErrc::busy, "calls_max: " + std::to_string(runtime->config().calls_max) +
                                           " calls are outstanding");
    }
    auto slot = std::make_shared<CompletionSlot<T>>(spin, takes_credit ? credits : nullptr, executor);
    send(Reply<T>(slot));
    return Pending<T>(std::move(slot));
  }
  template <class T>
  Pending<T> refuse_argument(std::string why) {
    auto slot = std::make_shared<CompletionSlot<T>>(0U, nullptr, executor);
    slot->deliver(OffloadError{OffloadErrc::invalid_argument, std::move(why)});
    return Pending<T>(std::move(slot));
  }
  template <class T>
  Pending<T> refuse_keys(std::size_t n) {
    return refuse_argument<T>("keys: " + std::to_string(n) + " in one call is not allowed; keys_max is " +
                              std::to_string(runtime->config().keys_max));
  }
  [[nodiscard]] bool too_many(const KeyList& keys) const { return keys.size() > runtime->config().keys_max; }

  /// In a child of fork the actors' threads do not exist, and locks may be held by nobody who could let go.
  [[nodiscard]] bool forked() const { return born_in != fork_generation(); }

  bool shutdown(Duration patience) {
    if (forked()) return true;
    {
      const std::unique_lock lock(closing_mutex);
      closing = true;
    }
    const std::scoped_lock once(shutdown_mutex);
    if (closed) return clean;
    const auto deadline = std::chrono::steady_clock::now() + patience;
    runtime->drain(patience / 2);
    {
      // Completions are accepted until here; from now on nobody sends to an actor any more.
      const std::unique_lock lock(closing_mutex);
      closed = true;
    }
    clean = runtime->shutdown(deadline - std::chrono::steady_clock::now());
    return clean;
  }

  const std::uint32_t born_in = fork_generation();
  std::unique_ptr<EngineRuntime> runtime;
  std::shared_ptr<std::atomic<std::int64_t>> credits;
  SharedExecutor executor;  ///< null: callbacks run on the engine's threads
  std::shared_mutex closing_mutex;
  std::mutex shutdown_mutex;
  bool closing = false, closed = false, clean = true;
};

OffloadEngine::OffloadEngine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
OffloadEngine::~OffloadEngine() {
  shutdown();
  if (impl_->forked()) (void)impl_.release();  // the parent's, and its threads are not there to be joined
}

Expected<std::unique_ptr<OffloadEngine>> OffloadEngine::start(EngineConfig config) {
  auto runtime = EngineRuntime::start(std::move(config));
  if (!runtime) return runtime.error();
  return std::unique_ptr<OffloadEngine>(
      new OffloadEngine(std::make_unique<Impl>(std::move(runtime).value())));
}

namespace {

/// Every domain asks all homes and tiers, whose chunks each count once: where they were found first.
void add_forgotten(ForgetSummary& whole, ForgetSummary part) {
  whole.primary_chunks += part.primary_chunks;
  whole.tier_chunks += part.tier_chunks;
  for (auto& line : part.not_forgotten)
    if (std::find(whole.not_forgotten.begin(), whole.not_forgotten.end(), line) ==
        whole.not_forgotten.end())
      whole.not_forgotten.push_back(std::move(line));
}

}  // namespace

Pending<OpenedRequest> OffloadEngine::new_request(NewRequest request) {
  read_transfer_params(request);
  const auto& steps = impl_->runtime->steps();
  if (request.domain && *request.domain >= steps.size())
    return impl_->refuse_argument<OpenedRequest>("domain: " + std::to_string(*request.domain) +
                                                 " is not allowed; expected 0 to " +
                                                 std::to_string(steps.size() - 1));
  const auto domain = request.domain.value_or(impl_->runtime->domain_here());
  return impl_->begin<OpenedRequest>(Impl::Kind::starts_work, [&](Reply<OpenedRequest> reply) {
    caf::anon_send(steps[domain],
                   NewRequestCall{std::move(request), std::nullopt, std::move(reply)});
  });
}
Pending<LookupAnswer> OffloadEngine::lookup(RequestHandle request, KeyList keys, LookupOptions options) {
  const auto n = keys.size();
  if (impl_->too_many(keys)) return impl_->refuse_keys<LookupAnswer>(n);
  const auto make = [&](Reply<LookupAnswer> reply) {
    return LookupCall{request, std::make_shared<const KeyList>(std::move(keys)), options, std::move(reply)};
  };
  return impl_->call<LookupAnswer>(Impl::Kind::starts_work, make, n);
}
Pending<LookupAnswer> OffloadEngine::lookup_shared(RequestHandle request, SharedKeys keys, LookupOptions options) {
  if (!keys) return impl_->refuse_argument<LookupAnswer>("keys: null is not allowed; expected a list");
  if (impl_->too_many(*keys)) return impl_->refuse_keys<LookupAnswer>(keys->size());
  const auto n = keys->size();
  const auto make = [&](Reply<LookupAnswer> reply) {
    return LookupCall{request, std::move(keys), options, std::move(reply), {}, true};
  };
  return impl_->call<LookupAnswer>(Impl::Kind::starts_work, make, n);
}
Pending<LookupAnswer> OffloadEngine::lookup_growing(RequestHandle request, KeyList keys, LookupOptions options,
                                                    std::function<void(std::uint32_t)> on_growth) {
  if (!on_growth) return lookup(request, std::move(keys), options);
  if (impl_->too_many(keys)) return impl_->refuse_keys<LookupAnswer>(keys.size());
  const auto spin = impl_->spin_for(keys.size());
  const auto growth = std::make_shared<PrefixGrowth>(std::move(on_growth), impl_->executor);
  auto call = impl_->call<LookupAnswer>(Impl::Kind::starts_work, [&](Reply<LookupAnswer> reply) {
    return LookupCall{request, std::make_shared<const KeyList>(std::move(keys)), options, std::move(reply), growth};
  });
  auto answered = std::make_shared<CompletionSlot<LookupAnswer>>(spin, nullptr, impl_->executor);
  answer_behind(growth, *std::move(call).slot(), answered);
  return Pending<LookupAnswer>(std::move(answered));
}
Pending<LookupAnswer> OffloadEngine::prefetch(RequestHandle request, KeyList keys, PrefetchOptions options) {
  if (options.mode == PrefetchMode::timeout && options.timeout <= Duration::zero())
    return impl_->refuse_argument<LookupAnswer>("timeout: a prefetch with a timeout needs more than 0");
  return lookup(request, std::move(keys), lookup_options(options));
}
Pending<Ok> OffloadEngine::allocated(RequestHandle request, std::uint64_t device_tokens) {
  return impl_->call<Ok>(Impl::Kind::starts_work, [&](Reply<Ok> reply) {
    return AllocatedCall{request, device_tokens, std::move(reply)};
  });
}
Pending<Ok> OffloadEngine::touch(RequestHandle request, KeyList keys) {
  if (impl_->too_many(keys)) return impl_->refuse_keys<Ok>(keys.size());
  return impl_->call<Ok>(Impl::Kind::starts_work, [&](Reply<Ok> reply) {
    return TouchCall{request, std::make_shared<const KeyList>(std::move(keys)), std::move(reply)};
  });
}
Pending<Ok> OffloadEngine::abort(RequestHandle request) {
  return impl_->call<Ok>(Impl::Kind::ends_work,
                         [&](Reply<Ok> reply) { return AbortCall{request, std::move(reply)}; });
}
Pending<RequestSummary> OffloadEngine::request_finished(RequestHandle request) {
  return impl_->call<RequestSummary>(Impl::Kind::ends_work, [&](Reply<RequestSummary> reply) {
    return FinishCall{request, std::move(reply)};
  });
}
Pending<StorePlan> OffloadEngine::prepare_store(RequestHandle request, KeyList keys, StoreOptions options) {
  const auto n = keys.size();
  if (impl_->too_many(keys)) return impl_->refuse_keys<StorePlan>(n);
  const auto make = [&](Reply<StorePlan> reply) {
    return PrepareStoreCall{request, std::make_shared<const KeyList>(std::move(keys)), options, std::move(reply)};
  };
  return impl_->call<StorePlan>(Impl::Kind::starts_work, make, n);
}
Pending<StoreOutcome> OffloadEngine::complete_store(LeaseId lease, CompleteStoreOptions options) {
  return impl_->call<StoreOutcome>(Impl::Kind::ends_work, [&](Reply<StoreOutcome> reply) {
    return CompleteStoreCall{lease, options, std::move(reply)};
  });
}
Pending<LoadPlan> OffloadEngine::prepare_load(RequestHandle request, KeyList keys) {
  const auto n = keys.size();
  if (impl_->too_many(keys)) return impl_->refuse_keys<LoadPlan>(n);
  const auto make = [&](Reply<LoadPlan> reply) {
    return PrepareLoadCall{request, std::make_shared<const KeyList>(std::move(keys)), std::move(reply)};
  };
  return impl_->call<LoadPlan>(Impl::Kind::starts_work, make, n);
}
Pending<Ok> OffloadEngine::complete_load(LeaseId lease) {
  return impl_->call<Ok>(Impl::Kind::ends_work,
                         [&](Reply<Ok> reply) { return CompleteLoadCall{lease, std::move(reply)}; });
}
Pending<StoreOutcome> OffloadEngine::store_blocks(LeaseId lease, BlockList blocks,
                                                  CopyOptions options) {
  return impl_->call<StoreOutcome>(Impl::Kind::starts_work, [&](Reply<StoreOutcome> reply) {
    return StoreBlocksCall{lease, std::move(blocks), options, std::move(reply)};
  });
}
Pending<Ok> OffloadEngine::load_blocks(LeaseId lease, BlockList blocks, CopyOptions options) {
  return impl_->call<Ok>(Impl::Kind::starts_work, [&](Reply<Ok> reply) {
    return LoadBlocksCall{lease, std::move(blocks), options, std::move(reply)};
  });
}
Pending<Ok> OffloadEngine::step_begin() {
  return impl_->call_all([](Reply<Ok> reply) { return StepCall{false, {}, std::move(reply)}; });
}
Pending<Ok> OffloadEngine::step_end(ScheduleEnd step) {
  return impl_->call_all([&](Reply<Ok> reply) { return StepCall{true, step, std::move(reply)}; });
}
Pending<bool> OffloadEngine::has_pending_work() {
  return impl_->call_all<bool>([](Reply<bool> reply) { return PendingWorkCall{std::move(reply)}; },
                               [](bool& any, bool one) { any = any || one; });
}
Pending<ForgetSummary> OffloadEngine::forget(KeyList keys, std::string tenant) {
  if (impl_->too_many(keys)) return impl_->refuse_keys<ForgetSummary>(keys.size());
  const auto shared = std::make_shared<const KeyList>(std::move(keys));
  return impl_->call_all<ForgetSummary>(
      [&](Reply<ForgetSummary> reply) {
        return ForgetCall{shared, tenant, false, std::move(reply)};
      },
      add_forgotten);
}
Pending<ForgetSummary> OffloadEngine::forget_tenant(std::string tenant) {
  return impl_->call_all<ForgetSummary>(
      [&](Reply<ForgetSummary> reply) {
        return ForgetCall{nullptr, tenant, true, std::move(reply)};
      },
      add_forgotten);
}
Pending<std::vector<OffloadingEvent>> OffloadEngine::take_events() {
  using Events = std::vector<OffloadingEvent>;
  return impl_->call<Events>(Impl::Kind::starts_work,
                             [&](Reply<Events> reply) { return EventsCall{std::move(reply)}; });
}
Pending<EngineStats> OffloadEngine::stats() {
  return impl_->call<EngineStats>(Impl::Kind::starts_work,
                                  [&](Reply<EngineStats> reply) { return StatsCall{std::move(reply)}; });
}
Pending<Ok> OffloadEngine::drain() {
  return impl_->call_all([](Reply<Ok> reply) {
    return DrainCall{false, std::nullopt, std::move(reply)};
  });
}
Pending<Ok> OffloadEngine::reset() {
  return impl_->call<Ok>(Impl::Kind::starts_work,
                         [&](Reply<Ok> reply) { return ResetCall{false, {}, std::move(reply)}; });
}
Pending<Ok> OffloadEngine::set_revision(std::string revision) {
  return impl_->call<Ok>(Impl::Kind::starts_work, [&](Reply<Ok> reply) {
    return ResetCall{true, std::move(revision), std::move(reply)};
  });
}

bool OffloadEngine::shutdown() { return shutdown(impl_->runtime->config().deadlines.shutdown); }
bool OffloadEngine::shutdown(Duration patience) { return impl_->shutdown(patience); }

std::span<std::byte> OffloadEngine::chunk(ChunkId chunk_id) const {
  const auto view = impl_->runtime->view();
  return !impl_->forked() && chunk_id < view.num_chunks ? view.payload(chunk_id) : std::span<std::byte>{};
}
PrimaryView OffloadEngine::rows() const {
  return impl_->forked() ? PrimaryView{} : impl_->runtime->view();
}
std::optional<bool> OffloadEngine::all_layers_portable() const {
  return impl_->runtime->all_layers_portable();
}
std::uint64_t OffloadEngine::chunk_bytes() const { return impl_->runtime->config().chunk_bytes; }
std::uint32_t OffloadEngine::num_chunks() const { return impl_->runtime->view().num_chunks; }
int OffloadEngine::metrics_port() const { return impl_->runtime->metrics_port(); }
std::string OffloadEngine::failed_state() const {
  return impl_->forked() ? kForkedText : impl_->runtime->failed().name();
}
const EngineConfig& OffloadEngine::config() const { return impl_->runtime->config(); }

}  // namespace kv_offload
