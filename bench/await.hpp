#pragma once

#include "kv_offload/messages/monotonic_time.hpp"
#include "kv_offload/messages/pending.hpp"

#include <memory>
#include <optional>
#include <semaphore>
#include <utility>

namespace kv_offload::bench {

/// Waits for an answer, but not for ever: nullopt if none came within `patience`. The engine promises
/// an end to every call; a checker must survive an engine that breaks it.
template <class T>
std::optional<Expected<T>> await(Pending<T> pending, Duration patience) {
  struct Box {
    std::binary_semaphore arrived{0};
    std::optional<Expected<T>> value;
  };
  auto box = std::make_shared<Box>();
  std::move(pending).then([box](Expected<T> value) {
    box->value.emplace(std::move(value));
    box->arrived.release();
  });
  if (!box->arrived.try_acquire_for(patience)) return std::nullopt;
  return std::move(box->value);
}

}  // namespace kv_offload::bench
