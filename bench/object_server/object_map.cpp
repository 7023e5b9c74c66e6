#include "kv_offload/bench/object_server/object_map.hpp"

#include <array>
#include <cstdio>
#include <cstring>
#include <utility>

namespace kv_offload::bench {

bool ObjectMap::reserve(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes > bytes_max_ || bytes_ > bytes_max_ - bytes) return false;
  bytes_ += bytes;
  return true;
}

void ObjectMap::reserve_beyond(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  bytes_ += bytes;
}

void ObjectMap::unreserve(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  bytes_ -= bytes;
}

ObjectPtr ObjectMap::put(const std::string& key, StoredObject object, bool only_new) {
  object.modified = std::time(nullptr);
  ObjectPtr replaced;  // freed after the lock: unmapping megabytes takes a while
  const std::lock_guard lock(mutex_);
  ObjectPtr& slot = objects_[key];
  if (slot && only_new) return nullptr;
  // No MD5, which would cost more than everything else here; S3 promises only that it names the content.
  std::array<char, 40> etag{};
  std::snprintf(etag.data(), etag.size(), "\"%032llx\"",
                static_cast<unsigned long long>(++versions_));
  object.etag = etag.data();
  if (slot) bytes_ -= held(*slot);
  replaced = std::exchange(slot, std::make_shared<const StoredObject>(std::move(object)));
  return slot;
}

ObjectPtr ObjectMap::find(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto at = objects_.find(key);
  return at == objects_.end() ? nullptr : at->second;
}

bool ObjectMap::remove(const std::string& key) {
  ObjectPtr removed;
  const std::lock_guard lock(mutex_);
  const auto at = objects_.find(key);
  if (at == objects_.end()) return false;
  removed = std::move(at->second);
  bytes_ -= held(*removed);
  objects_.erase(at);
  return true;
}

bool ObjectMap::flip(const std::string& key, std::uint64_t byte_at) {
  const std::lock_guard lock(mutex_);
  const auto at = objects_.find(key);
  if (at == objects_.end() || !at->second->bytes || byte_at >= at->second->size) return false;
  StoredObject changed = *at->second;
  changed.bytes = std::shared_ptr<std::byte[]>(new std::byte[changed.size]);
  std::memcpy(changed.bytes.get(), at->second->bytes.get(), changed.size);
  changed.bytes[static_cast<std::ptrdiff_t>(byte_at)] ^= std::byte{0xff};
  at->second = std::make_shared<const StoredObject>(std::move(changed));
  return true;
}

std::size_t ObjectMap::size() const {
  const std::lock_guard lock(mutex_);
  return objects_.size();
}

std::vector<std::pair<std::string, ObjectPtr>> ObjectMap::list(
    const std::string& prefix, const std::optional<std::string>& after, std::size_t most) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<std::string, ObjectPtr>> found;
  auto at = after && *after >= prefix ? objects_.upper_bound(*after) : objects_.lower_bound(prefix);
  for (; at != objects_.end() && at->first.starts_with(prefix) && found.size() < most; ++at)
    found.emplace_back(*at);
  return found;
}

}  // namespace kv_offload::bench
