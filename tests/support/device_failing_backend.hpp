#pragma once

#include "kv_offload/tiers/device/host_backend.hpp"

#include <catch2/catch.hpp>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace kv_offload::test {

/// The host, with a failure at the call that a test chooses, and a list of what was called.
class FailingBackend final : public DeviceBackend {
 public:
  /// Calls that can fail are numbered from 1; 0: none fails.
  explicit FailingBackend(int fail_at = 0, HostOptions options = {}) : fail_at_(fail_at) {
    auto made = make_host_backend(std::move(options));
    REQUIRE(made);
    host_ = std::move(*made);
  }
  [[nodiscard]] std::string name() const override { return "failing"; }
  Expected<std::unique_ptr<DeviceStream>> open_stream(const std::string& label) override {
    if (fails("open " + label)) return {OffloadErrc::io_error, "no stream for " + label};
    auto stream = host_->open_stream(label);
    if (!stream) return stream;
    return std::unique_ptr<DeviceStream>(new Stream(*this, label, std::move(*stream)));
  }
  Expected<Ok> check_buffer(const KvTensor& tensor) const override {
    if (fails("check " + tensor.name))
      return {OffloadErrc::invalid_argument, "bad buffer " + tensor.name};
    return host_->check_buffer(tensor);
  }
  std::uint64_t register_host(std::span<std::byte> memory,
                              const std::function<void(std::string)>& log) override {
    fails("register");
    if (registers_bytes < memory.size()) log("registered only a part: out of locked memory");
    ++registrations;
    return std::min<std::uint64_t>(memory.size(), registers_bytes);
  }
  void unregister_host(std::span<std::byte>) override {
    fails("unregister");
    --registrations;
  }

  std::vector<std::string> calls() const {
    const std::lock_guard lock(mutex_);
    return calls_;
  }
  std::atomic<bool> wait_fails{false}, copy_fails{false}, then_fails{false};
  std::uint64_t registers_bytes = ~std::uint64_t{0};
  int registrations = 0;

 private:
  class Stream final : public DeviceStream {
   public:
    Stream(FailingBackend& owner, std::string label, std::unique_ptr<DeviceStream> host)
        : owner_(owner), label_(std::move(label)), host_(std::move(host)) {}
    ~Stream() override { owner_.note("close " + label_); }
    Expected<Ok> wait(DeviceEventHandle event) override {
      if (owner_.wait_fails) return {OffloadErrc::io_error, "wait failed"};
      return host_->wait(event);
    }
    Expected<Ok> copy(std::span<const CopyFragment> fragments, bool is_load) override {
      if (owner_.copy_fails) return {OffloadErrc::io_error, "copy failed"};
      return host_->copy(fragments, is_load);
    }
    Expected<Ok> then(std::function<void(std::string, Duration)> done) override {
      if (owner_.then_fails) return {OffloadErrc::io_error, "then failed"};
      return host_->then(
          [&owner = owner_, done = std::move(done)](std::string error, Duration time) {
            done(std::move(error), time);
            owner.note("told");
          });
    }
    Expected<Ok> synchronize(Duration patience) override {
      owner_.note("synchronize " + label_);
      return host_->synchronize(patience);
    }

   private:
    FailingBackend& owner_;
    std::string label_;
    std::unique_ptr<DeviceStream> host_;
  };
  void note(const std::string& call) const {
    const std::lock_guard lock(mutex_);
    calls_.push_back(call);
  }
  bool fails(const std::string& call) const {
    note(call);
    return ++step_ == fail_at_;
  }

  std::shared_ptr<HostBackend> host_;
  const int fail_at_;
  mutable std::atomic<int> step_{0};
  mutable std::mutex mutex_;
  mutable std::vector<std::string> calls_;
};

}  // namespace kv_offload::test
