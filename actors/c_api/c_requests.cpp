// Requests from their announcement to their end, and forgetting.
#include "kv_offload/actors/c_api/c_api_entry.hpp"
#include "kv_offload/actors/c_api/c_api_keys.hpp"
#include "kv_offload/actors/c_api/c_api_structs.hpp"

#include <limits>

using namespace kv_offload;
using namespace kv_offload::c_api;

namespace {

std::string text_or_empty(const char* text) { return text == nullptr ? std::string() : std::string(text); }

int write_forgotten(const Expected<ForgetSummary>& answer, const OutStruct<kvo_forget_summary>& out) {
  if (!answer) return code_of(answer);
  kvo_forget_summary summary{};
  summary.primary_chunks = answer->primary_chunks;
  summary.tier_chunks = answer->tier_chunks;
  summary.tiers_not_forgotten = static_cast<std::uint32_t>(answer->not_forgotten.size());
  out.write(summary);
  return KVO_OK;
}

}  // namespace

int kvo_new_request(kvo_engine* engine, const kvo_request_options* given, kvo_request* request, int* policy) {
  return enter(engine, Waits::yes, [&](OffloadEngine& e) {
    kvo_request_options options;
    if (request == nullptr) return not_allowed("request", "NULL", "where to put it");
    *request = 0;
    if (const int wrong = read_struct(given, "options", options)) return wrong;
    if (options.req_id == nullptr) return not_allowed("options.req_id", "NULL", "a text");
    NewRequest announced;
    announced.req_id = options.req_id;
    announced.prompt_tokens = options.prompt_tokens;
    announced.tenant = text_or_empty(options.tenant);
    announced.kv_transfer_params = text_or_empty(options.kv_transfer_params);
    announced.priority = static_cast<std::int32_t>(options.priority);
    if (announced.priority != options.priority)
      return not_allowed("options.priority", std::to_string(options.priority), "-2147483648 to 2147483647");
    if (options.domain > std::numeric_limits<DomainId>::max())
      return not_allowed("options.domain", std::to_string(options.domain), "1 + a domain, or 0");
    if (options.domain > 0) announced.domain = static_cast<DomainId>(options.domain - 1);
    const auto opened = e.new_request(std::move(announced)).get();
    if (!opened) return code_of(opened);
    *request = number_of(opened->handle);
    if (policy != nullptr) *policy = opened->policy == OffloadPolicy::request_level ? KVO_REQUEST_LEVEL : KVO_CHUNK_LEVEL;
    return static_cast<int>(KVO_OK);
  });
}

int kvo_allocated(kvo_engine* engine, kvo_request request, std::uint64_t device_tokens) {
  return enter(engine, Waits::yes, [&](OffloadEngine& e) {
    return code_of(e.allocated(id_of<RequestHandle>(request), device_tokens).get());
  });
}

int kvo_touch(kvo_engine* engine, kvo_request request, const kvo_key* keys, std::size_t num_keys) {
  return enter(engine, Waits::yes, [&](OffloadEngine& e) {
    KeyList list;
    if (const int wrong = read_keys(e, keys, num_keys, list)) return wrong;
    return code_of(e.touch(id_of<RequestHandle>(request), std::move(list)).get());
  });
}

int kvo_abort(kvo_engine* engine, kvo_request request) {
  return enter(engine, Waits::yes,
               [&](OffloadEngine& e) { return code_of(e.abort(id_of<RequestHandle>(request)).get()); });
}

int kvo_request_finished(kvo_engine* engine, kvo_request request, kvo_request_summary* summary) {
  return enter(engine, Waits::yes, [&](OffloadEngine& e) {
    const OutStruct<kvo_request_summary> out(summary, "summary");
    if (out.wrong() != KVO_OK) return out.wrong();
    const auto answer = e.request_finished(id_of<RequestHandle>(request)).get();
    if (!answer) return code_of(answer);
    kvo_request_summary moved{};
    moved.looked_up_chunks = answer->looked_up_chunks;
    moved.hit_chunks = answer->hit_chunks;
    moved.promoted_chunks = answer->promoted_chunks;
    moved.promoted_bytes = answer->promoted_bytes;
    moved.stored_chunks = answer->stored_chunks;
    moved.loaded_chunks = answer->loaded_chunks;
    moved.cascaded_chunks = answer->cascaded_chunks;
    moved.refused_chunks = answer->refused_chunks;
    out.write(moved);
    return static_cast<int>(KVO_OK);
  });
}

int kvo_forget(kvo_engine* engine, const kvo_key* keys, std::size_t num_keys, const char* tenant,
               kvo_forget_summary* summary) {
  return enter(engine, Waits::yes, [&](OffloadEngine& e) {
    const OutStruct<kvo_forget_summary> out(summary, "summary");
    if (out.wrong() != KVO_OK) return out.wrong();
    KeyList list;
    if (const int wrong = read_keys(e, keys, num_keys, list)) return wrong;
    return write_forgotten(e.forget(std::move(list), text_or_empty(tenant)).get(), out);
  });
}

int kvo_forget_tenant(kvo_engine* engine, const char* tenant, kvo_forget_summary* summary) {
  return enter(engine, Waits::yes, [&](OffloadEngine& e) {
    const OutStruct<kvo_forget_summary> out(summary, "summary");
    if (out.wrong() != KVO_OK) return out.wrong();
    if (tenant == nullptr) return not_allowed("tenant", "NULL", "a text");
    return write_forgotten(e.forget_tenant(tenant).get(), out);
  });
}
