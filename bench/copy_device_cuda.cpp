#include "kv_offload/bench/copy_device.hpp"
#include "kv_offload/tiers/device/cuda_backend.hpp"

#ifdef KV_OFFLOAD_CUDA
#include <cuda_runtime_api.h>
#endif

#include <utility>

namespace kv_offload::bench {

#ifdef KV_OFFLOAD_CUDA

namespace {

Expected<Ok> check(const char* what, cudaError_t error) {
  if (error == cudaSuccess) return Ok{};
  return {OffloadErrc::io_error, std::string(what) + ": " + cudaGetErrorString(error)};
}

class CudaDevice final : public CopyDevice {
 public:
  explicit CudaDevice(std::shared_ptr<DeviceBackend> backend) : backend_(std::move(backend)) {}
  ~CudaDevice() override {
    static_cast<void>(cudaFree(buffer_));
    if (stream_ != nullptr) static_cast<void>(cudaStreamDestroy(stream_));
  }
  Expected<Ok> open(std::uint64_t bytes) {
    if (auto made = check("cudaMalloc", cudaMalloc(&buffer_, bytes)); !made) return made;
    return check("cudaStreamCreate", cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  }
  [[nodiscard]] std::shared_ptr<DeviceBackend> backend() const override { return backend_; }
  [[nodiscard]] std::byte* buffer() const override { return static_cast<std::byte*>(buffer_); }
  Expected<Ok> write(std::uint64_t offset, std::span<const std::byte> bytes) override {
    return check("cudaMemcpy",
                 cudaMemcpy(buffer() + offset, bytes.data(), bytes.size(), cudaMemcpyHostToDevice));
  }
  Expected<Ok> read(std::uint64_t offset, std::span<std::byte> bytes) const override {
    return check("cudaMemcpy",
                 cudaMemcpy(bytes.data(), buffer() + offset, bytes.size(), cudaMemcpyDeviceToHost));
  }
  Expected<Ok> copy_plainly(std::span<const CopyFragment> fragments, bool is_load) override {
    const auto kind = is_load ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
    for (const CopyFragment& f : fragments)
      if (auto copied =
              check("cudaMemcpyAsync", cudaMemcpyAsync(f.to, f.from, f.bytes, kind, stream_));
          !copied)
        return copied;
    return check("cudaStreamSynchronize", cudaStreamSynchronize(stream_));
  }
  [[nodiscard]] std::string plain_name() const override { return "cudaMemcpyAsync"; }
  [[nodiscard]] bool is_host() const override { return false; }

 private:
  std::shared_ptr<DeviceBackend> backend_;
  void* buffer_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

}  // namespace

Expected<std::unique_ptr<CopyDevice>> open_cuda_device(std::uint64_t bytes) {
  auto backend = make_cuda_backend(0);
  if (!backend) return backend.error();
  if (auto chosen = check("cudaSetDevice", cudaSetDevice(0)); !chosen) return chosen.error();
  auto device = std::make_unique<CudaDevice>(std::move(*backend));
  if (auto opened = device->open(bytes); !opened) return opened.error();
  return std::unique_ptr<CopyDevice>(std::move(device));
}

#else

Expected<std::unique_ptr<CopyDevice>> open_cuda_device(std::uint64_t) {
  auto backend = make_cuda_backend(0);
  if (!backend) return backend.error();
  return {OffloadErrc::unsupported, "cuda: this build of kv-offload-bench has no CUDA"};
}

#endif

}  // namespace kv_offload::bench
