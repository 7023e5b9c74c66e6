#include "kv_offload/bench/copy_device.hpp"
#include "kv_offload/bench/copy_threads.hpp"
#include "kv_offload/tiers/device/host_backend.hpp"
#include "kv_offload/tiers/primary/region.hpp"

#include <cstring>
#include <utility>

namespace kv_offload::bench {
namespace {

class HostDevice final : public CopyDevice {
 public:
  HostDevice(std::shared_ptr<DeviceBackend> backend, std::unique_ptr<Region> memory,
             std::uint32_t threads)
      : backend_(std::move(backend)), memory_(std::move(memory)), threads_(threads) {}
  [[nodiscard]] std::shared_ptr<DeviceBackend> backend() const override { return backend_; }
  [[nodiscard]] std::byte* buffer() const override { return memory_->view().base; }
  Expected<Ok> write(std::uint64_t offset, std::span<const std::byte> bytes) override {
    std::memcpy(buffer() + offset, bytes.data(), bytes.size());
    return Ok{};
  }
  Expected<Ok> read(std::uint64_t offset, std::span<std::byte> bytes) const override {
    std::memcpy(bytes.data(), buffer() + offset, bytes.size());
    return Ok{};
  }
  Expected<Ok> copy_plainly(std::span<const CopyFragment> fragments, bool) override {
    in_threads(threads_, fragments.size(), [&](std::size_t first, std::size_t end) {
      for (std::size_t i = first; i < end; ++i)
        std::memcpy(fragments[i].to, fragments[i].from, fragments[i].bytes);
    });
    return Ok{};
  }
  [[nodiscard]] std::string plain_name() const override { return "memcpy"; }
  [[nodiscard]] bool is_host() const override { return true; }

 private:
  std::shared_ptr<DeviceBackend> backend_;
  std::unique_ptr<Region> memory_;
  std::uint32_t threads_;
};

}  // namespace

Expected<std::unique_ptr<CopyDevice>> open_host_device(std::uint64_t bytes, std::uint32_t threads) {
  HostOptions options;
  options.threads_per_stream = threads;
  auto backend = make_host_backend(std::move(options));
  if (!backend) return backend.error();
  RegionOptions region;
  region.num_chunks = 1;
  region.chunk_bytes = bytes;
  auto memory = Region::create(region);
  if (!memory) return memory.error();
  return std::unique_ptr<CopyDevice>(
      std::make_unique<HostDevice>(std::move(*backend), std::move(*memory), threads));
}

}  // namespace kv_offload::bench
