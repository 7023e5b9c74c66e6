#include "kv_offload/tiers/digest.hpp"

#include "kv_offload/tiers/device/host_copy.hpp"
#include "kv_offload/tiers/hex_digit.hpp"

#define XXH_STATIC_LINKING_ONLY  // the streaming state, to keep it on the stack
#include <xxhash.h>
#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>)
#include <xxh_x86dispatch.h>  // picks AVX2 or AVX-512 at run time
#endif

#include <cassert>
#include <cstring>

namespace kv_offload {

namespace {

using Hash = std::array<std::byte, 16>;

Hash canonical_of(XXH128_hash_t value) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, value);
  Hash hash;
  std::memcpy(hash.data(), canonical.digest, hash.size());
  return hash;
}

Hash hash_of(const void* data, std::size_t bytes) {
  return canonical_of(XXH3_128bits(data, bytes));
}

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// "<number without leading zero>:<something>:", as every version starts.
bool starts_like_a_version(std::string_view attribute) {
  std::size_t digits = 0;
  while (digits < attribute.size() && is_digit(attribute[digits])) ++digits;
  if (digits == 0 || digits > 9 || attribute[0] == '0') return false;
  if (digits == attribute.size() || attribute[digits] != ':') return false;
  const std::size_t end = attribute.find(':', digits + 1);
  return end != std::string_view::npos && end > digits + 1;
}

}  // namespace

ChunkDigester::ChunkDigester(std::string_view name_space)
    : namespace_hash_(hash_of(name_space.data(), name_space.size())) {}

ChunkDigest ChunkDigester::digest(const OffloadKey& key, std::span<const std::byte> bytes) const {
  return finish(key, bytes.size(), hash_of(bytes.data(), bytes.size()));
}

ChunkDigest ChunkDigester::copy_and_digest(const OffloadKey& key, std::span<const std::byte> from,
                                           std::span<std::byte> to) const {
  assert(from.size() == to.size());
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  CopyThrough copy(to, from);
  while (!copy.done()) {
    const auto piece = copy.next();
    XXH3_128bits_update(&state, piece.data(), piece.size());
  }
  return finish(key, from.size(), canonical_of(XXH3_128bits_digest(&state)));
}

struct DigestStream::State {
  XXH3_state_t xxh3;
};

DigestStream::DigestStream() : state_(std::make_unique<State>()) { begin(); }
DigestStream::~DigestStream() = default;
DigestStream::DigestStream(DigestStream&&) noexcept = default;
DigestStream& DigestStream::operator=(DigestStream&&) noexcept = default;

void DigestStream::begin() {
  XXH3_128bits_reset(&state_->xxh3);
  bytes_ = 0;
}

void DigestStream::take(std::span<const std::byte> piece) {
  XXH3_128bits_update(&state_->xxh3, piece.data(), piece.size());
  bytes_ += piece.size();
}

ChunkDigest DigestStream::finish(const ChunkDigester& digester, const OffloadKey& key) const {
  return digester.finish(key, bytes_, canonical_of(XXH3_128bits_digest(&state_->xxh3)));
}

ChunkDigest ChunkDigester::finish(const OffloadKey& key, std::uint64_t length,
                                  const Hash& inner) const {
  std::array<std::byte, 16 + 1 + OffloadKey::kMaxBytes + 8 + 16> message;
  std::byte* at = message.data();
  const auto put = [&at](const void* data, std::size_t size) {
    std::memcpy(at, data, size);
    at += size;
  };
  put(namespace_hash_.data(), namespace_hash_.size());
  *at++ = static_cast<std::byte>(key.bytes().size());
  put(key.bytes().data(), key.bytes().size());
  for (unsigned i = 0; i < 8; ++i) *at++ = static_cast<std::byte>((length >> (8 * i)) & 0xffU);
  put(inner.data(), inner.size());
  return {hash_of(message.data(), static_cast<std::size_t>(at - message.data()))};
}

DigestAttribute encode_digest(const ChunkDigest& digest) {
  static constexpr char kDigits[] = "0123456789abcdef";
  DigestAttribute attribute;
  std::memcpy(attribute.data(), kDigestPrefix.data(), kDigestPrefix.size());
  char* at = attribute.data() + kDigestPrefix.size();
  for (const std::byte b : digest.value) {
    *at++ = kDigits[std::to_integer<unsigned>(b) >> 4];
    *at++ = kDigits[std::to_integer<unsigned>(b) & 15U];
  }
  return attribute;
}

DigestParse parse_digest(std::string_view attribute, ChunkDigest& digest) {
  if (!attribute.starts_with(kDigestPrefix))
    return starts_like_a_version(attribute) ? DigestParse::unknown_version : DigestParse::malformed;
  if (attribute.size() != kDigestAttributeBytes) return DigestParse::malformed;
  ChunkDigest parsed;
  for (std::size_t i = 0; i < parsed.value.size(); ++i) {
    const int high = hex_digit(attribute[kDigestPrefix.size() + 2 * i]);
    const int low = hex_digit(attribute[kDigestPrefix.size() + 2 * i + 1]);
    if (high < 0 || low < 0) return DigestParse::malformed;
    parsed.value[i] = static_cast<std::byte>(high * 16 + low);
  }
  digest = parsed;
  return DigestParse::ok;
}

}  // namespace kv_offload
