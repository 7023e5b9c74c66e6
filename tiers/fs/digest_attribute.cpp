#include "kv_offload/tiers/fs/digest_attribute.hpp"

#include <cerrno>
#include <sys/xattr.h>

namespace kv_offload {

StoredDigest read_digest_attribute(int fd, ChunkDigest& digest) {
  std::array<char, 128> value;  // longer values are not ours
  const ssize_t size = ::fgetxattr(fd, kDigestAttribute, value.data(), value.size());
  if (size < 0) {
    if (errno == ENODATA || errno == ENOTSUP) return StoredDigest::absent;
    return errno == ERANGE ? StoredDigest::malformed : StoredDigest::error;
  }
  switch (parse_digest({value.data(), static_cast<std::size_t>(size)}, digest)) {
    case DigestParse::ok: return StoredDigest::present;
    case DigestParse::unknown_version: return StoredDigest::absent;
    case DigestParse::malformed: break;
  }
  return StoredDigest::malformed;
}

int write_digest_attribute(int fd, const ChunkDigest& digest) {
  const DigestAttribute value = encode_digest(digest);
  return ::fsetxattr(fd, kDigestAttribute, value.data(), value.size(), 0) == 0 ? 0 : errno;
}

}  // namespace kv_offload
