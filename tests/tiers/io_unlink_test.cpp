#include "kv_offload/tests/support/tier_directory.hpp"
#include "kv_offload/tests/support/tier_fs_fixture.hpp"
#include "kv_offload/tests/support/tier_memory.hpp"
#include "kv_offload/tiers/io/chunk_transfer.hpp"

#include <catch2/catch.hpp>

#include <cerrno>
#include <map>
#include <memory>

namespace kv_offload {
namespace {

using test::TierDirectory;
using test::TierMemory;

enum class Way { ring, kernel_without, script };

std::unique_ptr<IoBackend> backend_of(Way way, const TierMemory& memory) {
  if (way == Way::script) return std::make_unique<ScriptedBackend>();
  UringOptions options;
  options.queue_depth = 8;
  options.primary = memory.view();
  options.unlink_in_ring = way == Way::ring;
  return std::make_unique<UringBackend>(options);
}

std::map<std::uint64_t, std::int32_t> reap(IoBackend& backend, std::size_t count) {
  std::vector<IoCompletion> all;
  for (int i = 0; i < 100 && all.size() < count; ++i)
    REQUIRE(backend.reap(all, std::chrono::seconds(5)) == 0);
  std::map<std::uint64_t, std::int32_t> results;
  for (const IoCompletion& completion : all)
    CHECK(results.emplace(completion.tag, completion.result).second);
  REQUIRE(results.size() == count);
  return results;
}

TEST_CASE("a backend removes names, and says why it cannot, whether the ring can or not",
          "[io][uring]") {
  KV_OFFLOAD_NEEDS_URING();
  const auto way = GENERATE(Way::ring, Way::kernel_without, Way::script);
  CAPTURE(static_cast<int>(way));
  const TierDirectory directory;
  const TierMemory memory(2, 4096);
  const auto backend = backend_of(way, memory);
  REQUIRE(backend->open());
  const auto path = [&](const char* name) { return directory.path() + "/" + name; };
  test::write_file(path("a"), "1");
  test::write_file(path("b"), "2");
  std::filesystem::create_directory(path("c"));
  const std::vector<std::string> paths{path("a"), path("missing"), path("c"), path("b") + "/below"};
  for (std::uint64_t i = 0; i < paths.size(); ++i) {
    IoRequest request;
    request.op = IoOp::unlink;
    request.path = paths[i].c_str();
    request.tag = i;
    REQUIRE(backend->push(request));
  }
  CHECK(backend->in_flight() == 4);
  REQUIRE(backend->submit() == 0);
  const auto results = reap(*backend, 4);
  CHECK(results.at(0) == 0);
  CHECK(results.at(1) == -ENOENT);
  CHECK((results.at(2) == -EISDIR || results.at(2) == -EPERM));
  CHECK(results.at(3) == -ENOTDIR);
  CHECK(backend->in_flight() == 0);
  CHECK_FALSE(std::filesystem::exists(path("a")));
  CHECK(std::filesystem::exists(path("b")));
}

TEST_CASE("an unlink is one request, tried again only where it was interrupted", "[io]") {
  ChunkTransfer::Plan plan;
  plan.op = IoOp::unlink;
  plan.path = "/x";
  ChunkTransfer done(plan, 7);
  CHECK(done.next().op == IoOp::unlink);
  CHECK(done.next().path == std::string("/x"));
  CHECK(done.next().buffer == nullptr);
  CHECK(done.complete(0));
  CHECK(done.error() == 0);
  CHECK_FALSE(done.is_short());
  ChunkTransfer failed(plan, 7);
  CHECK_FALSE(failed.complete(-EINTR));
  CHECK(failed.complete(-EROFS));
  CHECK(failed.error() == EROFS);
}

}  // namespace
}  // namespace kv_offload
