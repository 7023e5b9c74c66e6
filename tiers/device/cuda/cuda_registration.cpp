#include "kv_offload/tiers/device/cuda/cuda_registration.hpp"

#include "kv_offload/tiers/device/cuda/cuda_call.hpp"

#include <algorithm>
#include <limits>

namespace kv_offload {

std::uint64_t CudaRegistration::add(std::span<std::byte> memory,
                                    const std::function<void(std::string)>& log) {
  std::uint64_t pinned = 0, refused = 0, first_refused = 0;
  std::string why;
  const auto say_refused = [&] {
    if (refused == 0) return;
    if (log)
      log("cuda: " + std::to_string(refused) + " bytes from offset " +
          std::to_string(first_refused) + " of the rows could not be registered: " + why +
          "; copies from and to them take the slow path; raise the locked-memory limit (ulimit "
          "-l), or make the "
          "primary tier smaller");
    refused = 0;
  };
  for (std::uint64_t at = 0; at < memory.size(); at += kPieceBytes) {
    const std::uint64_t bytes = std::min<std::uint64_t>(kPieceBytes, memory.size() - at);
    std::byte* const piece = memory.data() + at;
    const cudaError_t error = cudaHostRegister(piece, bytes, cudaHostRegisterPortable);
    // Somebody else's registration serves as well, and is theirs to end.
    const bool theirs = error == cudaErrorHostMemoryAlreadyRegistered;
    if (error != cudaSuccess) why = to_string(cuda_error("cudaHostRegister", error));
    {
      const std::lock_guard lock(mutex_);
      pieces_[piece] = {bytes, error == cudaSuccess};
    }
    if (error == cudaSuccess || theirs) {
      pinned += bytes;
      say_refused();
      continue;
    }
    if (refused == 0) first_refused = at;
    refused += bytes;
  }
  say_refused();
  return pinned;
}

void CudaRegistration::remove(std::span<std::byte> memory) {
  const std::lock_guard lock(mutex_);
  for (std::uint64_t at = 0; at < memory.size(); at += kPieceBytes) {
    const auto piece = pieces_.find(memory.data() + at);
    if (piece == pieces_.end()) continue;
    if (piece->second.is_pinned)
      if (const auto error = cudaHostUnregister(memory.data() + at); error != cudaSuccess)
        static_cast<void>(cudaGetLastError());  // a context that is gone has let go of it already
    pieces_.erase(piece);
  }
}

std::uint64_t CudaRegistration::bytes_to_border(const std::byte* at) const {
  const std::lock_guard lock(mutex_);
  auto after = pieces_.upper_bound(at);
  if (after == pieces_.begin()) return std::numeric_limits<std::uint64_t>::max();
  const auto& [begin, piece] = *--after;
  const auto offset = static_cast<std::uint64_t>(at - begin);
  return offset < piece.bytes ? piece.bytes - offset : std::numeric_limits<std::uint64_t>::max();
}

}  // namespace kv_offload
