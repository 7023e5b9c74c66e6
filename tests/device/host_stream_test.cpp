#include "kv_offload/tiers/device/host_stream.hpp"

#include "kv_offload/tests/support/device_fixture.hpp"

#include <catch2/catch.hpp>

#include <sys/mman.h>

using namespace kv_offload;
using namespace kv_offload::test;

namespace {

std::unique_ptr<HostStream> open(const std::shared_ptr<HostBackend>& backend,
                                 const std::string& label) {
  auto stream = backend->open_compute_stream(label);
  if (!stream) FAIL(to_string(stream.error()));
  return std::move(*stream);
}
std::shared_ptr<HostBackend> host(HostOptions options = {}) {
  auto backend = make_host_backend(std::move(options));
  REQUIRE(backend);
  return *backend;
}

/// Ends that a stream tells.
struct Told {
  std::function<void(std::string, Duration)> sink() {
    return [this](std::string error, Duration time) {
      const std::lock_guard lock(mutex);
      errors.push_back(std::move(error));
      times.push_back(time);
    };
  }
  std::mutex mutex;
  std::vector<std::string> errors;
  std::vector<Duration> times;
};

/// Memory of three bytes and a copy of the first to the second, the second to the third.
struct Bytes {
  std::vector<std::byte> bytes{std::byte{7}, kPoison, kPoison};
  std::vector<CopyFragment> first() { return {{&bytes[0], &bytes[1], 1}}; }
  std::vector<CopyFragment> second() { return {{&bytes[1], &bytes[2], 1}}; }
};

}  // namespace

TEST_CASE("a stream does what it is given in order", "[device][host]") {
  const auto backend = host();
  const auto stream = open(backend, "test");
  Bytes memory;
  Told told;
  CHECK(stream->copy(memory.first(), false));
  CHECK(stream->copy(memory.second(), false));
  CHECK(stream->then(told.sink()));
  CHECK(stream->synchronize(kPatience));
  CHECK(memory.bytes[2] == std::byte{7});
  CHECK(told.errors == std::vector<std::string>{""});
  CHECK(told.times[0] > Duration{});
}

TEST_CASE("a stream waits for what another has recorded, and not for what came later",
          "[device][host]") {
  const auto backend = host();
  const auto compute = open(backend, "compute");
  const auto copies = open(backend, "copies");
  HostEvent event;
  CHECK(event.passed());  // never recorded: nothing to wait for
  Gate before, after;
  Bytes memory;
  memory.bytes[0] = kPoison;
  CHECK(compute->launch(
      [&] { return before.pass(), memory.bytes[0] = std::byte{7}, std::string(); }));
  CHECK(compute->record(event));
  CHECK(compute->launch([&] { return after.pass(), std::string(); }));
  CHECK_FALSE(event.passed());
  CHECK(copies->wait(event.handle()));
  CHECK(copies->copy(memory.first(), false));
  CHECK(says(to_string(copies->synchronize({}).error()), {"copies"}));
  CHECK(memory.bytes[1] == kPoison);
  before.open();
  CHECK(copies->synchronize(kPatience));  // while the compute stream is held back behind the event
  CHECK(event.passed());
  CHECK(memory.bytes[1] == std::byte{7});
  after.open();
  CHECK(compute->synchronize(kPatience));
}

TEST_CASE("who waits for an event goes on when it is recorded again or gone", "[device][host]") {
  const auto backend = host();
  const auto compute = open(backend, "compute");
  const auto copies = open(backend, "copies");
  auto event = std::make_unique<HostEvent>();
  Gate second;
  CHECK(compute->record(*event));
  CHECK(compute->synchronize(kPatience));
  CHECK(copies->wait(event->handle()));
  CHECK(compute->launch([&] { return second.pass(), std::string(); }));
  CHECK(compute->record(*event));
  CHECK(copies->synchronize(kPatience));  // waited for the first recording alone
  CHECK(copies->wait(event->handle()));
  const DeviceEventHandle handle = event->handle();
  event.reset();
  second.open();
  CHECK(copies->synchronize(kPatience));
  const auto unknown = copies->wait(handle);
  REQUIRE_FALSE(unknown);
  CHECK(says(to_string(unknown.error()), {"after: ", "is no event"}));
  CHECK(copies->wait(0));
}

TEST_CASE("behind an event that failed nothing is copied, and the end says why", "[device][host]") {
  const auto backend = host();
  const auto compute = open(backend, "compute");
  const auto copies = open(backend, "copies");
  HostEvent event;
  Bytes memory;
  Told told;
  CHECK(compute->launch([] { return std::string("kernel went wrong"); }));
  CHECK(compute->record(event));
  CHECK(copies->wait(event.handle()));
  CHECK(copies->copy(memory.first(), false));
  CHECK(copies->then(told.sink()));
  CHECK(copies->copy(memory.first(), false));  // the next job is its own
  CHECK(copies->then(told.sink()));
  CHECK(copies->synchronize(kPatience));
  REQUIRE(told.errors.size() == 2);
  CHECK(says(told.errors[0], {"event waited for failed", "kernel went wrong"}));
  CHECK(told.times[0] == Duration{});
  CHECK(told.errors[1].empty());
  CHECK(memory.bytes[1] == std::byte{7});
}

TEST_CASE("a failed copy ends its own job alone, a lost device every one", "[device][host]") {
  std::vector<HostTrouble> troubles{{"bad copy", false}, {}, {"device lost", true}};
  std::size_t next = 0;
  const auto backend = host({1, [&](std::span<const CopyFragment>) {
                               return next < troubles.size() ? troubles[next++] : HostTrouble{};
                             }});
  const auto stream = open(backend, "test");
  Bytes memory;
  Told told;
  for (int job = 0; job < 4; ++job) {
    if (job == 2) CHECK(stream->synchronize(kPatience));
    if (job == 2) CHECK(memory.bytes[1] == std::byte{7});
    if (job == 2) memory.bytes[1] = kPoison;
    CHECK(stream->copy(memory.first(), false));
    CHECK(stream->then(told.sink()));
  }
  const auto ended = stream->synchronize(kPatience);
  REQUIRE_FALSE(ended);
  CHECK(ended.error().code == OffloadErrc::io_error);
  CHECK(says(to_string(ended.error()), {"stream test", "device lost"}));
  CHECK(told.errors == std::vector<std::string>{"bad copy", "", "device lost", "device lost"});
  CHECK(memory.bytes[1] == kPoison);
}

TEST_CASE("synchronize says what is still running when patience is over", "[device][host]") {
  Gate gate;
  const auto backend =
      host({1, [&](std::span<const CopyFragment>) { return gate.pass(), HostTrouble{}; }});
  const auto stream = open(backend, "test");
  Bytes memory;
  CHECK(stream->copy(memory.first(), false));
  CHECK(stream->copy(memory.second(), false));
  gate.wait_for_arrivals(1);
  const auto ended = stream->synchronize({});
  REQUIRE_FALSE(ended);
  CHECK(ended.error().code == OffloadErrc::deadline);
  CHECK(says(to_string(ended.error()), {"stream test", "a copy is running", "1 operations wait"}));
  gate.open();
  CHECK(stream->synchronize(kPatience));
  CHECK(stream->synchronize(Duration::max()));
}

TEST_CASE("a stream's queue is bounded", "[device][host]") {
  const auto backend = host();
  const auto stream = open(backend, "test");
  Gate gate;
  CHECK(stream->launch([&] { return gate.pass(), std::string(); }));
  gate.wait_for_arrivals(1);
  for (std::size_t i = 0; i < HostStream::kOperationsMax; ++i) REQUIRE(stream->copy({}, false));
  const auto refused = stream->copy({}, false);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == OffloadErrc::busy);
  HostEvent event;
  CHECK_FALSE(stream->record(event));
  CHECK(event.passed());  // nobody waits for a recording that was refused
  gate.open();
  CHECK(stream->synchronize(kPatience));
}

TEST_CASE("several threads of a stream copy every byte once", "[device][host]") {
  for (const std::uint32_t threads : {1U, 2U, 3U, 8U}) {
    CAPTURE(threads);
    const auto backend = host({threads, {}});
    const auto stream = open(backend, "crew");
    // A large fragment that is split, and small ones that go together.
    constexpr std::size_t kLarge = (5U << 20) + 13, kSmall = 3000, kSmalls = 500;
    std::vector<std::byte> from(kLarge + kSmall * kSmalls), to(from.size(), kPoison);
    for (std::size_t i = 0; i < from.size(); ++i)
      from[i] = static_cast<std::byte>(i * 31 + i / 4093);
    std::vector<CopyFragment> fragments{{from.data(), to.data(), kLarge}};
    for (std::size_t i = 0; i < kSmalls; ++i)
      fragments.push_back(
          {from.data() + kLarge + i * kSmall, to.data() + kLarge + i * kSmall, kSmall - 1});
    for (int round = 0; round < 3; ++round) {
      std::fill(to.begin(), to.end(), kPoison);
      CHECK(stream->copy(fragments, true));
      CHECK(stream->copy({}, true));
      CHECK(stream->synchronize(kPatience));
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < to.size(); ++i) {
        const bool gap = i >= kLarge && (i - kLarge) % kSmall == kSmall - 1;
        if (to[i] != (gap ? kPoison : from[i])) ++wrong;
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("options of the host back end out of range are refused", "[device][host]") {
  for (const std::uint32_t threads : {0U, HostOptions::kThreadsMax + 1}) {
    const auto backend = make_host_backend({threads, {}});
    REQUIRE_FALSE(backend);
    CHECK(says(to_string(backend.error()), {"threads_per_stream", "1 to 64"}));
  }
}

TEST_CASE("a buffer that is not mapped is refused by name", "[device][host]") {
  const auto backend = host();
  constexpr std::size_t kBytes = 1U << 20;
  auto* memory = static_cast<std::byte*>(
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  REQUIRE(memory != MAP_FAILED);
  const KvTensor whole{"k", memory, kBytes / 4, 4, {}}, inside{"k", memory + 100, 1000, 4, {}};
  CHECK(backend->check_buffer(whole));
  CHECK(backend->check_buffer(inside));
  CHECK(backend->check_buffer({"none", nullptr, 100, 0, {}}));
  CHECK(says(to_string(backend->check_buffer({"k", nullptr, 100, 1, {}}).error()),
             {"tensor \"k\"", "null"}));
  CHECK(says(to_string(backend->check_buffer({"k", memory, ~std::uint64_t{0} / 2, 2, {}}).error()),
             {"mapped"}));
  REQUIRE(::munmap(memory + kBytes / 2, kBytes / 4) == 0);  // a hole
  CHECK(says(to_string(backend->check_buffer(whole).error()),
             {"tensor \"k\"", "not all mapped", "freed"}));
  CHECK(backend->check_buffer(inside));
  REQUIRE(::munmap(memory, kBytes) == 0);
  CHECK_FALSE(backend->check_buffer(inside));
}
