#include "kv_offload/tests/support/device_failing_backend.hpp"
#include "kv_offload/tests/support/device_fixture.hpp"
#include "kv_offload/tests/support/open_things.hpp"
#include "kv_offload/tiers/device/page_mappings.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <fstream>
#include <string>

using namespace kv_offload;
using namespace kv_offload::test;

namespace {

TestCaches two_tensors() {
  TestCaches caches;
  caches.tensor(100, 8).tensor(50, 8).ref(0, 0).ref(0, 1);
  return caches;
}
constexpr WorkerPlace kPlace{0, 1, 2, ChunkLayout::sharded};

std::size_t shared_mappings() {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);)
    if (line.size() > 28 && line.find(" rw-s ") != std::string::npos) ++count;
  return count;
}

/// What a process has open, running and mapped.
struct Footprint {
  std::size_t descriptors = open_descriptors(), threads = running_threads(),
              mappings = shared_mappings();
  bool operator==(const Footprint&) const = default;
};

/// A thread that was joined may be listed for another moment.
bool returns_to(const Footprint& before) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (!(Footprint() == before))
    if (std::chrono::steady_clock::now() > until) return false;
  return true;
}

std::string refusal(const DeviceWorker::Options& options) {
  auto started = DeviceWorker::start(options);
  REQUIRE_FALSE(started);
  return to_string(started.error());
}

}  // namespace

TEST_CASE("a start that fails at any step leaves no thread, descriptor, mapping or registration",
          "[device][worker]") {
  TestCaches caches = two_tensors();
  TestRows rows(4, 300);
  const std::vector<std::byte> before = rows.bytes;
  int failed_starts = 0;
  for (int step = 1;; ++step) {
    const Footprint footprint;
    auto backend = std::make_shared<FailingBackend>(step);
    TestWorker worker(caches, kPlace, rows, backend);
    auto started = DeviceWorker::start(worker.options);
    if (started) {
      CHECK(backend->registrations == 1);
      CHECK((*started)->stop(kPatience));
      CHECK(backend->registrations == 0);
      break;
    }
    ++failed_starts;
    CHECK_FALSE(to_string(started.error()).empty());
    CHECK(backend->registrations == 0);
    // Whatever was opened is closed again.
    const auto calls = backend->calls();
    const auto count = [&](const std::string& what) {
      return std::count_if(calls.begin(), calls.end(),
                           [&](const auto& call) { return call.starts_with(what); });
    };
    CHECK(count("close ") ==
          std::max<std::ptrdiff_t>(count("open ") - 1, 0));  // the last one failed
    CHECK(returns_to(footprint));
    // The same options are good for a second start.
    worker.options.backend = nullptr;
    worker.start();
    CHECK(worker.worker->stop(kPatience));
    CHECK(returns_to(footprint));
  }
  CHECK(failed_starts == 4);  // two buffers, two streams; registering never fails the start
  CHECK(rows.bytes == before);
}

TEST_CASE("the options of a failed start start a worker once they are right", "[device][worker]") {
  TestCaches caches = two_tensors();
  TestRows rows(4, 300);
  TestWorker worker(caches, kPlace, rows);
  worker.options.place.blocks_per_chunk = 3;
  CHECK(says(refusal(worker.options), {"chunk_bytes: 300", "expected 450"}));
  worker.options.place.blocks_per_chunk = 2;
  worker.start();
}

TEST_CASE("an unmapped layer is refused before anything is opened, registered or written",
          "[device][worker]") {
  TestCaches caches;
  caches.tensor(100, 8).tensor(50, 8).ref(0, 0, 0, *map_replicated_page(100, 0, 1)).ref(0, 1);
  TestRows rows(4, 300);
  const auto before = rows.bytes;
  auto backend = std::make_shared<FailingBackend>();
  TestWorker worker(caches, {0, 1, 2, ChunkLayout::canonical}, rows, backend);
  CHECK(says(refusal(worker.options),
             {"layer \"layer.1\"", "tensor 1 \"kv1\"", "causes:", "remedy:"}));
  CHECK(backend->calls().empty());
  CHECK(rows.bytes == before);
}

TEST_CASE(
    "an opaque layer under a collapsed namespace is refused before anything is opened or written",
    "[device][worker]") {
  TestCaches caches;
  caches.tensor(100, 8).ref(0, 0, 0, *map_opaque_page(100, 0, 1));
  TestRows rows(4, 200);
  auto backend = std::make_shared<FailingBackend>();
  TestWorker worker(caches, {0, 1, 2, ChunkLayout::canonical}, rows, backend);
  worker.options.namespace_collapsed = true;
  CHECK(says(refusal(worker.options),
             {"layer \"layer.0\"", "tensor 0 \"kv0\"", "opaque", "remedy:"}));
  CHECK(backend->calls().empty());
  worker.options.namespace_collapsed = false;
  worker.start();
  CHECK(worker.worker->all_layers_portable() == false);
  CHECK(worker.log.has("info", "all_layers_portable: false"));
}

TEST_CASE("portability is known once the worker has started, and only in the canonical layout",
          "[device][worker]") {
  TestCaches caches;
  caches.tensor(100, 8).ref(0, 0, 0, *map_replicated_page(100, 0, 1));
  TestRows rows(4, 200);
  TestWorker canonical(caches, {0, 1, 2, ChunkLayout::canonical}, rows);
  canonical.start();
  CHECK(canonical.worker->all_layers_portable() == true);
  CHECK(canonical.log.has("info", "all_layers_portable: true"));
  TestWorker sharded(caches, kPlace, rows);
  sharded.start();
  CHECK_FALSE(sharded.worker->all_layers_portable());
  CHECK_FALSE(sharded.log.has("info", "all_layers_portable"));
}

TEST_CASE("buffers that are not there are refused at the start", "[device][worker]") {
  TestCaches caches = two_tensors();
  TestRows rows(4, 300);
  TestWorker worker(caches, kPlace, rows);
  auto token = std::make_shared<int>();
  worker.options.caches.tensors[1].alive = std::weak_ptr<const void>(token);
  token.reset();
  CHECK(says(refusal(worker.options), {"tensor \"kv1\"", "freed"}));
  worker.options.caches.tensors[1].alive.reset();
  worker.options.caches.tensors[1].data = nullptr;
  CHECK(says(refusal(worker.options), {"tensor \"kv1\"", "null"}));
}

TEST_CASE("rows that are not there are refused at the start", "[device][worker]") {
  TestCaches caches = two_tensors();
  TestRows rows(4, 300);
  TestWorker worker(caches, kPlace, rows);
  worker.options.rows.base = nullptr;
  CHECK(says(refusal(worker.options), {"rows: there are none"}));
  worker.options.rows = rows.view();
  worker.options.rows.num_chunks = 0;
  CHECK(says(refusal(worker.options), {"rows: there are none"}));
  worker.options.rows = rows.view();
  worker.options.rows.row_bytes = 299;
  CHECK(says(refusal(worker.options), {"row_bytes 299", "at least 300"}));
  worker.options.rows = rows.view();
  worker.options.jobs_max = 0;
  CHECK(says(refusal(worker.options), {"jobs_max: 0"}));
}

TEST_CASE("partly registered rows are said in bytes and in the log, and the worker starts",
          "[device][worker]") {
  TestCaches caches = two_tensors();
  TestRows rows(4, 300);
  auto backend = std::make_shared<FailingBackend>();
  backend->registers_bytes = 4096;
  TestWorker worker(caches, kPlace, rows, backend);
  worker.start();
  CHECK(worker.worker->stats().region_bytes == 4 * 4096);
  CHECK(worker.worker->stats().registered_bytes == 4096);
  CHECK(worker.log.has("warn", "registered only a part"));
  CHECK(worker.log.has("info", "4096 of 16384 bytes registered"));
}

TEST_CASE("rows are registered only where that is asked for", "[device][worker]") {
  TestCaches caches = two_tensors();
  TestRows rows(4, 300);
  auto backend = std::make_shared<FailingBackend>();
  TestWorker worker(caches, kPlace, rows, backend);
  worker.options.register_rows = false;
  worker.start();
  CHECK(worker.worker->stats().registered_bytes == 0);
  CHECK(worker.worker->stop(kPatience));
  const auto calls = backend->calls();
  CHECK(std::find(calls.begin(), calls.end(), "register") == calls.end());
  CHECK(std::find(calls.begin(), calls.end(), "unregister") == calls.end());
}
