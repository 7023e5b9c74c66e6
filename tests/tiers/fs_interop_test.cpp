#include "kv_offload/tests/support/tier_fs_fixture.hpp"

#include <catch2/catch.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

// Directories are shared with other writers of the public layout. What they expect is written down here as
// they computed it, in Python:
//   d = hashlib.sha256(json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:12]
//   config.json = json.dumps(fields, indent=2, sort_keys=True)
// with `fields` as described in tiers/fs/README.md.
namespace kv_offload {
namespace {

using test::FsFixture;
using test::tier_key;
using test::tier_keys;

NamespaceIdentity qwen() {
  NamespaceIdentity id;
  id.model_name = "Qwen/Qwen3-8B";
  id.blocks_per_file = 8;
  id.tp_size = 4;
  id.pp_size = 2;
  id.dcp_size = 2;
  id.dtype = "torch.bfloat16";
  id.kv_cache_groups = {{16, {"model.layers.0.self_attn.attn"}}};
  return id;
}
std::string base_of(const NamespaceIdentity& id) {
  const auto mapper = FileMapper::make("/cache", id);
  REQUIRE(mapper);
  return mapper->base_dir();
}
/// SHA-256 of "chunk", as a serving engine would hash a prefix.
OffloadKey chunk_key(std::uint32_t group) {
  constexpr unsigned char kHash[32] = {0x6c, 0x87, 0xf6, 0x83, 0x71, 0xb2, 0x89, 0x54,
                                       0x70, 0x7e, 0xbb, 0x92, 0xaf, 0xee, 0x7c, 0xcf,
                                       0xfb, 0x74, 0xc6, 0xf7, 0x1e, 0xc8, 0xfe, 0xa8,
                                       0xa9, 0x8c, 0xf6, 0x10, 0x42, 0x89, 0x58, 0x5b};
  return *OffloadKey::make(std::as_bytes(std::span(kHash)), group);
}

TEST_CASE("the directory of an identity is the one that other writers compute", "[fs][interop]") {
  NamespaceIdentity id = qwen();
  SECTION("every size counts where layouts differ") {
    CHECK(base_of(id) == "/cache/Qwen_Qwen3-8B_f6c8000557a1");
  }
  SECTION("replicated") {
    id.replicated_layout = true;
    CHECK(base_of(id) == "/cache/Qwen_Qwen3-8B_8525c862e8e3");
  }
  SECTION("parallelism-agnostic") {
    id.parallelism_agnostic = true;
    CHECK(base_of(id) == "/cache/Qwen_Qwen3-8B_4773a8d83046");
  }
  SECTION("replicated and parallelism-agnostic: as replicated, apart from agnostic alone") {
    id.replicated_layout = id.parallelism_agnostic = true;
    CHECK(base_of(id) == "/cache/Qwen_Qwen3-8B_8525c862e8e3");
  }
  SECTION("canonical format, collapsed") {
    id.parallelism_agnostic = true;
    id.canonical_format = "kv-canonical-v1";
    CHECK(base_of(id) == "/cache/Qwen_Qwen3-8B_f155cdf3dfbd");
  }
  SECTION("canonical format, not collapsed") {
    id.canonical_format = "kv-canonical-v1";
    CHECK(base_of(id) == "/cache/Qwen_Qwen3-8B_ed34bc56cc62");
  }
  SECTION("a name beyond ASCII is escaped in the digest and plain in the path") {
    id.model_name = "модель/聊天-7B-é-😀";
    CHECK(base_of(id) == "/cache/модель_聊天-7B-é-😀_32d2d61f9a9a");
  }
  SECTION("several cache groups, in their order, and the resolved tokens per hash") {
    id.tokens_per_hash = 32;
    id.kv_cache_groups = {{16, {"a.0", "a.2"}}, {32, {"b.1"}}, {64, {}}};
    CHECK(base_of(id) == "/cache/Qwen_Qwen3-8B_7dc30e3b73b4");
    std::swap(id.kv_cache_groups[0], id.kv_cache_groups[1]);
    CHECK(base_of(id) == "/cache/Qwen_Qwen3-8B_62194f9680dc");
  }
  SECTION("a revision") {
    id.revision = "step-1200";
    CHECK(base_of(id) == "/cache/Qwen_Qwen3-8B_e5bfaa86af4e");
  }
  SECTION("a tenant") {
    id.tenant = "blue";
    CHECK(base_of(id) == "/cache/Qwen_Qwen3-8B_086cad0587b9");
  }
}

TEST_CASE("the path of a chunk is the one that other writers compute", "[fs][interop]") {
  NamespaceIdentity id = qwen();
  id.rank = 5;
  const std::string hash = "6c87f68371b28954707ebb92afee7ccffb74c6f71ec8fea8a98cf6104289585b";
  CHECK(FileMapper::make("/cache", id)->path_of(chunk_key(0)) ==
        "/cache/Qwen_Qwen3-8B_f6c8000557a1_r5/6c8/7f_g0/" + hash + ".bin");
  CHECK(FileMapper::make("/cache", id)->path_of(chunk_key(3)) ==
        "/cache/Qwen_Qwen3-8B_f6c8000557a1_r5/6c8/7f_g3/" + hash + ".bin");
  id.replicated_layout = true;  // one row for all ranks
  CHECK(FileMapper::make("/cache", id)->path_of(chunk_key(0)) ==
        "/cache/Qwen_Qwen3-8B_8525c862e8e3_r0/6c8/7f_g0/" + hash + ".bin");
}

constexpr const char* kConfigJson = R"({
  "blocks_per_file": 8,
  "dcp_size": 2,
  "dtype": "torch.bfloat16",
  "inference_engine": "vllm",
  "kv_cache_groups": [
    {
      "layer_names": [
        "model.layers.0.self_attn.attn"
      ],
      "tokens_per_block": 16
    }
  ],
  "model_name": "\u043c\u043e\u0434\u0435\u043b\u044c/\u804a\u5929-7B-\u00e9-\ud83d\ude00",
  "parallel_agnostic": false,
  "pcp_size": 1,
  "pp_size": 2,
  "tokens_per_hash": 16,
  "tp_size": 4
})";

TEST_CASE("config.json lies in the directory without a rank and reads as other writers write it",
          "[fs][io][interop]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture f;
  f.identity = qwen();
  f.identity.model_name = "модель/聊天-7B-é-😀";
  f.start();
  const std::string base = f.directory.path() + "/модель_聊天-7B-é-😀_32d2d61f9a9a";
  CHECK(test::read_file(base + "/config.json") == kConfigJson);
  CHECK(std::filesystem::is_directory(base + "_r0"));
  CHECK(f.directory.files("config.json").size() == 1);
}

/// A directory as another writer of the layout leaves it: plain files, no attributes, its own modes.
class ForeignDirectory {
 public:
  explicit ForeignDirectory(FsFixture& f) : f_(f) {
    f.identity = qwen();
    const std::string base = f.directory.path() + "/Qwen_Qwen3-8B_f6c8000557a1";
    make_directories(base);
    std::string fields = kConfigJson;
    fields.replace(fields.find(R"("\u043c)"),
                   fields.find(",\n  \"parallel_agnostic\"") - fields.find(R"("\u043c)"),
                   "\"Qwen/Qwen3-8B\"");
    write(base + "/config.json", fields.data(), fields.size());
  }
  /// One row at its place, for a key of the fixture.
  std::string add(std::uint64_t name) {
    const std::string hash = to_hex(tier_key(name).content_hash());
    const std::string parent = f_.directory.path() + "/Qwen_Qwen3-8B_f6c8000557a1_r0/" +
                               hash.substr(0, 3) + "/" + hash.substr(3, 2) + "_g0";
    make_directories(parent);
    const auto row = f_.memory.expected(name);
    write(parent + "/" + hash + ".bin", row.data(), row.size());
    return parent + "/" + hash + ".bin";
  }

 private:
  static void make_directories(const std::string& path) {
    for (auto at = path.find('/', 1);; at = path.find('/', at + 1)) {
      ::mkdir(path.substr(0, at).c_str(), 0755);
      if (at == std::string::npos) return;
    }
  }
  static void write(const std::string& path, const void* bytes, std::size_t size) {
    const int fd = ::open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY, 0644);
    REQUIRE(fd >= 0);
    REQUIRE(::write(fd, bytes, size) == static_cast<ssize_t>(size));
    REQUIRE(::close(fd) == 0);
  }
  FsFixture& f_;
};

TEST_CASE("a directory written by another writer of the layout is served where it is accepted",
          "[fs][io][interop]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture f;
  ForeignDirectory foreign(f);
  std::vector<std::string> paths;
  for (std::uint64_t name = 0; name < 3; ++name) paths.push_back(foreign.add(name));
  f.config.foreign_files = ForeignFiles::accept;
  f.start();
  CHECK(f.probe(tier_keys(0, 4)) ==
        std::vector{LookupResult::hit, LookupResult::hit, LookupResult::hit, LookupResult::miss});
  const JobResult loaded = f.load(tier_keys(0, 3), 8);
  CHECK(loaded.success);
  CHECK(loaded.unverified == 3);
  for (ChunkId i = 0; i < 3; ++i) CHECK(f.memory.holds(8 + i, i));
  CHECK(f.tier->stats().unverified_chunks == 3);
  CHECK(f.tier->stats().foreign_refused == 0);

  // Storing the same chunks leaves their files alone; new ones come beside them, with our digest.
  for (ChunkId i = 0; i < 4; ++i) f.memory.fill(i, i);
  CHECK(f.store(tier_keys(0, 4)).fates == std::vector{KeyFate::already_present,
                                                      KeyFate::already_present,
                                                      KeyFate::already_present, KeyFate::done});
  for (const auto& path : paths) CHECK(test::attribute(path, kDigestAttribute).empty());
  CHECK_FALSE(test::attribute(f.path_of(tier_key(3)), kDigestAttribute).empty());
  CHECK(f.directory.files("config.json").size() == 1);
}

TEST_CASE("files of other writers are refused by default, counted, and stay as they are",
          "[fs][io][interop]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture f;
  ForeignDirectory foreign(f);
  const std::string path = foreign.add(0);
  foreign.add(1);
  f.start();
  f.memory.fill(2, 2);
  REQUIRE(f.store(tier_keys(2, 1), 2).success);
  const JobResult loaded = f.load(tier_keys(0, 3), 8);
  CHECK(loaded.fates == std::vector{KeyFate::failed, KeyFate::failed, KeyFate::done});
  CHECK(loaded.failure == TransferFailure::foreign);
  CHECK(loaded.unverified == 0);
  CHECK(f.tier->stats().foreign_refused == 2);
  CHECK(f.tier->stats().corrupt_chunks == 0);
  CHECK(f.probe(tier_keys(0, 3)) ==
        std::vector{LookupResult::miss, LookupResult::miss, LookupResult::hit});
  const auto row = f.memory.expected(0);
  CHECK(test::read_file(path) ==
        std::string(reinterpret_cast<const char*>(row.data()), row.size()));
}

TEST_CASE("what is stored here other readers of the layout find as a bare row",
          "[fs][io][interop]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture f;
  f.identity = qwen();
  f.start();
  f.store_named(0, 2);
  for (std::uint64_t name = 0; name < 2; ++name) {
    const std::string hash = to_hex(tier_key(name).content_hash());
    const std::string path = f.directory.path() + "/Qwen_Qwen3-8B_f6c8000557a1_r0/" +
                             hash.substr(0, 3) + "/" + hash.substr(3, 2) + "_g0/" + hash + ".bin";
    const auto row = f.memory.expected(name);
    CHECK(test::read_file(path) ==
          std::string(reinterpret_cast<const char*>(row.data()), row.size()));
    CHECK(test::attribute(path, kDigestAttribute).starts_with("1:xxh3-128:"));
  }
}

TEST_CASE("a replicated layout stored under one parallel size is loaded under another",
          "[fs][io][interop]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture f;
  f.identity = qwen();
  f.identity.replicated_layout = true;
  f.identity.tp_size = 2;
  f.start();
  f.store_named(0, 3);
  f.identity.tp_size = 4;
  f.identity.rank = 3;
  f.start();
  const JobResult loaded = f.load(tier_keys(0, 3), 8);
  CHECK(loaded.success);
  CHECK(loaded.unverified == 0);
  for (ChunkId i = 0; i < 3; ++i) CHECK(f.memory.holds(8 + i, i));
  // Without the declaration the sizes are apart.
  f.identity.replicated_layout = false;
  f.start();
  CHECK(f.probe(tier_keys(0, 3)) == std::vector(3, LookupResult::miss));
}

}  // namespace
}  // namespace kv_offload
