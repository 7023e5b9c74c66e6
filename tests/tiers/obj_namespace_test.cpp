#include "kv_offload/tiers/obj/obj_namespace.hpp"

#include "kv_offload/tests/support/tier_memory.hpp"
#include "kv_offload/tiers/fs/file_mapper.hpp"
#include "kv_offload/tiers/obj/obj_metadata.hpp"

#include <catch2/catch.hpp>

namespace kv_offload {
namespace {

using test::tier_key;

NamespaceIdentity identity() {
  NamespaceIdentity made;
  made.model_name = "org/Model";
  made.rank = 2;
  return made;
}

TEST_CASE("a name is prefix, slash and the path of a file without a root", "[obj]") {
  const auto plain = ObjNamespace::make("", identity()).value();
  const auto prefixed = ObjNamespace::make("a/b", identity()).value();
  const std::string path = FileMapper::make("", identity())->path_of(tier_key(7));
  CHECK(plain.object_of(tier_key(7)) == path);
  CHECK(path.starts_with("/org_Model_"));
  CHECK(path.find("_r2/") != std::string::npos);
  CHECK(prefixed.object_of(tier_key(7)) == "a/b/" + path);
  CHECK(plain.object_of(tier_key(7)).starts_with(plain.chunks_prefix()));
  CHECK(prefixed.object_of(tier_key(7)).starts_with(prefixed.chunks_prefix()));
}

TEST_CASE("every key is found again in its name", "[obj]") {
  const auto name_space = ObjNamespace::make("p", identity()).value();
  for (std::uint64_t name = 0; name < 500; ++name) {
    const OffloadKey key = tier_key(name, static_cast<std::uint32_t>(name % 3));
    CHECK(name_space.key_of(name_space.object_of(key)) == key);
    const OffloadKey salted = *key.salted(name);
    CHECK(name_space.key_of(name_space.object_of(salted)) == salted);
  }
  for (std::size_t bytes = 3; bytes <= 32; ++bytes) {
    const std::vector<std::byte> hash(bytes, std::byte{0xc3});
    if (const auto key = OffloadKey::make(hash, 1))
      CHECK(name_space.key_of(name_space.object_of(*key)) == *key);
  }
}

TEST_CASE("names of strangers are no keys", "[obj]") {
  const auto name_space = ObjNamespace::make("p", identity()).value();
  const std::string good = name_space.object_of(tier_key(7));
  REQUIRE(name_space.key_of(good).has_value());
  for (const std::string& name :
       {std::string(), std::string("/"), std::string("p/"), name_space.chunks_prefix(),
        name_space.chunks_prefix() + "x", name_space.chunks_prefix() + "a/b/c.bin", good + "x",
        good + "/", good.substr(1), "x" + good, good.substr(0, good.size() - 5),
        good.substr(0, good.size() - 4) + ".tmp", good.substr(0, good.size() - 6) + "zz.bin"})
    CHECK_FALSE(name_space.key_of(name).has_value());
  // A chunk's name in a directory that is not its own.
  std::string moved = good;
  char& digit = moved[name_space.chunks_prefix().size()];
  digit = digit == '0' ? '1' : '0';
  CHECK_FALSE(name_space.key_of(moved).has_value());
  // Of another prefix, model, rank or revision.
  CHECK_FALSE(
      name_space.key_of(ObjNamespace::make("", identity())->object_of(tier_key(7))).has_value());
  auto other = identity();
  SECTION("model") { other.model_name = "org/Other"; }
  SECTION("rank") { other.rank = 3; }
  SECTION("revision") { other.revision = "r"; }
  CHECK_FALSE(
      name_space.key_of(ObjNamespace::make("p", other)->object_of(tier_key(7))).has_value());
}

TEST_CASE("the number of blocks of a file is none of an object's", "[obj]") {
  auto other = identity();
  other.blocks_per_file = 16;
  CHECK(ObjNamespace::make("", identity())->object_of(tier_key(1)) ==
        ObjNamespace::make("", other)->object_of(tier_key(1)));
}

TEST_CASE("a revision is written as a header can carry it", "[obj]") {
  CHECK(revision_text("") == "");
  CHECK(revision_text("v1.2-b_c~d") == "v1.2-b_c~d");
  CHECK(revision_text("a b/c\n\xc3\xbc") == "a%20b%2Fc%0A%C3%BC");
}

TEST_CASE("metadata says whose an object is", "[obj]") {
  const ChunkDigest digest = ObjNamespace::make("", identity())->digester().digest(tier_key(1), {});
  const auto text = encode_digest(digest);
  const std::string good(text.data(), text.size());
  const auto origin = [&](const std::vector<std::string>& lines, const std::string& revision) {
    ResponseHeaders headers;
    for (const std::string& line : lines) headers.add_line(line);
    ChunkDigest found;
    const ObjOrigin what = origin_of(headers, revision, found);
    if (what == ObjOrigin::ours) CHECK(found == digest);
    return what;
  };
  const std::string line = std::string(kDigestHeader) + ": " + good;
  const std::string of_r = std::string(kRevisionHeader) + ": r%20s";
  CHECK(origin({line}, "") == ObjOrigin::ours);
  CHECK(origin({line, of_r}, "r s") == ObjOrigin::ours);
  CHECK(origin({line, of_r}, "") == ObjOrigin::foreign);
  CHECK(origin({line}, "r s") == ObjOrigin::foreign);
  CHECK(origin({}, "") == ObjOrigin::foreign);
  CHECK(origin({of_r}, "r s") == ObjOrigin::foreign);
  CHECK(origin({std::string(kDigestHeader) + ": 2" + good.substr(1)}, "") == ObjOrigin::foreign);
  CHECK(origin({std::string(kDigestHeader) + ": " + good + "0"}, "") == ObjOrigin::damaged);
  CHECK(origin({std::string(kDigestHeader) + ":"}, "") == ObjOrigin::damaged);
}

}  // namespace
}  // namespace kv_offload
