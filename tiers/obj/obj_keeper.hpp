#pragma once

#include "kv_offload/tiers/obj/obj_core.hpp"
#include "kv_offload/tiers/obj/object_index.hpp"
#include "kv_offload/tiers/obj/s3_xml.hpp"

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>
#include <asio/steady_timer.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kv_offload {

/// Knows which objects the bucket holds, as far as it is wanted: for a capacity, which it keeps by deleting the least
/// recently used ones, and for a manifest, which answers probes. Both begin with a listing, page by page, beside
/// the tier's other work. Lane thread.
class ObjKeeper {
 public:
  enum class Room : std::uint8_t {
    ready,  ///< reserved; give it back with release()
    later,  ///< objects are being deleted for it, or stores end that may make some
    none,   ///< nothing can make room
  };

  /// Keys of one multi-object delete. Stores allow 1000, and some, Ceph's gateway among them, remove them one by one:
  /// an answer must come within request_timeout_ms.
  static constexpr std::size_t kDeleteBatch = 250;

  explicit ObjKeeper(ObjCore& core);

  /// Begins to list, if anything is to be known.
  void start();
  [[nodiscard]] bool is_counting() const { return core_.config.capacity_bytes.has_value(); }
  [[nodiscard]] bool knows_objects() const { return is_counting() || has_manifest(); }

  // --- room for stores ------------------------------------------------------------------------------
  Room reserve();
  void release();

  // --- what others saw ------------------------------------------------------------------------------
  void stored(const OffloadKey& key);
  void seen(const OffloadKey& key, std::uint64_t bytes);
  void touched(const OffloadKey& key) { index_.touch(key); }
  void gone(const OffloadKey& key);
  /// A load or a store of the key is on its way: it is not evicted.
  void begin_use(const OffloadKey& key);
  void end_use(const OffloadKey& key);
  [[nodiscard]] bool is_leaving(const OffloadKey& key) const { return leaving_.contains(key); }
  /// What the manifest says of a key, while it is young enough to be believed.
  [[nodiscard]] std::optional<bool> manifest(const OffloadKey& key) const;

  // --- forget ---------------------------------------------------------------------------------------
  void forget(ObjForget forget);
  /// Another namespace: what was known is void.
  void restart();
  /// Nothing more is begun; forgets that are not done have failed.
  void stop();
  [[nodiscard]] bool is_idle() const { return !forgetting_; }

 private:
  struct Forgetting {
    Forgetting(ObjForget forget, const ObjCore& core)
        : what(std::move(forget)), name_space(core.name_space), generation(core.generation) {}
    ObjForget what;
    ObjNamespace name_space;        // as it was when the forget began
    std::uint32_t generation;       // of name_space
    std::uint64_t gone = 0;
    std::size_t next = 0;           // of what.keys, to be looked for
    std::size_t looking = 0;
    std::vector<OffloadKey> found;  // to be deleted
    std::string continuation;       // of a tenant's listing
    bool listed = false;
    std::string error;
  };

  [[nodiscard]] bool has_manifest() const { return core_.config.existence == ObjExistence::manifest; }
  void list_page(std::string continuation);
  void listed(S3Reply&& reply);
  void list_again_after(Duration wait);
  void evict();
  void evict_excess();
  void evicted(const std::vector<OffloadKey>& victims, S3Reply&& reply);
  void publish();

  void run_next_forget();
  void look_for_keys();
  void list_tenant();
  void delete_found();
  void end_forget();
  S3Client::CallId list(const ObjNamespace& of, const std::string& continuation, S3Client::Done done);
  /// At most kDeleteBatch keys.
  /// @param body  of the request; stays as it is until `done`
  void remove(const ObjNamespace& of, const std::vector<OffloadKey>& keys, std::string& body, S3Client::Done done);
  /// Which objects of a multi-object delete are still there, with the store's code; an error if all may be.
  static Expected<std::vector<std::pair<std::string, std::string>>> errors_of(const S3Reply& reply);

  ObjCore& core_;
  ObjectIndex index_;
  std::uint64_t reserved_ = 0;
  std::uint32_t generation_ = 1;     // of the listing that runs, or ran last
  bool stopped_ = false;
  // The listing.
  bool is_complete_ = false;          // one listing told everything
  MonotonicTime complete_until_{};    // as a manifest
  S3Client::CallId list_call_ = 0;
  std::vector<S3Object> found_;       // of this listing, bounded by manifest_keys_max
  std::uint64_t found_dropped_ = 0;
  asio::steady_timer list_timer_;
  // Evictions.
  absl::flat_hash_set<OffloadKey> leaving_;
  absl::flat_hash_map<OffloadKey, std::uint32_t> in_use_;
  MonotonicTime evict_after_{};
  std::string delete_body_;           // of the one eviction in flight
  bool evicting_ = false;
  // Forgets, one at a time.
  std::deque<ObjForget> forgets_;
  std::optional<Forgetting> forgetting_;
  std::string forget_body_;
};

}  // namespace kv_offload
