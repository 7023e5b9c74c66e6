#include "kv_offload/tiers/io/fallback_backend.hpp"

namespace kv_offload {

Expected<std::string> FallbackBackend::open() {
  auto first = used_->open();
  if (first || first.error().code != OffloadErrc::unsupported) {
    second_.reset();
    return first;
  }
  used_ = std::move(second_);
  auto second = used_->open();
  if (second && say_) say_(first.error().detail, *second);
  return second;
}

}  // namespace kv_offload
