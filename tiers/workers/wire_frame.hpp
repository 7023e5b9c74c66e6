#pragma once

#include "kv_offload/messages/expected.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace kv_offload {

/// What two ends say to each other; README.md has who says what, and when.
enum class FrameType : std::uint16_t {
  hello = 1,
  welcome,
  refusal,
  layout,
  ready,
  order,
  report,
  goodbye,
  end,
};

inline constexpr std::size_t kFrameHeadBytes = 24;
inline constexpr std::size_t kFramePayloadMax = 8U << 20;

struct Frame {
  FrameType type = FrameType::hello;
  std::vector<std::byte> payload = {};
};

/// Head and payload, as they go over the stream. At most kFramePayloadMax: the caller has looked.
[[nodiscard]] std::vector<std::byte> encode_frame(FrameType type,
                                                  std::span<const std::byte> payload);

/// Cuts a stream into frames. Holds one frame at most, and what was read behind it.
class FrameCutter {
 public:
  void add(std::span<const std::byte> bytes);
  /// The next whole frame, or none yet. The error is for good: nobody knows where the next frame would begin.
  Expected<std::optional<Frame>> next();

 private:
  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0;
};

}  // namespace kv_offload
