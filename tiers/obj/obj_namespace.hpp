#pragma once

#include "kv_offload/messages/expected.hpp"
#include "kv_offload/messages/namespace_identity.hpp"
#include "kv_offload/messages/offload_key.hpp"
#include "kv_offload/tiers/digest.hpp"
#include "kv_offload/tiers/fs/file_mapper.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace kv_offload {

/// Names of the objects of one namespace and revision, as other readers of the public scheme know them:
/// [<prefix>/]/<model>_<d>_r<rank>/<hhh>/<hh>_g<group>/<hash hex>.bin, with both slashes. Immutable, any thread.
class ObjNamespace {
 public:
  /// `identity.blocks_per_file` does not matter: an object holds one block of the scheme, always.
  static Expected<ObjNamespace> make(const std::string& prefix, NamespaceIdentity identity);

  [[nodiscard]] std::string object_of(const OffloadKey& key) const { return prefix_ + mapper_.path_of(key); }
  /// Of an object's name, ours or another reader's; nullopt if it is not a chunk of this namespace.
  [[nodiscard]] std::optional<OffloadKey> key_of(std::string_view object) const;
  /// What the names of all chunks begin with.
  [[nodiscard]] const std::string& chunks_prefix() const { return chunks_prefix_; }
  [[nodiscard]] const ChunkDigester& digester() const { return digester_; }
  [[nodiscard]] const std::string& revision() const { return revision_; }

 private:
  ObjNamespace(std::string prefix, FileMapper mapper, std::string revision);

  std::string prefix_;  // "" or "<prefix>/"
  FileMapper mapper_;
  std::string revision_;
  std::string chunks_prefix_;
  ChunkDigester digester_;
};

}  // namespace kv_offload
