#include "kv_offload/tiers/obj/obj_keeper.hpp"

#include "kv_offload/tiers/obj/content_md5.hpp"

#include <algorithm>
#include <utility>

namespace kv_offload {

namespace {

/// A capacity alone bounds the index by what fits in it, and this: 4 GiB of memory.
constexpr std::size_t kIndexKeysMax = 1U << 24;
/// After an eviction that failed; stores wait for it until their deadline.
constexpr auto kEvictPause = std::chrono::seconds(1);
constexpr auto kListPause = std::chrono::seconds(5);
/// Room made at once: a request per chunk would cost as much as the store.
constexpr std::uint64_t kEvictShare = 64;

std::size_t index_keys(const ObjCore& core) {
  if (!core.config.capacity_bytes) return core.config.manifest_keys_max;
  const std::uint64_t row = std::max<std::uint64_t>(core.options.primary.row_bytes, 1);
  const std::uint64_t fits = *core.config.capacity_bytes / row + 1;
  return static_cast<std::size_t>(std::min<std::uint64_t>(
      std::max<std::uint64_t>(2 * fits, core.config.manifest_keys_max), kIndexKeysMax));
}

}  // namespace

ObjKeeper::ObjKeeper(ObjCore& core) : core_(core), index_(index_keys(core)), list_timer_(core.loop) {}

void ObjKeeper::start() {
  if (knows_objects()) list_page({});
}

void ObjKeeper::restart() {
  list_timer_.cancel();
  if (list_call_ != 0) core_.client.cancel(std::exchange(list_call_, 0));
  is_complete_ = false;
  found_.clear();
  index_.clear();
  leaving_.clear();  // the names that leave are another namespace's
  publish();
  start();
}

void ObjKeeper::stop() {
  stopped_ = true;
  list_timer_.cancel();
  if (list_call_ != 0) core_.client.cancel(std::exchange(list_call_, 0));
  if (forgetting_) {
    forgetting_->error = "the tier stops";
    end_forget();
  }
  for (const ObjForget& waiting : std::exchange(forgets_, {}))
    core_.sink.forgot(waiting.id, 0, "the tier stops");
}

void ObjKeeper::publish() {
  core_.shared.counters.known_objects.store(index_.size(), std::memory_order_relaxed);
  core_.shared.counters.known_bytes.store(index_.bytes(), std::memory_order_relaxed);
}

// --- the listing ------------------------------------------------------------------------------------

S3Client::CallId ObjKeeper::list(const ObjNamespace& of, const std::string& continuation, S3Client::Done done) {
  S3Call call;
  call.op = S3Op::list;
  call.query = {{"list-type", "2"},
                {"prefix", of.chunks_prefix()},
                {"max-keys", "1000"},
                {"encoding-type", "url"}};
  if (!continuation.empty()) call.query.emplace_back("continuation-token", continuation);
  call.attempt_timeout = core_.config.request_timeout;
  return core_.client.start(std::move(call), std::move(done));
}

void ObjKeeper::list_page(std::string continuation) {
  if (stopped_) return;
  if (continuation.empty()) {
    ++generation_;
    found_.clear();
    found_dropped_ = 0;
  }
  list_call_ = list(core_.name_space, continuation, [this](S3Reply&& reply) {
    list_call_ = 0;
    listed(std::move(reply));
  });
}

void ObjKeeper::list_again_after(Duration wait) {
  list_timer_.expires_after(wait);
  list_timer_.async_wait([this](const std::error_code& error) {
    if (!error && !stopped_) list_page({});
  });
}

void ObjKeeper::listed(S3Reply&& reply) {
  auto page = reply.failure == S3Failure::none
                  ? parse_listing(reply.body)
                  : Expected<S3Listing>(OffloadErrc::io_error, reply.detail);
  if (!page) {
    core_.warn("the objects could not be listed: " + page.error().detail +
               (is_counting() ? "; what was there before does not count until they are" : ""));
    list_again_after(std::max<Duration>(kListPause, has_manifest() ? core_.config.manifest_refresh : kListPause));
    return;
  }
  core_.shared.counters.listed_objects.fetch_add(page->objects.size(), std::memory_order_relaxed);
  for (S3Object& object : page->objects) {
    if (found_.size() >= core_.config.manifest_keys_max && !is_counting())
      ++found_dropped_;
    else if (found_.size() >= kIndexKeysMax)
      ++found_dropped_;
    else
      found_.push_back(std::move(object));
  }
  if (page->is_truncated && found_dropped_ == 0) {
    list_page(std::move(page->continuation));
    return;
  }
  // The youngest first: each goes before all that are known already.
  std::sort(found_.begin(), found_.end(),
            [](const S3Object& a, const S3Object& b) { return a.modified_s > b.modified_s; });
  for (const S3Object& object : found_) {
    const auto key = core_.name_space.key_of(object.key);
    if (!key || leaving_.contains(*key)) continue;
    if (has_manifest() && object.bytes != core_.options.primary.row_bytes && !is_counting()) continue;
    index_.put_coldest(*key, object.bytes, generation_);
  }
  found_ = {};
  const bool was_complete = is_complete_;
  is_complete_ = found_dropped_ == 0;
  if (is_complete_) index_.keep_since(generation_);  // others have removed the rest
  complete_until_ = core_.now() + 2 * core_.config.manifest_refresh;
  publish();
  if (!was_complete || !is_complete_)
    core_.log(std::to_string(index_.size()) + " objects of " + std::to_string(index_.bytes() >> 20) + " MiB are known" +
              (is_complete_ ? "" : "; there are more than manifest_keys_max, others are asked for one by one"));
  if (has_manifest()) list_again_after(core_.config.manifest_refresh);
  evict_excess();
  core_.pump();
}

std::optional<bool> ObjKeeper::manifest(const OffloadKey& key) const {
  if (!has_manifest()) return std::nullopt;
  if (index_.contains(key) && core_.now() < complete_until_)
    return index_.bytes_of(key) == core_.options.primary.row_bytes;
  if (is_complete_ && core_.now() < complete_until_) return false;
  return std::nullopt;
}

// --- room -------------------------------------------------------------------------------------------

ObjKeeper::Room ObjKeeper::reserve() {
  if (!is_counting()) return Room::ready;
  const std::uint64_t row = core_.options.primary.row_bytes;
  if (index_.bytes() + reserved_ + row <= *core_.config.capacity_bytes) {
    reserved_ += row;
    return Room::ready;
  }
  if (!evicting_) evict();
  const bool may_come = evicting_ || reserved_ > 0 || !in_use_.empty() || core_.now() < evict_after_;
  return may_come ? Room::later : Room::none;
}

void ObjKeeper::release() {
  if (is_counting()) reserved_ -= core_.options.primary.row_bytes;
}

void ObjKeeper::evict() {
  if (stopped_ || core_.now() < evict_after_) return;
  const std::uint64_t row = core_.options.primary.row_bytes;
  const std::uint64_t wanted = index_.bytes() + reserved_ + row - *core_.config.capacity_bytes;
  const auto victims =
      index_.coldest(std::max(wanted, *core_.config.capacity_bytes / kEvictShare), kDeleteBatch,
                     [this](const OffloadKey& key) { return !in_use_.contains(key); });
  if (victims.empty()) return;
  evicting_ = true;
  leaving_.insert(victims.begin(), victims.end());
  for (const OffloadKey& key : victims) core_.verdicts.erase(key);
  remove(core_.name_space, victims, delete_body_, [this, victims, of = core_.generation](S3Reply&& reply) {
    if (of == core_.generation) return evicted(victims, std::move(reply));
    evicting_ = false;
    core_.pump();
  });
}

/// More than the capacity was there when it was listed.
void ObjKeeper::evict_excess() {
  if (is_counting() && !evicting_ && index_.bytes() + reserved_ > *core_.config.capacity_bytes) evict();
}

void ObjKeeper::remove(const ObjNamespace& of, const std::vector<OffloadKey>& keys, std::string& body,
                       S3Client::Done done) {
  std::vector<std::string> names;
  names.reserve(keys.size());
  for (const OffloadKey& key : keys) names.push_back(of.object_of(key));
  body = delete_request(names);
  S3Call call;
  call.op = S3Op::remove_many;
  call.query = {{"delete", ""}};
  call.headers = {{"content-type", "application/xml"}};
  if (std::string md5 = content_md5(body); !md5.empty()) call.headers.emplace_back("content-md5", std::move(md5));
  call.upload = std::as_bytes(std::span(body));
  call.attempt_timeout = core_.config.request_timeout;
  core_.client.start(std::move(call), std::move(done));
}

Expected<std::vector<std::pair<std::string, std::string>>> ObjKeeper::errors_of(const S3Reply& reply) {
  using Errors = std::vector<std::pair<std::string, std::string>>;
  if (reply.failure != S3Failure::none) return {OffloadErrc::io_error, reply.detail};
  if (reply.body.empty()) return Errors{};  // "quiet"
  auto errors = parse_delete_errors(reply.body);
  if (errors) std::erase_if(*errors, [](const auto& error) { return error.second == "NoSuchKey"; });
  return errors;
}

void ObjKeeper::evicted(const std::vector<OffloadKey>& victims, S3Reply&& reply) {
  evicting_ = false;
  leaving_.clear();
  ObjCounters& counters = core_.shared.counters;
  const auto errors = errors_of(reply);
  if (!errors) {
    counters.delete_failures.fetch_add(victims.size(), std::memory_order_relaxed);
    core_.warn("the store did not delete " + std::to_string(victims.size()) +
               " objects: " + errors.error().detail);
    evict_after_ = core_.now() + kEvictPause;
    return core_.pump();
  }
  absl::flat_hash_set<std::string> failed;
  for (const auto& [name, code] : *errors) failed.insert(name);
  OffloadingEvent event;
  event.removed = true;
  event.medium = Medium::storage;
  event.locality = core_.config.locality;
  for (const OffloadKey& key : victims) {
    if (!failed.empty() && failed.contains(core_.name_space.object_of(key))) {
      counters.delete_failures.fetch_add(1, std::memory_order_relaxed);
      index_.touch(key);  // others first, next time
      continue;
    }
    counters.evicted_chunks.fetch_add(1, std::memory_order_relaxed);
    counters.evicted_bytes.fetch_add(index_.bytes_of(key), std::memory_order_relaxed);
    index_.erase(key);
    core_.verdicts.put(key, false, core_.now());
    event.keys.push_back(key);
  }
  if (event.keys.empty()) evict_after_ = core_.now() + kEvictPause;
  if (core_.config.enable_kv_events && !event.keys.empty()) core_.shared.events.add(std::move(event));
  evict_excess();
  publish();
  core_.pump();
}

void ObjKeeper::stored(const OffloadKey& key) {
  if (!knows_objects()) return;
  index_.put(key, core_.options.primary.row_bytes, generation_);
  publish();
}

void ObjKeeper::seen(const OffloadKey& key, std::uint64_t bytes) {
  if (!knows_objects()) return;
  index_.put(key, bytes, generation_);
  publish();
}

void ObjKeeper::gone(const OffloadKey& key) {
  if (!knows_objects()) return;
  index_.erase(key);
  publish();
}

void ObjKeeper::begin_use(const OffloadKey& key) {
  if (is_counting()) ++in_use_[key];
}

void ObjKeeper::end_use(const OffloadKey& key) {
  const auto it = in_use_.find(key);
  if (it != in_use_.end() && --it->second == 0) in_use_.erase(it);
}

}  // namespace kv_offload
