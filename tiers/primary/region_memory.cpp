#include "kv_offload/tiers/primary/region_memory.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace kv_offload {
namespace {

constexpr std::uint64_t kHugePageBytes = 2ULL << 20;
constexpr unsigned kHuge2MiB = 21U << 26;  // MFD_HUGE_2MB, which this C library does not name

std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

MappedMemory& MappedMemory::operator=(MappedMemory&& other) noexcept {
  if (this == &other) return *this;
  unmap();
  base_ = std::exchange(other.base_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

void MappedMemory::unmap() {
  if (base_ != nullptr) ::munmap(base_, bytes_);
  leak();
}

MappedMemory map_region(int fd, std::uint64_t bytes) {
  const std::uint64_t asked = bytes + kHugePageBytes;
  const int access = fd >= 0 ? PROT_NONE : PROT_READ | PROT_WRITE;
  void* got = ::mmap(nullptr, asked, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) return {};
  const auto begin = reinterpret_cast<std::uintptr_t>(got);
  const std::uintptr_t aligned = round_up(begin, kHugePageBytes);
  if (aligned > begin) ::munmap(got, aligned - begin);
  const std::uintptr_t end = aligned + bytes;
  if (begin + asked > end) ::munmap(reinterpret_cast<void*>(end), begin + asked - end);
  auto* base = reinterpret_cast<std::byte*>(aligned);
  if (fd >= 0 &&
      ::mmap(base, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
    const int error = errno;
    ::munmap(base, bytes);
    errno = error;
    return {};
  }
  ::madvise(base, bytes, MADV_DONTDUMP);
  ::madvise(base, bytes, MADV_DONTFORK);
  return {base, bytes};
}

Expected<SharedMemoryFile> open_shared_memory(const std::string& label, std::uint64_t bytes,
                                              bool huge_pages) {
  SharedMemoryFile file;
  file.is_huge = huge_pages;
  file.bytes = round_up(
      bytes, huge_pages ? kHugePageBytes : static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)));
  const unsigned flags =
      MFD_CLOEXEC | MFD_ALLOW_SEALING | (huge_pages ? MFD_HUGETLB | kHuge2MiB : 0U);
  const auto failed = [&](const char* what) {
    return OffloadError{OffloadErrc::io_error, std::string(what) + ": " + std::strerror(errno)};
  };
  file.fd.reset(::memfd_create(label.substr(0, 200).c_str(), flags));
  if (!file.fd) return failed("memfd_create");
  if (::ftruncate(file.fd.get(), static_cast<off_t>(file.bytes)) != 0) return failed("ftruncate");
  if (::fcntl(file.fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return failed("F_ADD_SEALS");
  return file;
}

Expected<Ok> check_shared_size(int fd, std::uint64_t bytes, bool must_be_sealed) {
  struct stat now {};
  if (::fstat(fd, &now) != 0)
    return {OffloadErrc::io_error, std::string("region: fstat: ") + std::strerror(errno)};
  if (!S_ISREG(now.st_mode))
    return {OffloadErrc::invalid_argument, "region: the descriptor is no file"};
  if (static_cast<std::uint64_t>(now.st_size) != bytes)
    return {OffloadErrc::invalid_argument, "region: file size: found " +
                                               std::to_string(now.st_size) + ", expected " +
                                               std::to_string(bytes)};
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (must_be_sealed && (seals < 0 || (seals & F_SEAL_SHRINK) == 0))
    return {OffloadErrc::invalid_argument,
            "region: the descriptor is not sealed against shrinking"};
  return Ok{};
}

}  // namespace kv_offload
