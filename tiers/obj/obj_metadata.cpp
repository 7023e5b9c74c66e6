#include "kv_offload/tiers/obj/obj_metadata.hpp"

#include "kv_offload/tiers/obj/uri_encoding.hpp"

namespace kv_offload {

std::string revision_text(std::string_view revision) { return uri_encode(revision, false); }

ObjOrigin origin_of(const ResponseHeaders& headers, std::string_view revision,
                    ChunkDigest& digest) {
  const std::string* written = headers.find(kDigestHeader);
  if (written == nullptr) return ObjOrigin::foreign;
  switch (parse_digest(*written, digest)) {
    case DigestParse::ok: break;
    case DigestParse::unknown_version: return ObjOrigin::foreign;
    case DigestParse::malformed: return ObjOrigin::damaged;
  }
  const std::string* of = headers.find(kRevisionHeader);
  const std::string_view theirs = of == nullptr ? std::string_view() : std::string_view(*of);
  return theirs == revision_text(revision) ? ObjOrigin::ours : ObjOrigin::foreign;
}

}  // namespace kv_offload
