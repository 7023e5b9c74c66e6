#pragma once

#include "kv_offload/tests/workers/fleet.hpp"
#include "kv_offload/tiers/device/worker_layout.hpp"
#include "kv_offload/tiers/primary/region_record.hpp"
#include "kv_offload/tiers/workers/wire_messages.hpp"
#include "kv_offload/tiers/workers/wire_socket.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kv_offload::test {

/// A worker that says whatever a test wants said, in this process.
class RawWorker {
 public:
  explicit RawWorker(const std::string& socket) {
    const auto address = SocketAddress::parse(socket);
    int error = 0;
    comes_true([&] {
      auto connected = WireSocket::connect(*address, error);
      if (connected) socket_ = std::move(*connected);
      return connected.has_value();
    });
  }
  WireSocket& socket() { return socket_; }
  void send(std::vector<std::byte> frame) {
    socket_.send(std::move(frame));
    static_cast<void>(socket_.flush());
  }
  void hello(std::uint32_t rank, RegionExpectation expected = {}) {
    if (!expected.layout) expected.layout = ChunkLayout::sharded;
    send(encode(HelloMessage{rank, std::move(expected), mark_of_this_process().start_ticks}));
  }
  /// The next frame; none: the connection has ended.
  std::optional<Frame> hear() {
    std::optional<Frame> heard;
    comes_true([&] {
      auto next = socket_.next();
      if (next && *next) heard = std::move(**next);
      if (heard) return true;
      return socket_.receive() == WireSocket::Read::ended && !(socket_.next() && *socket_.next());
    });
    return heard;
  }
  /// "refusal: …", "ready", … ; "ended".
  std::string hear_text() {
    const auto frame = hear();
    if (!frame) return "ended";
    switch (frame->type) {
      case FrameType::welcome: return "welcome";
      case FrameType::refusal: return "refusal: " + parse_why(frame->payload).value_or("?");
      case FrameType::ready: return "ready";
      case FrameType::order: return "order " + std::to_string(parse_order(frame->payload)->id);
      case FrameType::end: return "end";
      default: return "strange";
    }
  }
  /// One tensor of that many bytes a page.
  static LayoutMessage layout_of(std::uint32_t rank, std::uint32_t world_size,
                                 std::uint64_t page_bytes, const std::string& layer = "layer0") {
    LayoutMessage m;
    m.layout.place = {rank, world_size, 1, ChunkLayout::sharded};
    m.layout.chunk_bytes = page_bytes * world_size;
    m.layout.page_bytes = {page_bytes};
    RankLayout::Ref ref;
    ref.layer = layer;
    ref.page_bytes = page_bytes;
    m.layout.refs.push_back(std::move(ref));
    return m;
  }
  void layout(std::uint32_t rank, std::uint32_t world_size, std::uint64_t page_bytes,
              const std::string& layer = "layer0") {
    send(encode(layout_of(rank, world_size, page_bytes, layer)));
  }
  /// Of a store of `rows`.
  void report(std::uint64_t id, bool success = true, std::uint64_t bytes = 1,
              const std::vector<ChunkId>& rows = {0}) {
    send(encode(
        ReportMessage{id, false, success, bytes, Duration(1), success ? "" : "no", mark_of_rows(rows)}));
  }

 private:
  WireSocket socket_;
};

}  // namespace kv_offload::test
