#include "kv_offload/tiers/device/host_copy.hpp"

#include "kv_offload/tests/support/device_fixture.hpp"
#include "kv_offload/tiers/digest.hpp"

#include <catch2/catch.hpp>

using namespace kv_offload;
using namespace kv_offload::test;

namespace {

std::vector<CopyPath> paths() {
  std::vector<CopyPath> all;
  for (const auto path : {CopyPath::plain, CopyPath::avx2, CopyPath::avx512})
    if (supported(path)) all.push_back(path);
  return all;
}
std::vector<std::byte> pattern(std::size_t bytes) {
  std::vector<std::byte> all(bytes);
  for (std::size_t i = 0; i < bytes; ++i) all[i] = static_cast<std::byte>(i * 131 + i / 257);
  return all;
}
/// The first byte behind `at` that is not `value`.
std::size_t mismatch(const std::vector<std::byte>& bytes, std::size_t from, std::size_t to,
                     std::byte value) {
  return static_cast<std::size_t>(std::find_if(bytes.begin() + static_cast<std::ptrdiff_t>(from),
                                               bytes.begin() + static_cast<std::ptrdiff_t>(to),
                                               [value](std::byte b) { return b != value; }) -
                                  bytes.begin());
}

}  // namespace

TEST_CASE("the best path is one that this processor has", "[device][copy]") {
  CHECK(supported(best_copy_path()));
  CHECK(supported(CopyPath::plain));
}

TEST_CASE("every path copies every length at every alignment, and not a byte more",
          "[device][copy]") {
  const auto source = pattern(kStreamBytesMin + 8192);
  for (const CopyPath path : paths())
    for (const std::size_t length :
         {std::size_t{0}, std::size_t{1}, std::size_t{63}, std::size_t{255}, std::size_t{1023},
          std::size_t{1024}, std::size_t{1025}, std::size_t{4097}, std::size_t{kStreamBytesMin},
          std::size_t{kStreamBytesMin + 777}})
      for (const std::size_t from : {0U, 1U, 33U})
        for (const std::size_t to : {64U, 65U, 96U, 127U}) {
          CAPTURE(to_string(path), length, from, to);
          std::vector<std::byte> target(to + length + 64, kPoison);
          // With company that makes the batch large enough for streaming.
          std::vector<std::byte> other(kStreamBytesMin);
          const CopyFragment fragments[] = {{source.data() + from, target.data() + to, length},
                                            {source.data(), other.data(), other.size()}};
          copy_fragments(fragments, path);
          REQUIRE(std::equal(source.begin() + static_cast<std::ptrdiff_t>(from),
                             source.begin() + static_cast<std::ptrdiff_t>(from + length),
                             target.begin() + static_cast<std::ptrdiff_t>(to)));
          REQUIRE(mismatch(target, 0, to, kPoison) == to);
          REQUIRE(mismatch(target, to + length, target.size(), kPoison) == target.size());
          REQUIRE(std::equal(other.begin(), other.end(), source.begin()));
        }
}

TEST_CASE("a copy with a digest copies the same bytes and says what the digest of them says",
          "[device][copy]") {
  const auto source = pattern(2 * kStreamBytesMin + 8192);
  const ChunkDigester digester("name space");

  const OffloadKey key = *OffloadKey::make(std::vector<std::byte>(32, std::byte{1}), 0);
  for (const std::size_t length :
       {std::size_t{0}, std::size_t{1}, std::size_t{4095}, std::size_t{4096}, std::size_t{70'001},
        std::size_t{kStreamBytesMin}, std::size_t{kStreamBytesMin + 1},
        std::size_t{2 * kStreamBytesMin + 4097}})
    for (const std::size_t to : {0U, 1U, 63U}) {
      CAPTURE(length, to);
      std::vector<std::byte> target(to + length + 64, kPoison);
      const std::span<const std::byte> from{source.data() + 3, length};
      const ChunkDigest digest = digester.copy_and_digest(key, from, {target.data() + to, length});
      CHECK(digest == digester.digest(key, from));
      CHECK(std::equal(from.begin(), from.end(), target.begin() + static_cast<std::ptrdiff_t>(to)));
      CHECK(mismatch(target, 0, to, kPoison) == to);
      CHECK(mismatch(target, to + length, target.size(), kPoison) == target.size());
    }
}

TEST_CASE("every path shows each byte of a copy once, in order", "[device][copy]") {
  const auto source = pattern(kStreamBytesMin + 4321);
  for (const CopyPath path : paths())
    for (const std::size_t to : {0U, 17U}) {
      std::vector<std::byte> target(to + source.size()), shown;
      {
        CopyThrough copy({target.data() + to, source.size()}, source, 0, path);
        while (!copy.done()) {
          const auto piece = copy.next();
          REQUIRE_FALSE(piece.empty());
          shown.insert(shown.end(), piece.begin(), piece.end());
        }
      }
      CHECK(shown == source);
      CHECK(std::equal(source.begin(), source.end(),
                       target.begin() + static_cast<std::ptrdiff_t>(to)));
    }
}
