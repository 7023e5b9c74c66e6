// The first page of a region, which may be anybody's file: an error is one line, and what is accepted can be mapped.
#include "kv_offload/tests/fuzz/promise.hpp"
#include "kv_offload/tiers/primary/region_record.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace kv_offload::fuzz {
namespace {

bool is_one_line(const std::string& text) {
  return text.size() < 700 &&
         std::none_of(text.begin(), text.end(), [](char c) { return c == '\n' || c == '\0'; });
}

void check_page(std::span<const std::byte> page) {
  const auto header = parse_header(page);
  if (!header) return promise(is_one_line(header.error().detail), "an error is one line");
  promise(looks_like_region(page), "what is accepted begins as a region does");
  promise(!header->ready || header->record, "a region that is ready says whose it is");
  if (!header->record) return;
  const auto& r = *header->record;
  promise(!check_record(r), "an accepted record is a possible one");
  promise(header->file_bytes >= kRegionRowsOffset + r.row_bytes * r.num_chunks,
          "its rows are inside the file");
  const auto again = parse_record(encode_record(r));
  promise(again && encode_record(*again) == encode_record(r), "a record is read as it was written");
  RegionExpectation other;
  other.engine_id = "another";
  if (const auto error = check_expectation(r, other))
    promise(is_one_line(error->detail), "a difference is one line");
}

}  // namespace
}  // namespace kv_offload::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kv_offload;
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  alignas(8) std::array<std::byte, kRegionHeaderBytes> page{};
  if (size > 0) std::memcpy(page.data(), bytes, std::min(size, page.size()));
  fuzz::check_page(page);
  // As a record with a right checksum, too, which damage alone would seldom make.
  if (auto record = parse_record({bytes, size})) {
    begin_header(page.data(), region_file_bytes(record->row_bytes, record->num_chunks, 4096));
    publish_record(page.data(), *record);
    fuzz::promise(parse_header(page).has_value(), "a written page is read");
    fuzz::check_page(page);
  }
  return 0;
}
