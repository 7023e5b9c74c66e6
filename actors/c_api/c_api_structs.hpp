#pragma once

// Structs that say how long they are.
#include "kv_offload/actors/c_api/c_api_entry.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

namespace kv_offload::c_api {

/// Beyond this no struct of ours will grow: a larger struct_size was never set.
inline constexpr std::size_t kLargestStruct = 4096;

/// Length in the ABI that brought it, the least that a caller can have. Numbers, not sizeof: structs grow, these stay.
template <class S>
inline constexpr std::size_t kFirstSize = 0;
template <> inline constexpr std::size_t kFirstSize<kvo_start_options> = 40;
template <> inline constexpr std::size_t kFirstSize<kvo_request_options> = 40;
template <> inline constexpr std::size_t kFirstSize<kvo_request_summary> = 72;
template <> inline constexpr std::size_t kFirstSize<kvo_lookup_options> = 32;
template <> inline constexpr std::size_t kFirstSize<kvo_lookup_answer> = 64;
template <> inline constexpr std::size_t kFirstSize<kvo_store_options> = 24;
template <> inline constexpr std::size_t kFirstSize<kvo_store_plan> = 32;
template <> inline constexpr std::size_t kFirstSize<kvo_store_outcome> = 32;
template <> inline constexpr std::size_t kFirstSize<kvo_load_plan> = 24;
template <> inline constexpr std::size_t kFirstSize<kvo_forget_summary> = 32;
template <> inline constexpr std::size_t kFirstSize<kvo_rows> = 40;
template <> inline constexpr std::size_t kFirstSize<kvo_blocks> = 48;
template <> inline constexpr std::size_t kFirstSize<kvo_copy_options> = 24;
template <> inline constexpr std::size_t kFirstSize<kvo_worker_options> = 136;
template <> inline constexpr std::size_t kFirstSize<kvo_prefetch_options> = 40;

template <class S>
int check_size(const S& given, const char* name) {
  static_assert(kFirstSize<S> != 0 && sizeof(S) >= kFirstSize<S>);
  if (given.struct_size >= kFirstSize<S> && given.struct_size <= kLargestStruct) return KVO_OK;
  return not_allowed((std::string(name) + ".struct_size").c_str(), std::to_string(given.struct_size),
                     "sizeof (" + std::to_string(sizeof(S)) + ")");
}

/// Copies what both sides know; the rest of `known` stays zero. NULL is all zero.
template <class S>
int read_struct(const S* given, const char* name, S& known) {
  known = S{};
  if (given == nullptr) return KVO_OK;
  if (const int wrong = check_size(*given, name)) return wrong;
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  const auto size = given->struct_size;
  for (auto i = sizeof(S); i < size; ++i)
    if (bytes[i] != 0)
      return fail(KVO_UNSUPPORTED, std::string(name) + ": a field is set that this library does not know; it is version " +
                                       kvo_version());
  std::memcpy(&known, bytes, std::min(size, sizeof(S)));
  return KVO_OK;
}

/// Where an answer goes: checked before the call does anything, written at its end. NULL takes none.
template <class S>
class OutStruct {
 public:
  OutStruct(S* given, const char* name) : given_(given) {
    if (given_ == nullptr) return;
    wrong_ = check_size(*given_, name);
    size_ = given_->struct_size;
  }
  [[nodiscard]] int wrong() const { return wrong_; }
  void write(S value) const {
    if (given_ == nullptr) return;
    value.struct_size = size_;
    std::memcpy(static_cast<void*>(given_), &value, std::min(size_, sizeof(S)));
    if (size_ > sizeof(S)) std::memset(reinterpret_cast<unsigned char*>(given_) + sizeof(S), 0, size_ - sizeof(S));
  }

 private:
  S* given_;
  std::size_t size_ = 0;
  int wrong_ = KVO_OK;
};

/// Refuses flags that this library does not know.
inline int check_flags(const char* name, std::uint32_t flags, std::uint32_t known) {
  if ((flags & ~known) == 0) return KVO_OK;
  return fail(KVO_UNSUPPORTED, std::string(name) + ": " + std::to_string(flags & ~known) +
                                   " is no flag that this library knows; it is version " + kvo_version());
}

}  // namespace kv_offload::c_api
