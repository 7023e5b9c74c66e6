#pragma once

#include "kv_offload/tiers/digest.hpp"
#include "kv_offload/tiers/obj/response_headers.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace kv_offload {

/// Names of the metadata of a chunk's object, as HTTP headers.
inline constexpr const char* kDigestHeader = "x-amz-meta-kv-offload-digest";  ///< as the files' attribute
inline constexpr const char* kRevisionHeader = "x-amz-meta-kv-offload-revision";

/// What the metadata of an object says of it.
enum class ObjOrigin : std::uint8_t {
  ours,      ///< `digest` is set
  foreign,   ///< no digest, or one of a later version, or of another revision
  damaged,   ///< not what any version writes
};
/// The revision as a header can carry it.
std::string revision_text(std::string_view revision);
ObjOrigin origin_of(const ResponseHeaders& headers, std::string_view revision, ChunkDigest& digest);

}  // namespace kv_offload
