#include "kv_offload/tiers/workers/wire_messages.hpp"
#include "kv_offload/tiers/workers/wire_socket.hpp"

#include <catch2/catch.hpp>

#include <cstring>
#include <random>
#include <sys/socket.h>
#include <unistd.h>

namespace kv_offload::test {
namespace {

std::vector<std::byte> payload_of(const std::vector<std::byte>& frame) {
  return {frame.begin() + kFrameHeadBytes, frame.end()};
}

LayoutMessage a_layout() {
  LayoutMessage m;
  m.layout.place = {1, 4, 16, ChunkLayout::canonical};
  m.layout.chunk_bytes = 1 << 20;
  m.layout.page_bytes = {4096, 8192};
  RankLayout::Ref ref;
  ref.group = 1;
  ref.tensor = 1;
  ref.layer = "model.layers.0";
  ref.page_bytes = 4096;
  ref.mapping =
      PageMapping{16384, {{0, 4096, 128, 32, 128, 512}, {4096, 0, 64, 1, 0, 0}}, 2, 1, false};
  m.layout.refs.push_back(ref);
  ref.mapping.reset();
  m.layout.refs.push_back(ref);
  m.region_bytes = 1 << 30;
  m.registered_bytes = 77;
  m.portable = false;
  return m;
}

TEST_CASE("every message is read as it was written", "[workers]") {
  HelloMessage hello{3, {"engine", 0, 4, 2, ChunkLayout::replicated, "print", "rev"}, 99};
  auto h = parse_hello(payload_of(encode(hello)));
  REQUIRE(h);
  CHECK(h->rank == 3);
  CHECK(h->expected.revision == "rev");
  CHECK(h->expected.layout == ChunkLayout::replicated);
  CHECK(h->start_ticks == 99);
  CHECK(encode(*h) == encode(hello));
  hello.expected.revision.reset();
  CHECK_FALSE(parse_hello(payload_of(encode(hello)))->expected.revision);

  RegionRecord record;
  record.engine_id = "e";
  record.num_chunks = 1;
  record.chunk_bytes = record.row_bytes = 4096;
  const auto w = parse_welcome(payload_of(encode(WelcomeMessage{record, false})));
  REQUIRE(w);
  CHECK_FALSE(w->is_sealed);
  CHECK(encode_record(w->record) == encode_record(record));

  const auto l = parse_layout(payload_of(encode(a_layout())));
  REQUIRE(l);
  CHECK(encode(*l) == encode(a_layout()));
  CHECK(l->layout.refs[0].mapping == a_layout().layout.refs[0].mapping);
  CHECK(l->portable == false);

  const OrderMessage order{77, true, {{1, 2, 3}, {2, 0, 1}, {5, 0, 0}}, {9, 8}};
  const auto o = parse_order(payload_of(encode(order)));
  REQUIRE(o);
  CHECK(o->id == 77);
  CHECK(o->is_load);
  CHECK(o->blocks.block_ids == order.blocks.block_ids);
  CHECK(o->blocks.group_sizes == order.blocks.group_sizes);
  CHECK(o->blocks.first_blocks == order.blocks.first_blocks);
  CHECK(o->chunk_ids == order.chunk_ids);

  const ReportMessage report{5, true, false, 12, Duration(34), "went wrong\nhere"};
  const auto r = parse_report(payload_of(encode(report)));
  REQUIRE(r);
  CHECK(r->bytes == 12);
  CHECK(r->time == Duration(34));
  CHECK(r->error == "went wrong?here");  // one line

  CHECK(parse_why(payload_of(encode(RefusalMessage{"no"}))) == "no");
  CHECK(parse_why(payload_of(encode(GoodbyeMessage{std::string(5000, 'x')})))->size() ==
        kWireTextBytesMax);
  for (const auto portable : {std::optional<bool>(), std::optional(true), std::optional(false)})
    CHECK(parse_ready(payload_of(encode(ReadyMessage{portable})))->all_portable == portable);
}

TEST_CASE("a payload that is cut, or too long, is no message", "[workers]") {
  const auto strict = [](const std::vector<std::byte>& frame, const auto& parse) {
    auto payload = payload_of(frame);
    for (std::size_t size = 0; size < payload.size(); ++size)
      if (parse(std::span<const std::byte>(payload).first(size))) return false;
    payload.push_back(std::byte{0});
    return !parse(payload);
  };
  CHECK(strict(encode(HelloMessage{}), parse_hello));
  CHECK(strict(encode(a_layout()), parse_layout));
  CHECK(strict(encode(OrderMessage{1, false, {{1}, {1}, {0}}, {3}}), parse_order));
  CHECK(strict(encode(ReportMessage{1, false, true, 2, Duration(3), "x"}), parse_report));
  CHECK(strict(encode(ReadyMessage{}), parse_ready));
  CHECK(strict(encode(EndMessage{"why"}), parse_why));
}

TEST_CASE("frames come out of a stream whole, however it is cut", "[workers]") {
  const unsigned seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  std::vector<std::byte> stream;
  for (std::uint32_t i = 0; i < 50; ++i) {
    const auto frame = encode_frame(
        FrameType::order, std::vector<std::byte>(random() % 3000, static_cast<std::byte>(i)));
    stream.insert(stream.end(), frame.begin(), frame.end());
  }
  FrameCutter cutter;
  std::uint32_t seen = 0;
  for (std::size_t at = 0; at < stream.size();) {
    const std::size_t part = std::min<std::size_t>(1 + random() % 2000, stream.size() - at);
    cutter.add(std::span(stream).subspan(at, part));
    at += part;
    for (;;) {
      auto frame = cutter.next();
      REQUIRE(frame);
      if (!*frame) break;
      for (const auto byte : (*frame)->payload) REQUIRE(byte == static_cast<std::byte>(seen));
      ++seen;
    }
  }
  CHECK(seen == 50);
}

TEST_CASE("a strange frame ends a stream, and says what is strange", "[workers]") {
  struct Case {
    std::size_t at;
    std::uint8_t value;
    std::string says;
  };
  const auto c = GENERATE(values<Case>({
      {0, 'X', "does not begin with KVOW"},
      {4, 2, "version 2, expected 1"},
      {6, 0, "type 0 does not exist"},
      {6, 10, "type 10 does not exist"},
      {11, 1, "expected at most 8388608"},  // 16 MiB
      {12, 1, "its reserved bytes are not 0"},
      {16, 0xaa, "its checksum is wrong"},
      {25, 0xaa, "its checksum is wrong"},
  }));
  auto frame = encode(GoodbyeMessage{"so long"});
  frame[c.at] = static_cast<std::byte>(c.value);
  FrameCutter cutter;
  cutter.add(frame);
  const auto next = cutter.next();
  REQUIRE_FALSE(next);
  CHECK(next.error().detail.find(c.says) != std::string::npos);
  CHECK_FALSE(cutter.next());  // for good
}

TEST_CASE("an address is @name or a path, of a length that the system has", "[workers]") {
  CHECK(SocketAddress::parse("@x"));
  CHECK_FALSE(SocketAddress::parse("@x")->is_path());
  CHECK(SocketAddress::parse("/a/b")->is_path());
  CHECK(SocketAddress::parse(std::string(107, 'p')));
  for (const auto& bad : {std::string(), std::string("@"), std::string(108, 'p'),
                          "@" + std::string(107, 'p'), std::string("a\0b", 3)}) {
    const auto parsed = SocketAddress::parse(bad);
    REQUIRE_FALSE(parsed);
    CHECK(parsed.error().detail.find("expected @name or a path of at most 107") !=
          std::string::npos);
  }
}

TEST_CASE("a descriptor goes with its frame, and more than fits is sent piece by piece",
          "[workers]") {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
  WireSocket left{UniqueFd(ends[0])};
  WireSocket right{UniqueFd(ends[1])};
  left.send(encode_frame(FrameType::layout, std::vector<std::byte>(3 << 20, std::byte{7})));
  left.send(std::make_shared<const std::vector<std::byte>>(encode(EndMessage{"x"})), STDIN_FILENO);
  std::size_t frames = 0;
  while (frames < 2) {
    REQUIRE(left.flush());
    REQUIRE(right.receive() == WireSocket::Read::open);
    auto frame = right.next();
    REQUIRE(frame);
    if (!*frame) continue;
    ++frames;
  }
  CHECK(right.descriptors().size() == 1);
  CHECK(left.queued_bytes() == 0);
  left.close();
  CHECK(right.receive() == WireSocket::Read::ended);
}

}  // namespace
}  // namespace kv_offload::test
