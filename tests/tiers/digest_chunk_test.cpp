#include "kv_offload/tests/support/tier_memory.hpp"
#include "kv_offload/tiers/digest.hpp"

#include <catch2/catch.hpp>

#include <set>
#include <string>
#include <vector>

namespace kv_offload {
namespace {

using test::tier_key;

std::vector<std::byte> pattern(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 31);
  return bytes;
}

std::string text_of(const ChunkDigest& digest) {
  const DigestAttribute attribute = encode_digest(digest);
  return {attribute.data(), attribute.size()};
}

TEST_CASE("a digest is the documented function of namespace, key, length and bytes", "[digest]") {
  std::vector<std::byte> hash(32);
  for (std::size_t i = 0; i < hash.size(); ++i) hash[i] = static_cast<std::byte>(i);
  const auto key = OffloadKey::make(hash, 7);
  // Computed by an independent program from the formula in digest.hpp.
  CHECK(text_of(ChunkDigester("namespace").digest(*key, pattern(8192))) ==
        "1:xxh3-128:80973d90e36a08ed7359914177d923a7");
}

TEST_CASE("another namespace, key, group, length or byte gives another digest", "[digest]") {
  const auto bytes = pattern(8192);
  auto flipped = bytes;
  flipped[4097] ^= std::byte{0x10};
  const std::vector<std::byte> longer = pattern(12288);
  const std::set<std::string> digests{
      text_of(ChunkDigester("a").digest(tier_key(1), bytes)),
      text_of(ChunkDigester("b").digest(tier_key(1), bytes)),
      text_of(ChunkDigester("a").digest(tier_key(2), bytes)),
      text_of(ChunkDigester("a").digest(tier_key(1, 1), bytes)),
      text_of(ChunkDigester("a").digest(tier_key(1), longer)),
      text_of(ChunkDigester("a").digest(tier_key(1), flipped)),
  };
  CHECK(digests.size() == 6);
}

TEST_CASE("zeros of different length have different digests", "[digest]") {
  const std::vector<std::byte> zeros(8192);
  const ChunkDigester digester("a");
  CHECK(digester.digest(tier_key(1), zeros) !=
        digester.digest(tier_key(1), std::span(zeros).first(4096)));
}

TEST_CASE("what was encoded is read back", "[digest]") {
  const ChunkDigest digest = ChunkDigester("a").digest(tier_key(3), pattern(4096));
  ChunkDigest parsed;
  REQUIRE(parse_digest(text_of(digest), parsed) == DigestParse::ok);
  CHECK(parsed == digest);
}

TEST_CASE("copying and digesting in one pass copies every byte and gives the same digest",
          "[digest]") {
  const ChunkDigester digester("namespace");
  for (const std::size_t size : {0UL, 1UL, 4096UL, 8191UL, 8192UL, 8193UL, 100'000UL}) {
    CAPTURE(size);
    const auto from = pattern(size);
    std::vector<std::byte> to(size, std::byte{0xee});
    CHECK(digester.copy_and_digest(tier_key(1), from, to) == digester.digest(tier_key(1), from));
    CHECK(to == from);
  }
}

TEST_CASE("an attribute with any other byte is never taken for a digest of ours", "[digest]") {
  const std::string good = "1:xxh3-128:80973d90e36a08ed7359914177d923a7";
  ChunkDigest digest;
  REQUIRE(parse_digest(good, digest) == DigestParse::ok);
  const ChunkDigest before = digest;
  for (std::size_t cut = 0; cut < good.size(); ++cut)
    CHECK(parse_digest(good.substr(0, cut), digest) != DigestParse::ok);
  for (const std::string& bad :
       {good + "0", " " + good, good + "\n",
        "1:xxh3-128:80973D90E36A08ED7359914177D923A7" + std::string(),
        "1:xxh3-128:80973d90e36a08ed7359914177d923ag" + std::string(),
        std::string("01:xxh3-128:80973d90e36a08ed7359914177d923a7"), std::string(64, ':')})
    CHECK(parse_digest(bad, digest) == DigestParse::malformed);
  CHECK(digest == before);
}

TEST_CASE("a later version is told apart from a damaged value", "[digest]") {
  ChunkDigest digest;
  CHECK(parse_digest("2:blake3:00", digest) == DigestParse::unknown_version);
  CHECK(parse_digest("1:crc32c:00000000", digest) == DigestParse::unknown_version);
  CHECK(parse_digest("", digest) == DigestParse::malformed);
  CHECK(parse_digest("2", digest) == DigestParse::malformed);
  CHECK(parse_digest("2::", digest) == DigestParse::malformed);
}

}  // namespace
}  // namespace kv_offload
