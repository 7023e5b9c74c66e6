#include "kv_offload/bench/worker_device.hpp"

#include "kv_offload/bench/random.hpp"

#include <cerrno>
#include <cstring>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

namespace kv_offload::bench {
namespace {

OffloadError refused(const char* call) {
  return {OffloadErrc::io_error, std::string("device memory: ") + call + ": " + std::strerror(errno)};
}

}  // namespace

Expected<std::unique_ptr<WorkerDevice>> WorkerDevice::create(std::uint64_t page_bytes, std::uint64_t num_blocks) {
  const int fd = ::memfd_create("kv-offload-bench-device", MFD_CLOEXEC);
  if (fd < 0) return refused("memfd_create");
  if (::ftruncate(fd, static_cast<off_t>(bytes_of(page_bytes, num_blocks))) != 0) {
    const auto error = refused("ftruncate");
    ::close(fd);
    return error;
  }
  return open(fd, page_bytes, num_blocks);
}

Expected<std::unique_ptr<WorkerDevice>> WorkerDevice::open(int fd, std::uint64_t page_bytes, std::uint64_t num_blocks) {
  void* base = ::mmap(nullptr, bytes_of(page_bytes, num_blocks), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) {
    const auto error = refused("mmap");
    ::close(fd);
    return error;
  }
  return std::unique_ptr<WorkerDevice>(new WorkerDevice(fd, static_cast<std::byte*>(base), page_bytes, num_blocks));
}

WorkerDevice::~WorkerDevice() {
  ::munmap(base_, bytes_of(page_bytes_, num_blocks_));
  ::close(fd_);
}

std::span<std::byte> WorkerDevice::page(std::uint32_t tensor, std::uint64_t block) const {
  return {base_ + (tensor * num_blocks_ + block) * page_bytes_, page_bytes_};
}

void WorkerDevice::fill(std::uint64_t blocks, std::uint64_t seed) const {
  for (std::uint32_t t = 0; t < kTensors; ++t)
    for (std::uint64_t b = 0; b < blocks; ++b) {
      Random random(seed ^ (t * num_blocks_ + b) * 0x9e3779b97f4a7c15ULL);
      const auto bytes = page(t, b);
      for (std::size_t i = 0; i < bytes.size(); i += 8) {
        const std::uint64_t word = random.next();
        std::memcpy(bytes.data() + i, &word, std::min<std::size_t>(8, bytes.size() - i));
      }
    }
}

KvCaches WorkerDevice::caches() const {
  KvCaches caches;
  caches.groups.resize(1);
  for (std::uint32_t t = 0; t < kTensors; ++t) {
    KvTensor tensor;
    tensor.name = t == 0 ? "k" : "v";
    tensor.data = page(t, 0).data();
    tensor.page_bytes = page_bytes_;
    tensor.num_blocks = num_blocks_;
    caches.tensors.push_back(std::move(tensor));
    KvRef ref;
    ref.tensor = t;
    ref.page_bytes = page_bytes_;
    ref.layer = caches.tensors.back().name;
    caches.groups[0].push_back(std::move(ref));
  }
  return caches;
}

}  // namespace kv_offload::bench
