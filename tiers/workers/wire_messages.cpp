#include "kv_offload/tiers/workers/wire_messages.hpp"

#include "kv_offload/tiers/byte_codec.hpp"

#include <xxhash.h>

#include <utility>

namespace kv_offload {
namespace {

/// 2: not known.
void write_maybe(ByteWriter& out, std::optional<bool> value) {
  out.number(static_cast<std::uint8_t>(value ? (*value ? 1 : 0) : 2));
}
std::optional<bool> read_maybe(ByteReader& in) {
  const auto value = in.number<std::uint8_t>();
  if (value > 2) in.fail();
  return value == 2 ? std::nullopt : std::optional(value == 1);
}

void write_layout(ByteWriter& out, ChunkLayout layout) {
  out.number(static_cast<std::uint8_t>(layout));
}
ChunkLayout read_layout(ByteReader& in) {
  const auto value = in.number<std::uint8_t>();
  if (value > static_cast<std::uint8_t>(ChunkLayout::canonical)) in.fail();
  return static_cast<ChunkLayout>(value);
}

void write_place(ByteWriter& out, const WorkerPlace& place) {
  out.number(place.rank);
  out.number(place.world_size);
  out.number(place.blocks_per_chunk);
  write_layout(out, place.layout);
}
WorkerPlace read_place(ByteReader& in) {
  WorkerPlace place;
  place.rank = in.number<std::uint32_t>();
  place.world_size = in.number<std::uint32_t>();
  place.blocks_per_chunk = in.number<std::uint32_t>();
  place.layout = read_layout(in);
  return place;
}

constexpr std::size_t kRunBytes = 48;
constexpr std::size_t kRefBytesMin = 4 + 4 + 2 + 8 + 1;

void write_mapping(ByteWriter& out, const PageMapping& mapping) {
  out.number(mapping.canonical_page_bytes);
  out.number(mapping.num_writers);
  out.number(mapping.writer);
  out.flag(mapping.parallelism_agnostic);
  out.number(static_cast<std::uint32_t>(mapping.runs.size()));
  for (const auto& run : mapping.runs)
    for (const auto value : {run.local_offset, run.canonical_offset, run.fragment_bytes, run.count,
                             run.local_stride, run.canonical_stride})
      out.number(value);
}
PageMapping read_mapping(ByteReader& in) {
  PageMapping mapping;
  mapping.canonical_page_bytes = in.number<std::uint64_t>();
  mapping.num_writers = in.number<std::uint32_t>();
  mapping.writer = in.number<std::uint32_t>();
  mapping.parallelism_agnostic = in.flag();
  mapping.runs.resize(in.count(kRunBytes));
  for (auto& run : mapping.runs)
    for (auto* value : {&run.local_offset, &run.canonical_offset, &run.fragment_bytes, &run.count,
                        &run.local_stride, &run.canonical_stride})
      *value = in.number<std::uint64_t>();
  return mapping;
}

std::string printable(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return text;
}

std::vector<std::byte> frame_of(FrameType type, ByteWriter& out) {
  return encode_frame(type, out.bytes());
}

std::vector<std::byte> encode_why(FrameType type, const std::string& why) {
  ByteWriter out;
  out.text(printable(why), kWireTextBytesMax);
  return frame_of(type, out);
}

template <class T>
std::optional<T> whole(ByteReader& in, T& message) {
  if (!in.done()) return std::nullopt;
  return std::move(message);
}

}  // namespace

std::vector<std::byte> encode(const HelloMessage& m) {
  ByteWriter out;
  const auto& e = m.expected;
  out.number(m.rank);
  out.number(e.world_size);
  out.number(e.blocks_per_chunk);
  write_layout(out, e.layout.value_or(ChunkLayout::sharded));
  out.number(e.chunk_bytes);
  out.text(e.engine_id, kEngineIdBytesMax);
  out.text(e.fingerprint, kFingerprintBytesMax);
  out.flag(e.revision.has_value());
  if (e.revision) out.text(*e.revision, kRevisionBytesMax);
  out.number(m.start_ticks);
  return frame_of(FrameType::hello, out);
}
std::optional<HelloMessage> parse_hello(std::span<const std::byte> payload) {
  ByteReader in(payload);
  HelloMessage m;
  auto& e = m.expected;
  m.rank = in.number<std::uint32_t>();
  e.world_size = in.number<std::uint32_t>();
  e.blocks_per_chunk = in.number<std::uint32_t>();
  e.layout = read_layout(in);
  e.chunk_bytes = in.number<std::uint64_t>();
  e.engine_id = in.text(kEngineIdBytesMax);
  e.fingerprint = in.text(kFingerprintBytesMax);
  if (in.flag()) e.revision = in.text(kRevisionBytesMax);
  m.start_ticks = in.number<std::uint64_t>();
  return whole(in, m);
}

std::vector<std::byte> encode(const WelcomeMessage& m) {
  ByteWriter out;
  out.flag(m.is_sealed);
  auto payload = out.take();
  const auto record = encode_record(m.record);
  payload.insert(payload.end(), record.begin(), record.end());
  return encode_frame(FrameType::welcome, payload);
}
std::optional<WelcomeMessage> parse_welcome(std::span<const std::byte> payload) {
  if (payload.empty()) return std::nullopt;
  ByteReader in(payload.first(1));
  WelcomeMessage m;
  m.is_sealed = in.flag();
  auto record = parse_record(payload.subspan(1));
  if (!in.done() || !record) return std::nullopt;
  m.record = std::move(*record);
  return m;
}

std::vector<std::byte> encode(const RefusalMessage& m) {
  return encode_why(FrameType::refusal, m.why);
}
std::vector<std::byte> encode(const GoodbyeMessage& m) {
  return encode_why(FrameType::goodbye, m.why);
}
std::vector<std::byte> encode(const EndMessage& m) { return encode_why(FrameType::end, m.why); }
std::optional<std::string> parse_why(std::span<const std::byte> payload) {
  ByteReader in(payload);
  auto why = printable(in.text(kWireTextBytesMax));
  return whole(in, why);
}

std::vector<std::byte> encode(const LayoutMessage& m) {
  ByteWriter out;
  const auto& l = m.layout;
  write_place(out, l.place);
  out.number(l.chunk_bytes);
  out.numbers(l.page_bytes);
  out.number(static_cast<std::uint32_t>(l.refs.size()));
  for (const auto& ref : l.refs) {
    out.number(ref.group);
    out.number(ref.tensor);
    out.text(ref.layer, kWireNameBytesMax);
    out.number(ref.page_bytes);
    out.flag(ref.mapping.has_value());
    if (ref.mapping) write_mapping(out, *ref.mapping);
  }
  out.number(m.region_bytes);
  out.number(m.registered_bytes);
  write_maybe(out, m.portable);
  return frame_of(FrameType::layout, out);
}
std::optional<LayoutMessage> parse_layout(std::span<const std::byte> payload) {
  ByteReader in(payload);
  LayoutMessage m;
  auto& l = m.layout;
  l.place = read_place(in);
  l.chunk_bytes = in.number<std::uint64_t>();
  l.page_bytes = in.numbers<std::uint64_t>();
  l.refs.resize(in.count(kRefBytesMin));
  for (auto& ref : l.refs) {
    ref.group = in.number<std::uint32_t>();
    ref.tensor = in.number<std::uint32_t>();
    ref.layer = in.text(kWireNameBytesMax);
    ref.page_bytes = in.number<std::uint64_t>();
    if (in.flag()) ref.mapping = read_mapping(in);
    if (!in.ok()) break;
  }
  m.region_bytes = in.number<std::uint64_t>();
  m.registered_bytes = in.number<std::uint64_t>();
  m.portable = read_maybe(in);
  return whole(in, m);
}

std::vector<std::byte> encode(const ReadyMessage& m) {
  ByteWriter out;
  write_maybe(out, m.all_portable);
  return frame_of(FrameType::ready, out);
}
std::optional<ReadyMessage> parse_ready(std::span<const std::byte> payload) {
  ByteReader in(payload);
  ReadyMessage m;
  m.all_portable = read_maybe(in);
  return whole(in, m);
}

std::vector<std::byte> encode(const OrderMessage& m) {
  ByteWriter out;
  out.number(m.id);
  out.flag(m.is_load);
  out.numbers(m.blocks.block_ids);
  out.numbers(m.blocks.group_sizes);
  out.numbers(m.blocks.first_blocks);
  out.numbers(m.chunk_ids);
  return frame_of(FrameType::order, out);
}
std::optional<OrderMessage> parse_order(std::span<const std::byte> payload) {
  ByteReader in(payload);
  OrderMessage m;
  m.id = in.number<std::uint64_t>();
  m.is_load = in.flag();
  m.blocks.block_ids = in.numbers<std::uint32_t>();
  m.blocks.group_sizes = in.numbers<std::uint32_t>();
  m.blocks.first_blocks = in.numbers<std::uint32_t>();
  m.chunk_ids = in.numbers<ChunkId>();
  return whole(in, m);
}

std::uint64_t mark_of_rows(std::span<const ChunkId> chunk_ids) {
  return XXH3_64bits(chunk_ids.data(), chunk_ids.size_bytes());
}

std::vector<std::byte> encode(const ReportMessage& m) {
  ByteWriter out;
  out.number(m.id);
  out.flag(m.is_load);
  out.flag(m.success);
  out.number(m.bytes);
  out.number(static_cast<std::int64_t>(m.time.count()));
  out.text(printable(m.error), kWireTextBytesMax);
  out.number(m.rows);
  return frame_of(FrameType::report, out);
}
std::optional<ReportMessage> parse_report(std::span<const std::byte> payload) {
  ByteReader in(payload);
  ReportMessage m;
  m.id = in.number<std::uint64_t>();
  m.is_load = in.flag();
  m.success = in.flag();
  m.bytes = in.number<std::uint64_t>();
  m.time = Duration(in.number<std::int64_t>());
  m.error = printable(in.text(kWireTextBytesMax));
  m.rows = in.number<std::uint64_t>();
  if (m.time < Duration::zero()) in.fail();
  return whole(in, m);
}

}  // namespace kv_offload
