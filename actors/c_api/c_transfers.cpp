// Device to primary and back.
#include "kv_offload/actors/c_api/c_api_entry.hpp"
#include "kv_offload/actors/c_api/c_api_keys.hpp"
#include "kv_offload/actors/c_api/c_api_structs.hpp"

#include <algorithm>

using namespace kv_offload;
using namespace kv_offload::c_api;

namespace {

int read_options(const kvo_store_options* given, StoreOptions& options) {
  kvo_store_options known;
  if (const int wrong = read_struct(given, "options", known)) return wrong;
  if (const int wrong = check_flags("options.flags", known.flags, KVO_HAS_FIRST_TOKEN)) return wrong;
  if (known.reserved != 0) return not_allowed("options.reserved", std::to_string(known.reserved), "0");
  if ((known.flags & KVO_HAS_FIRST_TOKEN) != 0) options.first_token = known.first_token;
  return KVO_OK;
}

}  // namespace

int kvo_prepare_store(kvo_engine* engine, kvo_request request, const kvo_key* keys, std::size_t num_keys,
                      const kvo_store_options* given, kvo_store_plan* plan, std::uint32_t* key_idx,
                      std::uint32_t* chunk_ids) {
  return enter(engine, Waits::yes, [&](OffloadEngine& e) {
    if (plan == nullptr) return not_allowed("plan", "NULL", "where to put the lease");
    const OutStruct<kvo_store_plan> out(plan, "plan");
    if (out.wrong() != KVO_OK) return out.wrong();
    if (num_keys > 0 && (key_idx == nullptr || chunk_ids == nullptr))
      return not_allowed("key_idx, chunk_ids", "NULL", "room for num_keys numbers each");
    StoreOptions options;
    if (const int wrong = read_options(given, options)) return wrong;
    KeyList list;
    if (const int wrong = read_keys(e, keys, num_keys, list)) return wrong;
    const auto granted = e.prepare_store(id_of<RequestHandle>(request), std::move(list), options).get();
    if (!granted) return code_of(granted);
    kvo_store_plan answer{};
    answer.lease = number_of(granted->lease);
    answer.num_chunks = static_cast<std::uint32_t>(granted->chunk_ids.size());
    answer.evicted = granted->evicted;
    answer.capped = granted->capped;
    out.write(answer);
    std::ranges::copy(granted->key_idx, key_idx);
    std::ranges::copy(granted->chunk_ids, chunk_ids);
    return static_cast<int>(KVO_OK);
  });
}

int kvo_complete_store(kvo_engine* engine, kvo_lease lease, std::uint32_t flags, kvo_store_outcome* outcome) {
  return enter(engine, Waits::yes, [&](OffloadEngine& e) {
    const OutStruct<kvo_store_outcome> out(outcome, "outcome");
    if (out.wrong() != KVO_OK) return out.wrong();
    if (const int wrong = check_flags("flags", flags, KVO_STORE_FAILED | KVO_WAIT_CASCADES)) return wrong;
    CompleteStoreOptions options;
    options.success = (flags & KVO_STORE_FAILED) == 0;
    options.wait_cascades = (flags & KVO_WAIT_CASCADES) != 0;
    const auto done = e.complete_store(id_of<LeaseId>(lease), options).get();
    if (!done) return code_of(done);
    kvo_store_outcome answer{};
    answer.published = done->published;
    answer.cascades_admitted = done->cascades_admitted;
    answer.cascades_refused = done->cascades_refused;
    answer.chunks_stored = done->chunks_stored;
    answer.chunks_failed = done->chunks_failed;
    out.write(answer);
    return static_cast<int>(KVO_OK);
  });
}

int kvo_prepare_load(kvo_engine* engine, kvo_request request, const kvo_key* keys, std::size_t num_keys,
                     kvo_load_plan* plan, std::uint32_t* chunk_ids) {
  return enter(engine, Waits::yes, [&](OffloadEngine& e) {
    if (plan == nullptr) return not_allowed("plan", "NULL", "where to put the lease");
    const OutStruct<kvo_load_plan> out(plan, "plan");
    if (out.wrong() != KVO_OK) return out.wrong();
    if (num_keys > 0 && chunk_ids == nullptr) return not_allowed("chunk_ids", "NULL", "room for num_keys numbers");
    KeyList list;
    if (const int wrong = read_keys(e, keys, num_keys, list)) return wrong;
    const auto granted = e.prepare_load(id_of<RequestHandle>(request), std::move(list)).get();
    if (!granted) return code_of(granted);
    kvo_load_plan answer{};
    answer.lease = number_of(granted->lease);
    answer.num_chunks = static_cast<std::uint32_t>(granted->chunk_ids.size());
    out.write(answer);
    std::ranges::copy(granted->chunk_ids, chunk_ids);
    return static_cast<int>(KVO_OK);
  });
}

int kvo_complete_load(kvo_engine* engine, kvo_lease lease) {
  return enter(engine, Waits::yes,
               [&](OffloadEngine& e) { return code_of(e.complete_load(id_of<LeaseId>(lease)).get()); });
}
