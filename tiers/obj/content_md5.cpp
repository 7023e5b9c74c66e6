#include "kv_offload/tiers/obj/content_md5.hpp"

#include <openssl/evp.h>

#include <array>
#include <cstddef>

namespace kv_offload {

std::string content_md5(std::string_view body) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  std::size_t length = digest.size();
  if (EVP_Q_digest(nullptr, "MD5", nullptr, body.data(), body.size(), digest.data(), &length) != 1) return {};
  std::array<unsigned char, 2 * EVP_MAX_MD_SIZE> text{};
  const int written = EVP_EncodeBlock(text.data(), digest.data(), static_cast<int>(length));
  return {text.begin(), text.begin() + written};
}

}  // namespace kv_offload
