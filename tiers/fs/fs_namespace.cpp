#include "kv_offload/tiers/fs/fs_namespace.hpp"

#include "kv_offload/tiers/fs/fs_config.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace kv_offload {

namespace {

/// Fills the index from the record. An error leaves it filled with what makes no sense.
Expected<Ok> fill(FsNamespace& ns, ResidencyReader& reader, const FsNamespaceWanted& wanted,
                  bool unverified) {
  ResidencyEntry entry;
  while (reader.next(entry)) {
    const std::uint64_t use = std::min(entry.last_use, wanted.now_us);
    if (entry.is_quarantined) {
      ns.set_aside.push_back({entry.key, entry.bytes});
      ns.set_aside_bytes += entry.bytes;
    } else if (ns.residency->find(entry.key) == kNoChunk) {
      ns.residency->insert_cold(entry.key, entry.bytes, use, unverified);
    }
  }
  if (!reader.is_sound()) return {OffloadErrc::io_error, ns.record_path() + ": is damaged"};
  return Ok{};
}

}  // namespace

ResidencyHeader FsNamespace::header() const {
  ResidencyHeader header;
  header.fingerprint = residency_fingerprint(mapper.digest_namespace());
  header.row_bytes = row_bytes;
  return header;
}

std::vector<ResidencyEntry> FsNamespace::set_aside_entries() const {
  std::vector<ResidencyEntry> entries;
  for (const SetAside& file : set_aside) entries.push_back({file.key, file.bytes, 0, true});
  return entries;
}

std::size_t leaving_max(std::uint64_t capacity_bytes, std::uint64_t row_bytes) {
  return std::clamp<std::uint64_t>(capacity_bytes / row_bytes / 8, 4, 64);
}

Expected<std::unique_ptr<FsNamespace>> open_fs_namespace(
    const FileMapper& mapper, const std::string& revision, const FsNamespaceWanted& wanted,
    std::vector<std::string>& revisions, const std::function<void(const std::string&)>& log) {
  const std::uint64_t fitting =
      std::max<std::uint64_t>(wanted.capacity_bytes / wanted.row_bytes, 1);
  if (fitting > kFsChunksMax)
    return {OffloadErrc::invalid_config,
            "capacity_bytes: " + std::to_string(wanted.capacity_bytes) + " is room for " +
                std::to_string(fitting) + " chunks of " + std::to_string(wanted.row_bytes) +
                " bytes; expected at most " + std::to_string(kFsChunksMax)};
  auto ns = std::make_unique<FsNamespace>(mapper);
  ns->revision = revision;
  ns->row_bytes = wanted.row_bytes;
  const bool has_others = RunMarker::find_others(mapper.chunk_dir());
  const auto make_index = [&](std::uint64_t known) -> Expected<Ok> {
    ns->chunks_max = std::max(fitting, known);
    auto made = FsResidency::make(
        {wanted.policy, static_cast<ChunkId>(ns->chunks_max + leaving_max(wanted.capacity_bytes,
                                                                          wanted.row_bytes))});
    if (!made)
      return {made.error().code, "capacity_bytes: " + std::to_string(wanted.capacity_bytes) +
                                     " is room for " + std::to_string(fitting) +
                                     " chunks: " + made.error().detail};
    ns->residency = std::move(*made);
    ns->set_aside.clear();
    ns->set_aside_bytes = 0;
    return Ok{};
  };

  bool must_walk = true;
  try {
    auto opened = ResidencyReader::open(ns->record_path());
    std::string why_not = opened ? std::string() : opened.error().detail;
    if (opened && *opened) {
      ResidencyReader& reader = **opened;
      const ResidencyHeader ours = ns->header();
      must_walk = has_others || !reader.header().is_clean;
      if (reader.header().fingerprint != ours.fingerprint ||
          reader.header().row_bytes != ours.row_bytes) {
        why_not = ns->record_path() + ": is of another namespace";
      } else if (reader.count() > kFsChunksMax) {
        why_not =
            ns->record_path() + ": names more than " + std::to_string(kFsChunksMax) + " chunks";
      } else {
        if (auto made = make_index(reader.count()); !made) return made.error();
        if (auto filled = fill(*ns, reader, wanted, must_walk); !filled)
          why_not = filled.error().detail;
        else
          revisions = reader.header().revisions;
      }
    }
    if (!why_not.empty()) {
      log(why_not + "; the files themselves are looked at instead");
      must_walk = true;
    }
    if (!ns->residency || !why_not.empty())
      if (auto made = make_index(0); !made) return made.error();
  } catch (const std::bad_alloc&) {
    return {OffloadErrc::no_space, "no memory for the index of " + mapper.chunk_dir()};
  }
  if (must_walk) ns->walk.emplace(mapper.chunk_dir());
  if (const int error = ns->marker.create(mapper.chunk_dir()); error != 0)
    return {OffloadErrc::io_error, mapper.chunk_dir() + ": " + std::strerror(error)};
  return ns;
}

int close_fs_namespace(FsNamespace& ns, const std::vector<std::string>& revisions) {
  ResidencyHeader header = ns.header();
  // A walk that did not end, or another engine: the record is not all there is.
  const bool has_others = ns.marker.has_others(ns.mapper.chunk_dir());
  header.is_clean = !ns.walk && !has_others;
  header.revisions = revisions;
  ResidencyImage image(*ns.residency, header, ns.set_aside_entries());
  const int error = write_residency(image, ns.record_path());
  // The other engine's record will not name our chunks, and has to know that.
  if (error == 0 && has_others) ns.marker.leave();
  if (error == 0) ns.marker.remove();
  return error;
}

}  // namespace kv_offload
