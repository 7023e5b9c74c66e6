#pragma once

#include "kv_offload/tiers/io/io_backend.hpp"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace kv_offload {

/// The first backend, or the second where this process may not have the first: decided once, by open(). Lane
/// thread, as every backend.
class FallbackBackend final : public IoBackend {
 public:
  /// Told once why the first is not used, and what is. May be empty.
  using Say = std::function<void(const std::string& why, const std::string& used)>;

  FallbackBackend(std::unique_ptr<IoBackend> first, std::unique_ptr<IoBackend> second, Say say)
      : used_(std::move(first)), second_(std::move(second)), say_(std::move(say)) {}

  /// Only `unsupported` leads to the second: any other error is the first's own.
  Expected<std::string> open() override;

  bool push(const IoRequest& request) override { return used_->push(request); }
  int submit() override { return used_->submit(); }
  int reap(std::vector<IoCompletion>& completions, Duration wait) override {
    return used_->reap(completions, wait);
  }
  void wake() override { used_->wake(); }
  void close() override { used_->close(); }
  [[nodiscard]] std::size_t in_flight() const override { return used_->in_flight(); }
  [[nodiscard]] int buffer_index(const std::byte* begin, std::uint64_t length) const override {
    return used_->buffer_index(begin, length);
  }

 private:
  std::unique_ptr<IoBackend> used_;
  std::unique_ptr<IoBackend> second_;
  const Say say_;
};

}  // namespace kv_offload
