#include "kv_offload/actors/tenant_salt.hpp"

#include <openssl/sha.h>

namespace kv_offload {

std::uint64_t tenant_salt(std::string_view tenant) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(tenant.data()), tenant.size(), digest);
  std::uint64_t salt = 0;
  for (int i = 0; i < 8; ++i) salt = (salt << 8) | digest[i];
  return salt == 0 ? 1 : salt;
}

}  // namespace kv_offload
