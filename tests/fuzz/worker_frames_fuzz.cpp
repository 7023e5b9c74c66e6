// What may come over a worker's socket: frames with wrong heads, and payloads that a right checksum stands in front of.
#include "kv_offload/tests/fuzz/promise.hpp"
#include "kv_offload/tiers/workers/wire_messages.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace kv_offload::fuzz {
namespace {

template <class Parse>
void round_trip(std::span<const std::byte> payload, Parse parse) {
  const auto message = parse(payload);
  if (!message) return;
  const auto frame = encode(*message);
  const auto again = parse(std::span<const std::byte>(frame).subspan(kFrameHeadBytes));
  promise(again.has_value(), "an accepted message can be written");
  promise(encode(*again) == frame, "and is read as it was written");
  promise(frame.size() == kFrameHeadBytes + payload.size(),
          "an accepted payload has no byte too many");
}

void check_payload(std::span<const std::byte> payload) {
  round_trip(payload, parse_hello);
  round_trip(payload, parse_welcome);
  round_trip(payload, parse_layout);
  round_trip(payload, parse_ready);
  round_trip(payload, parse_order);
  round_trip(payload, parse_report);
  if (const auto why = parse_why(payload))
    promise(why->size() <= kWireTextBytesMax &&
                std::none_of(why->begin(), why->end(),
                             [](char c) { return static_cast<unsigned char>(c) < 0x20; }),
            "a reason is one line");
}

/// The stream in pieces, all at once, and byte by byte: the same frames.
void check_stream(std::span<const std::byte> bytes) {
  const auto cut = [&](std::size_t piece) {
    FrameCutter cutter;
    std::vector<Frame> frames;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      cutter.add(bytes.subspan(at, std::min(piece, bytes.size() - at)));
      for (;;) {
        auto frame = cutter.next();
        if (!frame) {
          promise(!cutter.next(), "a strange frame is the end of its stream");
          return frames;
        }
        if (!*frame) break;
        promise((*frame)->payload.size() <= kFramePayloadMax, "no frame is longer than allowed");
        frames.push_back(std::move(**frame));
      }
    }
    return frames;
  };
  const auto whole = cut(std::max<std::size_t>(bytes.size(), 1));
  const auto pieces = cut(7);
  promise(whole.size() == pieces.size(), "frames do not depend on how a stream is cut");
  for (std::size_t i = 0; i < whole.size(); ++i) {
    promise(whole[i].type == pieces[i].type && whole[i].payload == pieces[i].payload,
            "nor does what is in them");
    check_payload(whole[i].payload);
  }
}

}  // namespace
}  // namespace kv_offload::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  kv_offload::fuzz::check_stream(bytes);
  if (size > kv_offload::kFrameHeadBytes)
    kv_offload::fuzz::check_payload(bytes.subspan(kv_offload::kFrameHeadBytes));
  kv_offload::fuzz::check_payload(bytes);
  return 0;
}
