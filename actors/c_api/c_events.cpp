// What entered and left the tiers.
#include "kv_offload/actors/c_api/c_api_entry.hpp"
#include "kv_offload/messages/tier_traits.hpp"

#include <string>
#include <vector>

using namespace kv_offload;
using namespace kv_offload::c_api;

int kvo_take_events(kvo_engine* engine, kvo_event_callback callback, void* user) {
  return enter(engine, Waits::yes, [&](OffloadEngine& e) {
    if (callback == nullptr) return not_allowed("callback", "NULL", "a function");
    const auto events = e.take_events().get();
    if (!events) return code_of(events);
    const CallbackScope scope;
    for (const OffloadingEvent& event : *events) {
      std::vector<kvo_key> keys;
      keys.reserve(event.keys.size());
      for (const OffloadKey& key : event.keys)
        keys.push_back({key.content_hash().data(), static_cast<std::uint32_t>(key.content_hash().size()), key.group_idx()});
      const std::string medium = event.medium ? std::string(to_string(*event.medium)) : std::string();
      const std::string locality = event.locality ? std::string(to_string(*event.locality)) : std::string();
      kvo_event told{};
      told.struct_size = sizeof told;
      told.removed = event.removed ? 1 : 0;
      told.medium = event.medium ? medium.c_str() : nullptr;
      told.locality = event.locality ? locality.c_str() : nullptr;
      told.keys = keys.data();
      told.num_keys = keys.size();
      told.chunk_ids = event.chunk_ids.empty() ? nullptr : event.chunk_ids.data();
      try {
        callback(user, &told);
      } catch (...) {  // swallowed: the rest of the events must not be lost by it
      }
    }
    return static_cast<int>(KVO_OK);
  });
}
