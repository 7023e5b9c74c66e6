#include "kv_offload/tiers/workers/wire_frame.hpp"

#include "kv_offload/tiers/byte_codec.hpp"

#include <xxhash.h>

#include <string>

namespace kv_offload {
namespace {

constexpr std::uint32_t kMagic = 0x574f564b;  // "KVOW"
constexpr std::uint16_t kVersion = 1;

OffloadError strange(std::string what) {
  return {OffloadErrc::invalid_argument, "a strange frame: " + std::move(what)};
}

}  // namespace

std::vector<std::byte> encode_frame(FrameType type, std::span<const std::byte> payload) {
  ByteWriter out;
  out.number(kMagic);
  out.number(kVersion);
  out.number(static_cast<std::uint16_t>(type));
  out.number(static_cast<std::uint32_t>(payload.size()));
  out.number(std::uint32_t{0});
  out.number(static_cast<std::uint64_t>(XXH3_64bits(payload.data(), payload.size())));
  auto bytes = out.take();
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  return bytes;
}

void FrameCutter::add(std::span<const std::byte> bytes) {
  buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(begin_));
  begin_ = 0;
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

Expected<std::optional<Frame>> FrameCutter::next() {
  const auto left = std::span<const std::byte>(buffer_).subspan(begin_);
  if (left.size() < kFrameHeadBytes) return std::optional<Frame>{};
  ByteReader in(left.first(kFrameHeadBytes));
  if (in.number<std::uint32_t>() != kMagic) return strange("it does not begin with KVOW");
  if (const auto version = in.number<std::uint16_t>(); version != kVersion)
    return strange("version " + std::to_string(version) + ", expected " + std::to_string(kVersion));
  const auto type = in.number<std::uint16_t>();
  if (type < static_cast<std::uint16_t>(FrameType::hello) ||
      type > static_cast<std::uint16_t>(FrameType::end))
    return strange("type " + std::to_string(type) + " does not exist");
  const auto size = in.number<std::uint32_t>();
  if (size > kFramePayloadMax)
    return strange(std::to_string(size) + " bytes, expected at most " +
                   std::to_string(kFramePayloadMax));
  if (in.number<std::uint32_t>() != 0) return strange("its reserved bytes are not 0");
  const auto checksum = in.number<std::uint64_t>();
  if (left.size() - kFrameHeadBytes < size) return std::optional<Frame>{};
  const auto payload = left.subspan(kFrameHeadBytes, size);
  if (XXH3_64bits(payload.data(), payload.size()) != checksum)
    return strange("its checksum is wrong");
  begin_ += kFrameHeadBytes + size;
  return std::optional(Frame{static_cast<FrameType>(type), {payload.begin(), payload.end()}});
}

}  // namespace kv_offload
