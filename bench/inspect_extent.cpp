#include "kv_offload/bench/inspect_extent.hpp"

#include "kv_offload/tiers/extent/extent_file.hpp"
#include "kv_offload/tiers/extent/extent_recovery.hpp"
#include "kv_offload/tiers/extent/extent_volume.hpp"
#include "kv_offload/tiers/extent/row_digester.hpp"
#include "kv_offload/tiers/fs/file_mapper.hpp"
#include "kv_offload/tiers/io/aligned_buffer.hpp"

#include <array>
#include <cstdio>
#include <cstring>
#include <new>
#include <utility>

namespace kv_offload::bench {
namespace {

std::string hex(const std::array<std::uint64_t, 2>& value) {
  std::array<char, 33> text{};
  std::snprintf(text.data(), text.size(), "%016llx%016llx",
                static_cast<unsigned long long>(value[1]),
                static_cast<unsigned long long>(value[0]));
  return text.data();
}

/// Digests of one namespace: one revision of it, and none.
struct Namespaces {
  struct One {
    std::uint64_t tag;
    ChunkDigester digester;
  };
  std::vector<One> all;

  [[nodiscard]] const ChunkDigester* find(std::uint64_t tag) const {
    for (const One& one : all)
      if (one.tag == tag) return &one.digester;
    return nullptr;
  }
};

Expected<Namespaces> namespaces_of(const std::string& path, const Superblock& superblock,
                                   const std::optional<NamespaceIdentity>& given) {
  NamespaceIdentity identity = given.value_or(NamespaceIdentity{});
  if (!given) identity.model_name = superblock.model.data();
  NamespaceIdentity base = identity;
  base.revision.clear();
  Namespaces namespaces;
  for (const NamespaceIdentity* one : {&base, &identity}) {
    const auto mapper = FileMapper::make("/", *one);
    if (!mapper) return mapper.error();
    const std::string text = mapper->digest_namespace();
    if (one == &base && namespace_fingerprint(text) != superblock.fingerprint)
      return {OffloadErrc::invalid_argument,
              path +
                  (given ? ": holds chunks of another namespace than the configuration's (model \""
                         : ": its digests need the namespace, and the default identity is not the "
                           "file's; give the engine's document with --config (model \"") +
                  superblock.model.data() + "\")"};
    namespaces.all.push_back({namespace_tag(text), ChunkDigester(text)});
  }
  return namespaces;
}

class RowCheck {
 public:
  RowCheck(const ExtentVolume& volume, const Namespaces& namespaces, ExtentReport& report,
           DamageList& damage)
      : v_(volume),
        namespaces_(namespaces),
        report_(report),
        damage_(damage),
        table_(volume.geometry.table_bytes),
        row_(volume.geometry.row_bytes) {}

  void run() {
    for (std::uint32_t segment = 0; segment < v_.geometry.num_segments; ++segment)
      if (v_.segments[segment].live > 0) check_segment(segment);
  }

 private:
  std::optional<ChunkRecord> record_of(std::uint32_t slot) const {
    const std::uint32_t segment = v_.geometry.segment_of(slot);
    return v_.codec.parse_record(
        table_.span(ExtentGeometry::record_offset(v_.geometry.place_of(slot)),
                    ExtentGeometry::kRecordBytes),
        slot, v_.segments[segment].generation);
  }

  void check_segment(std::uint32_t segment) {
    const ExtentGeometry& g = v_.geometry;
    if (!read_table(segment)) return damage_.add(name(segment), "its record table cannot be read");
    for (std::uint32_t place = 0; place < g.slots_per_segment; ++place) {
      const std::uint32_t slot = g.slot_of(segment, place);
      if (v_.index.is_used(slot)) check_row(slot);
    }
  }

  bool read_table(std::uint32_t segment) const {
    return v_.file.read(table_.span(), v_.geometry.segment_at(segment)) == 0;
  }

  void check_row(std::uint32_t slot) {
    const auto record = record_of(slot);
    if (!record || record->digest != v_.index.digest(slot)) return void(++report_.changed);
    if (record->digest == kNoDigest) return void(++report_.without_digest);
    const ChunkDigester* digester = namespaces_.find(record->namespace_tag);
    if (digester == nullptr) return void(++report_.other_revisions);
    const int error = v_.file.read(row_.span(), v_.geometry.row_at(slot));
    if (error == 0 && digester->digest(record->key, row_.span()) == record->digest)
      return void(++report_.verified);
    // An engine may have given the segment to others, or wiped the record, since the table was read.
    const std::uint32_t segment = v_.geometry.segment_of(slot);
    if (read_table(segment)) {
      const bool is_same_segment =
          v_.codec.parse_header(segment, table_.span(0, ExtentGeometry::kBlockBytes)) ==
          v_.segments[segment].generation;
      if (!is_same_segment || !record_of(slot)) return void(++report_.changed);
    }
    damage_.add(name(segment) + " row " + std::to_string(v_.geometry.place_of(slot)) + " key " +
                    to_string(record->key),
                error != 0 ? std::strerror(error) : "its bytes do not have its digest");
  }

  static std::string name(std::uint32_t segment) { return "segment " + std::to_string(segment); }

  const ExtentVolume& v_;
  const Namespaces& namespaces_;
  ExtentReport& report_;
  DamageList& damage_;
  AlignedBuffer table_;
  AlignedBuffer row_;
};

}  // namespace

Expected<ExtentReport> inspect_extent(const std::string& path, bool verify,
                                      const std::optional<NamespaceIdentity>& identity,
                                      DamageList& damage) {
  auto file = ExtentFile::open_read_only(path);
  if (!file) return file.error();
  const Superblock superblock = file->superblock();
  Namespaces namespaces;
  if (verify) {
    auto known = namespaces_of(path, superblock, identity);
    if (!known) return known.error();
    namespaces = std::move(*known);
  }
  ExtentReport report;
  report.is_in_use = file->is_in_use();
  report.notes = file->notes();
  if (file->has_damaged_superblock())
    damage.add(path, "one of two superblocks; the next start repairs it");
  try {
    ExtentVolume volume(std::move(*file));
    const ExtentRecovery found = recover(volume);
    report.model = superblock.model.data();
    report.fingerprint = hex(superblock.fingerprint);
    report.capacity_bytes = superblock.capacity_bytes;
    report.row_bytes = superblock.row_bytes;
    report.slots_per_segment = superblock.slots_per_segment;
    report.segments = superblock.num_segments;
    report.free_segments = static_cast<std::uint32_t>(volume.segments.num_free());
    report.unreadable_segments = static_cast<std::uint32_t>(found.unreadable);
    report.chunks = found.chunks;
    report.dead_slots = volume.segments.num_used() - found.chunks;
    report.superseded = found.superseded;
    report.was_clean = found.was_clean;
    if (found.unreadable > 0)
      damage.add(path, std::to_string(found.unreadable) +
                           " segments cannot be read: " + std::strerror(found.error));
    if (verify) RowCheck(volume, namespaces, report, damage).run();
  } catch (const std::bad_alloc&) {
    return {OffloadErrc::no_space, path + ": not enough memory for its index and one row"};
  }
  return report;
}

}  // namespace kv_offload::bench
