#include "kv_offload/tiers/sha256.hpp"

#include "kv_offload/messages/offload_key.hpp"

#include <openssl/sha.h>

namespace kv_offload {

std::array<std::byte, 32> sha256(std::span<const std::byte> bytes) {
  static_assert(SHA256_DIGEST_LENGTH == 32);
  std::array<std::byte, 32> digest{};
  ::SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
           reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

std::string sha256_hex(std::span<const std::byte> bytes) { return to_hex(sha256(bytes)); }

std::string sha256_hex(std::string_view text) {
  return sha256_hex(std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace kv_offload
