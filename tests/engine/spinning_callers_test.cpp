#include "kv_offload/messages/pending.hpp"

#include <catch2/catch.hpp>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

using namespace kv_offload;

namespace {

/// Everybody waits for a slot of its own, as long as `rounds` say by spinning; then each slot is answered.
void all_are_answered(std::uint32_t callers, std::uint32_t rounds) {
  std::vector<std::shared_ptr<CompletionSlot<std::uint32_t>>> slots;
  for (std::uint32_t i = 0; i < callers; ++i)
    slots.push_back(std::make_shared<CompletionSlot<std::uint32_t>>(rounds));
  std::vector<std::uint32_t> answers(callers, 0);
  std::atomic<std::uint32_t> waiting{0};
  std::vector<std::thread> threads;
  for (std::uint32_t i = 0; i < callers; ++i)
    threads.emplace_back([&, i] {
      ++waiting;
      answers[i] = Pending(slots[i]).get().value();
    });
  while (waiting < callers) std::this_thread::yield();
  for (std::uint32_t i = 0; i < callers; ++i) slots[i]->deliver(i + 1);
  for (auto& thread : threads) thread.join();
  for (std::uint32_t i = 0; i < callers; ++i) CHECK(answers[i] == i + 1);
}

}  // namespace

TEST_CASE("callers that spin for long are answered, also more of them than processors",
          "[engine]") {
  const auto processors = std::thread::hardware_concurrency();
  // The second time as the first: whoever has spun gives its turn back.
  for (int time = 0; time < 2; ++time)
    all_are_answered(processors + 3, spin_rounds(100'000));
}

TEST_CASE("a caller that spins for too short parks and is woken", "[engine]") {
  for (const std::uint32_t rounds : {0U, 1U, spin_rounds(20), spin_rounds(25)})
    for (int time = 0; time < 20; ++time) all_are_answered(2, rounds);
}
