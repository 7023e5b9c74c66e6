#include "kv_offload/actors/caf_system.hpp"

#include <caf/all.hpp>
#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

namespace kv_offload {
namespace {

using std::chrono::seconds;

/// Ends a test that would hang; far longer than any of them takes.
bool becomes(const std::atomic<std::uint64_t>& value, std::uint64_t wanted) {
  const auto deadline = std::chrono::steady_clock::now() + seconds(30);
  while (value.load() < wanted) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

/// Passes a number on to the next actor, less one, until it is zero; counts what it took.
caf::behavior relay(caf::event_based_actor* self, std::atomic<std::uint64_t>* taken) {
  return {[=](const caf::actor& next, std::uint64_t hops) {
    ++*taken;
    if (hops > 0) self->send(next, caf::actor_cast<caf::actor>(self), hops - 1);
  }};
}

struct Talk {
  std::atomic<std::uint64_t> said{0};
  std::atomic<bool> is_over{false};
};

/// Answers whoever speaks until the talk is over.
caf::behavior talker(caf::event_based_actor* self, Talk* talk) {
  return {[=](const caf::actor& other) {
    ++talk->said;
    if (!talk->is_over) self->send(other, caf::actor_cast<caf::actor>(self));
  }};
}

caf::behavior counter(caf::event_based_actor*, std::atomic<std::uint64_t>* taken) {
  return {[=](std::uint64_t) { ++*taken; }};
}

}  // namespace

TEST_CASE("a chain of messages runs to its end on one worker and on several", "[scheduling]") {
  CafSystem caf(GENERATE(1U, 2U, 4U));
  std::atomic<std::uint64_t> taken{0};
  auto a = caf.system().spawn(relay, &taken);
  auto b = caf.system().spawn(relay, &taken);
  caf::anon_send(a, b, std::uint64_t{100'000});
  CHECK(becomes(taken, 100'001));
}

TEST_CASE("two actors that only talk to each other leave the worker to others", "[scheduling]") {
  Talk talk;
  std::atomic<std::uint64_t> counted{0};
  CafSystem caf(1);
  auto a = caf.system().spawn(talker, &talk);
  auto b = caf.system().spawn(talker, &talk);
  auto other = caf.system().spawn(counter, &counted);
  caf::anon_send(a, b);
  CHECK(becomes(talk.said, 1000));
  caf::anon_send(other, std::uint64_t{1});
  CHECK(becomes(counted, 1));  // while they still talk
  talk.is_over = true;
}

TEST_CASE("no message from outside is lost or left waiting, whoever sleeps", "[scheduling]") {
  CafSystem caf(GENERATE(1U, 2U, 3U));
  constexpr std::uint64_t kThreads = 4, kEach = 3000;
  std::atomic<std::uint64_t> counted{0};
  std::vector<caf::actor> actors;
  for (int i = 0; i < 3; ++i) actors.push_back(caf.system().spawn(counter, &counted));
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < kEach; ++i) {
        caf::anon_send(actors[(t + i) % actors.size()], i);
        // Now and then long enough for every worker to fall asleep.
        if (i % 100 == 0) std::this_thread::sleep_for(std::chrono::microseconds(60));
      }
    });
  for (auto& thread : threads) thread.join();
  CHECK(becomes(counted, kThreads * kEach));
  // One at a time, each sent to sleeping workers.
  for (std::uint64_t i = 1; i <= 200; ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    caf::anon_send(actors[0], i);
    REQUIRE(becomes(counted, kThreads * kEach + i));
  }
}

TEST_CASE("a system that ends runs what was handed over and leaves no thread", "[scheduling]") {
  for (int round = 0; round < 50; ++round) {
    auto taken = std::make_unique<std::atomic<std::uint64_t>>(0);
    CafSystem caf(2);
    auto a = caf.system().spawn(relay, taken.get());
    auto b = caf.system().spawn(relay, taken.get());
    caf::anon_send(a, b, std::uint64_t{50});
    caf::anon_send_exit(a, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(b, caf::exit_reason::user_shutdown);
  }
}

}  // namespace kv_offload
