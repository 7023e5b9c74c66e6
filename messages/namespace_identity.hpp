#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kv_offload {

/// What the chunks of one namespace have in common. Two engines share stored chunks exactly when these
/// fields are equal; field names and digest are the public on-disk contract of the fs layout.
struct NamespaceIdentity {
  struct CacheGroup {
    std::uint32_t tokens_per_block = 16;
    std::vector<std::string> layer_names;
  };
  std::string model_name = "model";
  std::uint32_t tokens_per_hash = 16;
  std::uint32_t blocks_per_file = 1;
  std::uint32_t tp_size = 1;
  std::uint32_t pp_size = 1;
  std::uint32_t pcp_size = 1;
  std::uint32_t dcp_size = 1;
  std::uint32_t rank = 0;  ///< in the path, not in the digest
  std::string dtype = "auto";
  std::vector<CacheGroup> kv_cache_groups;
  std::string inference_engine = "vllm";
  bool parallelism_agnostic = false;  ///< the bytes do not depend on the parallel layout
  bool replicated_layout = false;     ///< every rank holds identical bytes
  std::optional<std::string> canonical_format;  ///< format id, only with the canonical layout
  std::string revision;               ///< empty: the public identity, byte for byte
  std::string tenant;                 ///< salt; empty: none
};

}  // namespace kv_offload
