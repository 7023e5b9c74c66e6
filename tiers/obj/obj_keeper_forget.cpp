// How chunks are removed because somebody asked for it: looked for first, so that the answer says how many went.
#include "kv_offload/tiers/obj/obj_keeper.hpp"

#include <algorithm>
#include <utility>

namespace kv_offload {

void ObjKeeper::forget(ObjForget forget) {
  if (stopped_) return core_.sink.forgot(forget.id, 0, "the tier stops");
  std::sort(forget.keys.begin(), forget.keys.end());
  forget.keys.erase(std::unique(forget.keys.begin(), forget.keys.end()), forget.keys.end());  // each counts once
  forgets_.push_back(std::move(forget));
  run_next_forget();
}

void ObjKeeper::run_next_forget() {
  if (stopped_ || forgetting_ || forgets_.empty()) return;
  forgetting_.emplace(std::move(forgets_.front()), core_);
  forgets_.pop_front();
  if (forgetting_->what.salt)
    list_tenant();
  else
    look_for_keys();
}

void ObjKeeper::look_for_keys() {
  Forgetting& f = *forgetting_;
  if (f.next >= f.what.keys.size() && f.looking == 0) {
    f.listed = true;
    return delete_found();
  }
  while (f.looking < core_.config.max_probes && f.next < f.what.keys.size()) {
    const OffloadKey key = f.what.keys[f.next++];
    S3Call call;
    call.op = S3Op::head;
    call.key = f.name_space.object_of(key);
    call.attempt_timeout = core_.config.request_timeout;
    ++f.looking;
    core_.client.start(std::move(call), [this, key, id = f.what.id](S3Reply&& reply) {
      if (!forgetting_ || forgetting_->what.id != id) return;
      Forgetting& now = *forgetting_;
      --now.looking;
      if (reply.failure == S3Failure::none)
        now.found.push_back(key);
      else if (reply.failure != S3Failure::not_found)
        now.error = reply.detail;
      look_for_keys();
    });
  }
}

void ObjKeeper::list_tenant() {
  list(forgetting_->name_space, forgetting_->continuation, [this, id = forgetting_->what.id](S3Reply&& reply) {
    if (!forgetting_ || forgetting_->what.id != id) return;
    Forgetting& f = *forgetting_;
    auto page = reply.failure == S3Failure::none
                    ? parse_listing(reply.body)
                    : Expected<S3Listing>(OffloadErrc::io_error, reply.detail);
    if (!page) {
      f.error = page.error().detail;
      return end_forget();
    }
    for (const S3Object& object : page->objects)
      if (const auto key = f.name_space.key_of(object.key); key && key->has_salt(*f.what.salt))
        f.found.push_back(*key);
    f.continuation = page->is_truncated ? std::move(page->continuation) : std::string();
    f.listed = !page->is_truncated;
    delete_found();
  });
}

void ObjKeeper::delete_found() {
  Forgetting& f = *forgetting_;
  if (f.found.empty()) {
    if (f.listed) return end_forget();
    return list_tenant();
  }
  const std::size_t count = std::min(f.found.size(), kDeleteBatch);
  std::vector<OffloadKey> batch(f.found.end() - static_cast<std::ptrdiff_t>(count), f.found.end());
  f.found.resize(f.found.size() - count);
  remove(f.name_space, batch, forget_body_, [this, batch, id = f.what.id](S3Reply&& reply) {
    if (!forgetting_ || forgetting_->what.id != id) return;
    Forgetting& now = *forgetting_;
    const auto errors = errors_of(reply);
    if (!errors) {
      now.error = errors.error().detail;
      return end_forget();
    }
    absl::flat_hash_set<std::string> failed;
    for (const auto& [name, code] : *errors) {
      failed.insert(name);
      now.error = "the store did not delete an object: " + code;
    }
    for (const OffloadKey& key : batch) {
      if (failed.contains(now.name_space.object_of(key))) continue;
      ++now.gone;
      if (now.generation != core_.generation) continue;
      index_.erase(key);
      core_.verdicts.put(key, false, core_.now());
    }
    publish();
    delete_found();
  });
}

void ObjKeeper::end_forget() {
  Forgetting f = std::move(*forgetting_);
  forgetting_.reset();
  core_.sink.forgot(f.what.id, f.gone, std::move(f.error));
  run_next_forget();
  core_.pump();
}

}  // namespace kv_offload
