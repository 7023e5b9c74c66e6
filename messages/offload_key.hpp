#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kv_offload {

/// Opaque name of one chunk: content-hash bytes followed by a 4-byte big-endian cache-group index.
///
/// The hash of a chunk is the prefix-chain hash of its last hash unit, so a key commits to the whole
/// prefix before it. Hashes of 1 to 64 bytes are carried inline: copying a key never allocates.
/// Equality is on all bytes.
class OffloadKey {
 public:
  static constexpr std::size_t kGroupBytes = 4;
  static constexpr std::size_t kMaxHashBytes = 64;
  static constexpr std::size_t kSaltBytes = 8;
  static constexpr std::size_t kMaxBytes = kMaxHashBytes + kGroupBytes;

  OffloadKey() = default;

  /// Builds a key from its two parts; nullopt if the hash is empty or longer than kMaxHashBytes.
  static std::optional<OffloadKey> make(std::span<const std::byte> hash, std::uint32_t group_idx) {
    if (hash.empty() || hash.size() > kMaxHashBytes) return std::nullopt;
    OffloadKey key;
    std::memcpy(key.bytes_.data(), hash.data(), hash.size());
    for (std::size_t i = 0; i < kGroupBytes; ++i)
      key.bytes_[hash.size() + i] = static_cast<std::byte>((group_idx >> (24 - 8 * i)) & 0xffU);
    key.size_ = static_cast<std::uint8_t>(hash.size() + kGroupBytes);
    return key;
  }

  /// Adopts the raw bytes (hash and group) as they come from the serving engine.
  static std::optional<OffloadKey> from_bytes(std::span<const std::byte> raw) {
    if (raw.size() <= kGroupBytes || raw.size() > kMaxBytes) return std::nullopt;
    OffloadKey key;
    std::memcpy(key.bytes_.data(), raw.data(), raw.size());
    key.size_ = static_cast<std::uint8_t>(raw.size());
    return key;
  }

  /// The key of the same content in one tenant's own space: the salt follows the hash. nullopt if the
  /// hash leaves no room for it.
  [[nodiscard]] std::optional<OffloadKey> salted(std::uint64_t salt) const {
    const auto hash_bytes = content_hash().size();
    if (hash_bytes == 0 || hash_bytes + kSaltBytes > kMaxHashBytes) return std::nullopt;
    OffloadKey key = *this;
    std::memmove(key.bytes_.data() + hash_bytes + kSaltBytes, bytes_.data() + hash_bytes, kGroupBytes);
    for (std::size_t i = 0; i < kSaltBytes; ++i)
      key.bytes_[hash_bytes + i] = static_cast<std::byte>((salt >> (56 - 8 * i)) & 0xffU);
    key.size_ = static_cast<std::uint8_t>(size_ + kSaltBytes);
    return key;
  }
  [[nodiscard]] bool has_salt(std::uint64_t salt) const {
    const auto hash = content_hash();
    if (hash.size() <= kSaltBytes) return false;
    std::uint64_t found = 0;
    for (const auto b : hash.last(kSaltBytes)) found = (found << 8) | std::to_integer<std::uint64_t>(b);
    return found == salt;
  }

  [[nodiscard]] std::span<const std::byte> bytes() const { return {bytes_.data(), size_}; }
  [[nodiscard]] std::span<const std::byte> content_hash() const {
    return {bytes_.data(), size_ < kGroupBytes ? 0U : size_ - kGroupBytes};
  }
  [[nodiscard]] std::uint32_t group_idx() const {
    if (size_ < kGroupBytes) return 0;
    std::uint32_t group = 0;
    for (std::size_t i = size_ - kGroupBytes; i < size_; ++i)
      group = (group << 8) | std::to_integer<std::uint32_t>(bytes_[i]);
    return group;
  }
  [[nodiscard]] bool empty() const { return size_ == 0; }

  /// 64-bit mix over all bytes; the same in every process (it decides home(key)). Wide multiplications folded
  /// in half, as in wyhash (public domain), 16 bytes each: 3 to 5 ns for 36 bytes, where 8 bytes at a time took 13.
  [[nodiscard]] std::uint64_t hash() const {
    constexpr std::size_t kWords = kMaxHashBytes;  // what 16 bytes at a time cover; behind it are 4 more
    std::uint64_t h = kSecrets[0] ^ size_;
    // Behind the key there are zeros, so that a whole word may be read.
    for (std::size_t i = 0; i < size_ && i < kWords; i += 16)
      h = fold(load(i, 8) ^ kSecrets[1], load(i + 8, 8) ^ h);
    if (size_ > kWords) h = fold(load(kWords, kMaxBytes - kWords) ^ kSecrets[1], h);
    return fold(h ^ kSecrets[2], kSecrets[3] ^ size_);
  }

  friend bool operator==(const OffloadKey& a, const OffloadKey& b) {
    return a.size_ == b.size_ && std::memcmp(a.bytes_.data(), b.bytes_.data(), a.size_) == 0;
  }
  friend std::strong_ordering operator<=>(const OffloadKey& a, const OffloadKey& b) {
    const auto n = a.size_ < b.size_ ? a.size_ : b.size_;
    const int c = std::memcmp(a.bytes_.data(), b.bytes_.data(), n);
    if (c != 0) return c < 0 ? std::strong_ordering::less : std::strong_ordering::greater;
    return a.size_ <=> b.size_;
  }

  template <class H>
  friend H AbslHashValue(H h, const OffloadKey& key) {
    return H::combine(std::move(h), key.hash());
  }

 private:
  /// Odd numbers without a pattern: digits of pi, e, the golden ratio, pi.
  static constexpr std::uint64_t kSecrets[] = {0x243f6a8885a308d3ULL, 0xb7e151628aed2a6bULL, 0x9e3779b97f4a7c15ULL,
                                               0x13198a2e03707345ULL};
  [[nodiscard]] std::uint64_t load(std::size_t at, std::size_t n) const {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes_.data() + at, n);
    return word;
  }
  __extension__ typedef unsigned __int128 Wide;
  static std::uint64_t fold(std::uint64_t a, std::uint64_t b) {
    const Wide product = static_cast<Wide>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64U);
  }

  std::array<std::byte, kMaxBytes> bytes_{};
  std::uint8_t size_ = 0;
};

using KeyList = std::vector<OffloadKey>;
/// Keys of one call, shared read-only by every message that refers to them by index.
using SharedKeys = std::shared_ptr<const KeyList>;

/// Lower-case hex of arbitrary bytes.
inline std::string to_hex(std::span<const std::byte> bytes) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const std::byte b : bytes) {
    out.push_back(kDigits[std::to_integer<unsigned>(b) >> 4]);
    out.push_back(kDigits[std::to_integer<unsigned>(b) & 15U]);
  }
  return out;
}

/// "<hash hex>/g<group>", for logs and error messages.
inline std::string to_string(const OffloadKey& key) {
  return to_hex(key.content_hash()) + "/g" + std::to_string(key.group_idx());
}

}  // namespace kv_offload

template <>
struct std::hash<kv_offload::OffloadKey> {
  std::size_t operator()(const kv_offload::OffloadKey& key) const noexcept { return key.hash(); }
};
