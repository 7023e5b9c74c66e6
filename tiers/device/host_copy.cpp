#include "kv_offload/tiers/device/host_copy.hpp"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace kv_offload {
namespace {

constexpr std::size_t kLine = 64;
/// Of the next fragment, fetched while this one is copied: what the processor's own prefetcher
/// needs to get going.
constexpr std::size_t kAheadBytes = 512;

#if defined(__x86_64__)

constexpr std::size_t kStep = 256;

// `to` is at a line's begin, `bytes` a multiple of kStep.
__attribute__((target("avx512f"))) void stream_avx512(std::byte* to, const std::byte* from,
                                                      std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += kStep) {
    const __m512i a = _mm512_loadu_si512(from + i), b = _mm512_loadu_si512(from + i + 64);
    const __m512i c = _mm512_loadu_si512(from + i + 128), d = _mm512_loadu_si512(from + i + 192);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i), a);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i + 64), b);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i + 128), c);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i + 192), d);
  }
}

__attribute__((target("avx2"))) void stream_avx2(std::byte* to, const std::byte* from,
                                                 std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += kStep / 2) {
    const auto* source = reinterpret_cast<const __m256i*>(from + i);
    const __m256i a = _mm256_loadu_si256(source), b = _mm256_loadu_si256(source + 1);
    const __m256i c = _mm256_loadu_si256(source + 2), d = _mm256_loadu_si256(source + 3);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i), a);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i + 32), b);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i + 64), c);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i + 96), d);
  }
}

void prefetch(const std::byte* from) {
  _mm_prefetch(reinterpret_cast<const char*>(from), _MM_HINT_T0);
}
void end_streaming() { _mm_sfence(); }

void stream_lines(std::byte* to, const std::byte* from, std::size_t bytes, CopyPath path) {
  if (path == CopyPath::avx512)
    stream_avx512(to, from, bytes);
  else
    stream_avx2(to, from, bytes);
}

#else

constexpr std::size_t kStep = 256;
void prefetch(const std::byte* from) { __builtin_prefetch(from); }
void end_streaming() {}
void stream_lines(std::byte* to, const std::byte* from, std::size_t bytes, CopyPath) {
  std::memcpy(to, from, bytes);
}

#endif

/// Bytes up to the next line of `to`.
std::size_t head_bytes(const std::byte* to) {
  return (kLine - reinterpret_cast<std::uintptr_t>(to) % kLine) % kLine;
}

void stream(std::byte* to, const std::byte* from, std::size_t bytes, CopyPath path) {
  const std::size_t head = std::min(head_bytes(to), bytes);
  std::memcpy(to, from, head);
  const std::size_t lines = (bytes - head) / kStep * kStep;
  stream_lines(to + head, from + head, lines, path);
  std::memcpy(to + head + lines, from + head + lines, bytes - head - lines);
}

}  // namespace

bool supported(CopyPath path) {
#if defined(__x86_64__)
  if (path == CopyPath::avx512) return __builtin_cpu_supports("avx512f") != 0;
  if (path == CopyPath::avx2) return __builtin_cpu_supports("avx2") != 0;
#endif
  return path == CopyPath::plain;
}

CopyPath best_copy_path() {
  static const CopyPath best = supported(CopyPath::avx512) ? CopyPath::avx512
                               : supported(CopyPath::avx2) ? CopyPath::avx2
                                                           : CopyPath::plain;
  return best;
}

void copy_fragments(std::span<const CopyFragment> fragments, CopyPath path) {
  std::uint64_t bytes = 0;
  for (const CopyFragment& f : fragments) bytes += f.bytes;
  const bool streams = path != CopyPath::plain && bytes >= kStreamBytesMin;
  for (std::size_t i = 0; i < fragments.size(); ++i) {
    const CopyFragment& f = fragments[i];
    if (i + 1 < fragments.size())
      for (std::size_t at = 0; at < std::min<std::size_t>(fragments[i + 1].bytes, kAheadBytes);
           at += kLine)
        prefetch(fragments[i + 1].from + at);
    if (streams && f.bytes >= kStreamFragmentBytesMin)
      stream(f.to, f.from, f.bytes, path);
    else if (f.bytes > 0)
      std::memcpy(f.to, f.from, f.bytes);
  }
  if (streams) end_streaming();
}

CopyThrough::CopyThrough(std::span<std::byte> to, std::span<const std::byte> from,
                         std::uint64_t batch_bytes, CopyPath path)
    : to_(to), from_(from), path_(CopyPath::plain) {
  if (std::max<std::uint64_t>(batch_bytes, from.size()) >= kStreamBytesMin &&
      from.size() >= kStreamFragmentBytesMin)
    path_ = path;
}

CopyThrough::~CopyThrough() {
  if (path_ != CopyPath::plain) end_streaming();
}

std::span<const std::byte> CopyThrough::next() {
  std::size_t bytes = std::min(kPieceBytes, from_.size() - at_);
  if (at_ == 0)  // every further piece begins at a line
    if (const std::size_t head = head_bytes(to_.data()); head != 0)
      bytes = std::min(bytes, kPieceBytes - kLine + head);
  std::memcpy(piece_, from_.data() + at_, bytes);
  if (path_ == CopyPath::plain)
    std::memcpy(to_.data() + at_, piece_, bytes);
  else
    stream(to_.data() + at_, piece_, bytes, path_);
  at_ += bytes;
  return {piece_, bytes};
}

}  // namespace kv_offload
