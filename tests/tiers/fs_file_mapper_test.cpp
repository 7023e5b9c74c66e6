#include "kv_offload/tests/support/tier_directory.hpp"
#include "kv_offload/tests/support/tier_memory.hpp"
#include "kv_offload/tiers/fs/file_mapper.hpp"

#include <catch2/catch.hpp>

#include <string>

namespace kv_offload {
namespace {

NamespaceIdentity llama() {
  NamespaceIdentity id;
  id.model_name = "meta-llama/Llama-3.1-8B";
  id.blocks_per_file = 4;
  id.tp_size = 2;
  id.dtype = "bfloat16";
  id.kv_cache_groups = {{16, {"model.layers.0.self_attn", "model.layers.1.self_attn"}}};
  return id;
}
FileMapper mapper(const NamespaceIdentity& id, const std::string& root = "/root") {
  auto made = FileMapper::make(root, id);
  REQUIRE(made);
  return *made;
}
std::string base(const NamespaceIdentity& id) { return mapper(id).base_dir(); }

// The expected digests were computed with Python's json and hashlib as the layout prescribes:
// sha256(json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:12]
TEST_CASE("directories carry the public digest of the identity", "[fs]") {
  CHECK(base(NamespaceIdentity{}) == "/root/model_cd5486915427");
  CHECK(base(llama()) == "/root/meta-llama_Llama-3.1-8B_90fdf7d6b3f9");
}

TEST_CASE("layouts that share their bytes share one namespace", "[fs]") {
  NamespaceIdentity id = llama();
  id.rank = 1;
  SECTION("parallelism-agnostic") {
    id.parallelism_agnostic = true;
    CHECK(base(id) == "/root/meta-llama_Llama-3.1-8B_3df2e0b5374b");
  }
  SECTION("replicated") {
    id.replicated_layout = true;
    CHECK(base(id) == "/root/meta-llama_Llama-3.1-8B_84abeb42dc89");
  }
  SECTION("canonical format") {
    id.parallelism_agnostic = true;
    id.canonical_format = "nhd-v1";
    CHECK(base(id) == "/root/meta-llama_Llama-3.1-8B_140a1ed1818b");
  }
  const std::string before = base(id);
  CHECK(mapper(id).chunk_dir() == before + "_r0");
  id.tp_size = 8;
  id.pp_size = 2;
  CHECK(base(id) == before);
}

TEST_CASE("a layout that does not share keeps its sizes and its rank", "[fs]") {
  NamespaceIdentity id = llama();
  id.rank = 3;
  CHECK(mapper(id).chunk_dir() == "/root/meta-llama_Llama-3.1-8B_90fdf7d6b3f9_r3");
  const std::string before = base(id);
  id.tp_size = 4;
  CHECK(base(id) != before);
}

TEST_CASE("revision and tenant are in the identity only when they are set", "[fs]") {
  NamespaceIdentity id = llama();
  id.revision = "r2";
  CHECK(base(id) == "/root/meta-llama_Llama-3.1-8B_011a79e1275f");
  id.revision.clear();
  // Every kind of escape: two bytes, surrogate pair, DEL, quote, backslash, newline, control.
  id.tenant = "t\u00fc\U0001f600/\x7f\"\\\n\x01";
  CHECK(base(id) == "/root/meta-llama_Llama-3.1-8B_1be50d5ad214");
}

TEST_CASE("config.json is indented by two and sorted", "[fs]") {
  CHECK(mapper(llama()).config_text() == R"({
  "blocks_per_file": 4,
  "dcp_size": 1,
  "dtype": "bfloat16",
  "inference_engine": "vllm",
  "kv_cache_groups": [
    {
      "layer_names": [
        "model.layers.0.self_attn",
        "model.layers.1.self_attn"
      ],
      "tokens_per_block": 16
    }
  ],
  "model_name": "meta-llama/Llama-3.1-8B",
  "parallel_agnostic": false,
  "pcp_size": 1,
  "pp_size": 1,
  "tokens_per_hash": 16,
  "tp_size": 2
})");
  CHECK(mapper(NamespaceIdentity{}).config_text().find("\"kv_cache_groups\": [],") !=
        std::string::npos);
}

TEST_CASE("a chunk's path is fanned out by its hash and names its group", "[fs]") {
  const std::string dir = "/root/model_cd5486915427_r0/";
  const FileMapper m = mapper({});
  const auto path = [&](std::initializer_list<unsigned> bytes, std::uint32_t group) {
    std::vector<std::byte> hash;
    for (const unsigned b : bytes) hash.push_back(static_cast<std::byte>(b));
    return m.path_of(*OffloadKey::make(hash, group));
  };
  CHECK(path({0xab, 0xcd, 0xef, 0x01}, 0) == dir + "abc/de_g0/abcdef01.bin");
  CHECK(path({0xab, 0xcd, 0xef, 0x01}, 4294967295U) == dir + "abc/de_g4294967295/abcdef01.bin");
  CHECK(path({0xab, 0xcd}, 7) == dir + "abc/d_g7/abcd.bin");
  CHECK(path({0xab}, 7) == dir + "ab/_g7/ab.bin");
}

TEST_CASE("the root is taken as it was written, without the last slash", "[fs]") {
  CHECK(mapper({}, "/root///").base_dir() == "/root/model_cd5486915427");
  CHECK(mapper({}, "relative").base_dir() == "relative/model_cd5486915427");
  CHECK(mapper({}, "/").base_dir() == "/model_cd5486915427");
}

TEST_CASE("an identity that cannot be written down is refused", "[fs]") {
  NamespaceIdentity id;
  id.model_name = "bad\xff";
  CHECK_FALSE(FileMapper::make("/root", id));
  id.model_name = std::string("a\0b", 3);
  CHECK_FALSE(FileMapper::make("/root", id));
}

TEST_CASE("digests are for one identity and one rank", "[fs]") {
  NamespaceIdentity id = llama();
  const std::string before = mapper(id).digest_namespace();
  id.rank = 1;
  CHECK(mapper(id).digest_namespace() != before);
  id.rank = 0;
  id.tenant = "t";
  CHECK(mapper(id).digest_namespace() != before);
}

TEST_CASE("the mapper of a directory that is there is the one that made it", "[fs]") {
  const test::TierDirectory root;
  NamespaceIdentity identity;
  identity.model_name = "org/model_r2";
  identity.rank = 3;
  identity.revision = "caf\xc3\xa9";
  identity.tenant = "t";
  const auto made = FileMapper::make(root.path(), identity);
  REQUIRE(made);
  const bool is_compact = GENERATE(false, true);
  test::write_file(made->config_path(), is_compact ? made->identity_json() : made->config_text());
  const auto found = FileMapper::of_directory(made->chunk_dir() + "/");
  REQUIRE(found);
  CHECK(found->root_dir() == made->root_dir());
  CHECK(found->base_dir() == made->base_dir());
  CHECK(found->chunk_dir() == made->chunk_dir());
  CHECK(found->identity_json() == made->identity_json());
  CHECK(found->config_text() == made->config_text());
  CHECK(found->digest_namespace() == made->digest_namespace());
  CHECK(found->path_of(test::tier_key(7)) == made->path_of(test::tier_key(7)));

  const auto error_of = [](const std::string& directory) {
    const auto none = FileMapper::of_directory(directory);
    REQUIRE_FALSE(none);
    CHECK(none.error().detail.find('\n') == std::string::npos);
    return none.error().detail;
  };
  CHECK(error_of(root.path()).find("is not named as a directory of chunks") != std::string::npos);
  CHECK(error_of(made->base_dir() + "_r").find("is not named") != std::string::npos);
  CHECK(error_of(made->base_dir() + "_r3x").find("is not named") != std::string::npos);
  CHECK(error_of(root.path() + "/absent_0123456789ab_r0").find("No such file") !=
        std::string::npos);
  for (const char* text : {"", "{", "[]", "7", "{\"model_name\": \"\xff\"}"}) {
    test::write_file(made->config_path(), text);
    CHECK(error_of(made->chunk_dir()).find("config.json: ") != std::string::npos);
  }
  test::write_file(made->config_path(), "{}");
  CHECK(error_of(made->chunk_dir()).find("describes another namespace") != std::string::npos);
}

}  // namespace
}  // namespace kv_offload
