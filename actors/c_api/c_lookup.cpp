// Lookups that wait, and lookups that call back.
#include "kv_offload/actors/c_api/c_api_entry.hpp"
#include "kv_offload/actors/c_api/c_api_keys.hpp"
#include "kv_offload/actors/c_api/c_api_structs.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>

using namespace kv_offload;
using namespace kv_offload::c_api;

namespace {

static_assert(static_cast<int>(LookupResult::miss) == KVO_MISS && static_cast<int>(LookupResult::hit) == KVO_HIT &&
              static_cast<int>(LookupResult::hit_pending) == KVO_HIT_PENDING &&
              static_cast<int>(LookupResult::retry) == KVO_RETRY);

/// More than the engine's own deadline is that deadline, so that no number is too large to be a time.
Duration time_of(const OffloadEngine& engine, std::uint64_t ms) {
  const auto most = std::chrono::ceil<std::chrono::milliseconds>(engine.config().deadlines.lookup).count();
  return std::chrono::milliseconds(std::min(ms, static_cast<std::uint64_t>(most)));
}

int read_options(const OffloadEngine& engine, const kvo_lookup_options* given, LookupOptions& options) {
  kvo_lookup_options known;
  if (const int wrong = read_struct(given, "options", known)) return wrong;
  constexpr std::uint32_t kKnown = KVO_SCAN_WINDOW | KVO_WAIT_RESOLVED | KVO_WAIT_POLLED | KVO_NO_HOLD;
  if (const int wrong = check_flags("options.flags", known.flags, kKnown)) return wrong;
  const auto has = [&](std::uint32_t flag) { return (known.flags & flag) != 0; };
  if (has(KVO_WAIT_RESOLVED) && has(KVO_WAIT_POLLED))
    return not_allowed("options.flags", std::to_string(known.flags), "one of KVO_WAIT_RESOLVED and KVO_WAIT_POLLED");
  if (known.reserved != 0) return not_allowed("options.reserved", std::to_string(known.reserved), "0");
  options.scan = has(KVO_SCAN_WINDOW) ? LookupScan::window : LookupScan::prefix;
  options.wait = has(KVO_WAIT_POLLED)     ? LookupWait::polled
                 : has(KVO_WAIT_RESOLVED) ? LookupWait::resolved
                                          : LookupWait::landed;
  options.hold = engine.config().primary.hold && !has(KVO_NO_HOLD);
  options.device_tokens = known.device_tokens;
  options.first_token = known.first_token;
  options.give_up = time_of(engine, known.give_up_ms);
  return KVO_OK;
}

int read_options(const OffloadEngine& engine, const kvo_prefetch_options* given, PrefetchOptions& options) {
  kvo_prefetch_options known;
  if (const int wrong = read_struct(given, "options", known)) return wrong;
  if (const int wrong = check_flags("options.flags", known.flags, KVO_NO_HOLD)) return wrong;
  if (known.mode > KVO_PREFETCH_TIMEOUT)
    return fail(KVO_UNSUPPORTED, "options.mode: " + std::to_string(known.mode) + " is no mode that this library knows; it is version " +
                                     kvo_version());
  if ((known.mode == KVO_PREFETCH_TIMEOUT) != (known.timeout_ms > 0))
    return not_allowed("options.timeout_ms", std::to_string(known.timeout_ms),
                       "more than 0 with KVO_PREFETCH_TIMEOUT, and 0 without it");
  options.mode = static_cast<PrefetchMode>(known.mode);
  options.timeout = time_of(engine, known.timeout_ms);
  options.hold = engine.config().primary.hold && (known.flags & KVO_NO_HOLD) == 0;
  options.device_tokens = known.device_tokens;
  options.first_token = known.first_token;
  return KVO_OK;
}
static_assert(static_cast<int>(PrefetchMode::best_effort) == KVO_PREFETCH_BEST_EFFORT &&
              static_cast<int>(PrefetchMode::complete) == KVO_PREFETCH_COMPLETE &&
              static_cast<int>(PrefetchMode::timeout) == KVO_PREFETCH_TIMEOUT);

kvo_lookup_answer to_c(const LookupAnswer& found) {
  kvo_lookup_answer answer{};
  answer.struct_size = sizeof(answer);
  answer.leading_hits = found.leading_hits;
  for (std::size_t origin = 0; origin < found.tier_hits.size(); ++origin)
    (origin == 0 ? answer.primary_hits : answer.tier_hits) += found.tier_hits[origin];
  answer.promoted = found.promoted;
  answer.unheld = found.unheld;
  answer.truncated = found.truncated;
  answer.refused = found.refused;
  answer.capped = found.capped;
  answer.gave_up = found.gave_up;
  answer.worth_chunks = found.worth.chunks;
  answer.load_s = found.worth.load_s;
  answer.compute_s = found.worth.compute_s;
  return answer;
}

/// The host's function, called exactly once.
void call_back(HostGate& gate, kvo_lookup_callback callback, void* user, const Expected<LookupAnswer>& found) {
  try {
    const CallbackScope scope;
    if (!found) {
      callback(user, code_of(found.error().code), to_string(found.error()).c_str(), nullptr, nullptr, 0);
    } else {
      static_assert(sizeof(LookupResult) == sizeof(std::uint8_t));
      const auto answer = to_c(*found);
      callback(user, KVO_OK, "", &answer, reinterpret_cast<const std::uint8_t*>(found->results.data()),
               found->results.size());
    }
  } catch (...) {  // the callback threw: nobody is there to catch it
  }
  gate.call_ended();
}

}  // namespace

int kvo_lookup(kvo_engine* engine, kvo_request request, const kvo_key* keys, std::size_t num_keys,
               const kvo_lookup_options* given, kvo_lookup_answer* answer, std::uint8_t* results) {
  return enter(engine, Waits::yes, [&](OffloadEngine& e) {
    const OutStruct<kvo_lookup_answer> out(answer, "answer");
    if (out.wrong() != KVO_OK) return out.wrong();
    LookupOptions options;
    if (const int wrong = read_options(e, given, options)) return wrong;
    KeyList list;
    if (const int wrong = read_keys(e, keys, num_keys, list)) return wrong;
    const auto found = e.lookup(id_of<RequestHandle>(request), std::move(list), options).get();
    if (!found) return code_of(found);
    out.write(to_c(*found));
    if (results != nullptr)
      std::ranges::transform(found->results, results, [](LookupResult r) { return static_cast<std::uint8_t>(r); });
    return static_cast<int>(KVO_OK);
  });
}

int kvo_lookup_async(kvo_engine* engine, kvo_request request, const kvo_key* keys, std::size_t num_keys,
                     const kvo_lookup_options* given, kvo_lookup_callback callback, void* user) {
  return enter(engine, Waits::no, [&](OffloadEngine& e) {
    if (callback == nullptr) return not_allowed("callback", "NULL", "a function");
    LookupOptions options;
    if (const int wrong = read_options(e, given, options)) return wrong;
    KeyList list;
    if (const int wrong = read_keys(e, keys, num_keys, list)) return wrong;
    // From here on the callback is sure to come: nothing that follows `then` can fail, and what precedes it has
    // not promised anything yet.
    auto pending = e.lookup(id_of<RequestHandle>(request), std::move(list), options);
    std::function<void(Expected<LookupAnswer>)> deliver = [gate = engine->gate, callback, user](const Expected<LookupAnswer>& found) {
      call_back(*gate, callback, user, found);
    };
    engine->gate->call_begins();
    std::move(pending).then(std::move(deliver));
    return static_cast<int>(KVO_OK);
  });
}

int kvo_prefetch(kvo_engine* engine, kvo_request request, const kvo_key* keys, std::size_t num_keys,
                 const kvo_prefetch_options* given, kvo_lookup_answer* answer) {
  return enter(engine, Waits::yes, [&](OffloadEngine& e) {
    const OutStruct<kvo_lookup_answer> out(answer, "answer");
    if (out.wrong() != KVO_OK) return out.wrong();
    PrefetchOptions options;
    if (const int wrong = read_options(e, given, options)) return wrong;
    KeyList list;
    if (const int wrong = read_keys(e, keys, num_keys, list)) return wrong;
    const auto found = e.prefetch(id_of<RequestHandle>(request), std::move(list), options).get();
    if (!found) return code_of(found);
    out.write(to_c(*found));
    return static_cast<int>(KVO_OK);
  });
}
