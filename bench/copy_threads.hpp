#pragma once

#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace kv_offload::bench {

/// Calls `work(first, end)` for equal shares of `count` things, on `threads` threads of which the
/// caller is one.
template <class Work>
void in_threads(std::uint32_t threads, std::size_t count, const Work& work) {
  std::vector<std::jthread> others;
  for (std::uint32_t t = 1; t < threads; ++t)
    others.emplace_back(
        [&work, t, threads, count] { work(count * t / threads, count * (t + 1) / threads); });
  work(std::size_t{0}, count / threads);
}

}  // namespace kv_offload::bench
