#pragma once

#include "kv_offload/bench/object_server/object_server.hpp"

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kv_offload::bench {

/// Never changes once it is in the map, so that it can be sent without a lock while it is replaced.
struct StoredObject {
  std::shared_ptr<std::byte[]> bytes;  ///< null: zeros
  std::uint64_t size = 0;
  ObjectHeaders headers;  ///< x-amz-meta-* and content-type
  std::string etag;
  std::time_t modified = 0;
};
using ObjectPtr = std::shared_ptr<const StoredObject>;

/// The objects of the one bucket, and how many bytes they may have. Any thread.
class ObjectMap {
 public:
  explicit ObjectMap(std::uint64_t bytes_max) : bytes_max_(bytes_max) {}

  /// Room for a body that is on its way. False: there is none.
  bool reserve(std::uint64_t bytes);
  /// As above, also where there is none.
  void reserve_beyond(std::uint64_t bytes);
  void unreserve(std::uint64_t bytes);

  /// Room for its bytes, where it has some, was reserved and is now the object's.
  /// @return the object as stored, or null where `only_new` and the key is taken
  ObjectPtr put(const std::string& key, StoredObject object, bool only_new);
  [[nodiscard]] ObjectPtr find(const std::string& key) const;
  bool remove(const std::string& key);
  bool flip(const std::string& key, std::uint64_t byte_at);
  [[nodiscard]] std::size_t size() const;

  /// Keys with this prefix behind `after`, in the order of their bytes; at most `most`.
  [[nodiscard]] std::vector<std::pair<std::string, ObjectPtr>> list(
      const std::string& prefix, const std::optional<std::string>& after, std::size_t most) const;

 private:
  static std::uint64_t held(const StoredObject& object) { return object.bytes ? object.size : 0; }

  const std::uint64_t bytes_max_;
  mutable std::mutex mutex_;
  std::map<std::string, ObjectPtr> objects_;
  std::uint64_t bytes_ = 0;  ///< of all bodies, also of those on their way
  std::uint64_t versions_ = 0;
};

}  // namespace kv_offload::bench
