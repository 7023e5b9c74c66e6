#include "kv_offload/tiers/obj/obj_namespace.hpp"

#include "kv_offload/tiers/fs/chunk_walk.hpp"

#include <utility>

namespace kv_offload {

ObjNamespace::ObjNamespace(std::string prefix, FileMapper mapper, std::string revision)
    : prefix_(std::move(prefix)),
      mapper_(std::move(mapper)),
      revision_(std::move(revision)),
      chunks_prefix_(prefix_ + mapper_.chunk_dir() + "/"),
      digester_(mapper_.digest_namespace()) {}

Expected<ObjNamespace> ObjNamespace::make(const std::string& prefix, NamespaceIdentity identity) {
  identity.blocks_per_file = 1;
  // The root is empty, and what follows a root begins with a slash: hence the one at the front.
  auto mapper = FileMapper::make("", identity);
  if (!mapper) return mapper.error();
  return ObjNamespace(prefix.empty() ? "" : prefix + "/", std::move(*mapper), identity.revision);
}

std::optional<OffloadKey> ObjNamespace::key_of(std::string_view object) const {
  if (!object.starts_with(chunks_prefix_)) return std::nullopt;
  const std::string_view rest = object.substr(chunks_prefix_.size());
  const auto first = rest.find('/');
  const auto last = rest.rfind('/');
  if (first == std::string_view::npos || last <= first) return std::nullopt;
  const auto name = parse_chunk_name(rest.substr(first + 1, last - first - 1), rest.substr(last + 1));
  if (!name || name->is_quarantined) return std::nullopt;
  // Somebody may have put a chunk's name under a wrong directory.
  if (object_of(name->key) != object) return std::nullopt;
  return name->key;
}

}  // namespace kv_offload
