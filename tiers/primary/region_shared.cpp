#include "kv_offload/tiers/primary/region.hpp"

#include <cerrno>
#include <cstring>
#include <new>
#include <unistd.h>

namespace kv_offload {

Expected<std::unique_ptr<Region>> Region::create_shared(const RegionOptions& options,
                                                        const std::string& asked) {
  const RegionSharing& how = *options.shared;
  RegionRecord record = how.record;
  record.owner = mark_of_this_process();
  record.num_chunks = options.num_chunks;
  record.chunk_bytes = options.chunk_bytes;
  record.row_bytes = row_bytes(options.chunk_bytes);
  if (auto error = check_record(record))
    return OffloadError{OffloadErrc::invalid_config, error->detail};
  if (how.explicit_huge_pages && !how.file.empty())
    return {OffloadErrc::invalid_config, "huge pages: the region file " + how.file +
                                             " cannot have reserved ones; leave its name empty"};
  auto region = std::unique_ptr<Region>(new (std::nothrow) Region);
  if (region == nullptr) return {OffloadErrc::io_error, asked + ": no memory"};

  const auto bytes = region_file_bytes(record.row_bytes, record.num_chunks,
                                       static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)));
  if (how.explicit_huge_pages) {
    // The mapping takes its share of the reserved pages, or fails.
    auto memory = open_shared_memory("kv_offload " + record.engine_id, bytes, true);
    std::string why = memory ? "" : memory.error().detail;
    if (memory) region->mapping_ = map_region(memory->fd.get(), memory->bytes);
    if (region->mapping_.base() != nullptr) {
      region->memory_fd_ = std::move(memory->fd);
      region->page_bytes_ = kHugePageBytes;
    } else if (why.empty()) {
      why = std::string("mmap: ") + std::strerror(errno);
    }
    region->note_ =
        why.empty()
            ? "; shared, in reserved huge pages"
            : "; shared, in ordinary pages: reserved huge pages are not to be had (" + why + ")";
  }
  if (region->mapping_.base() == nullptr) {
    if (auto error = memory_error(options, asked)) return *error;
    if (how.file.empty()) {
      auto memory = open_shared_memory("kv_offload " + record.engine_id, bytes, false);
      if (!memory) return {OffloadErrc::io_error, asked + ": " + memory.error().detail};
      region->memory_fd_ = std::move(memory->fd);
      if (region->note_.empty()) region->note_ = "; shared, in memory without a name";
    } else {
      auto file = RegionFile::create(how.file, bytes, record);
      if (!file) return file.error();
      region->file_.emplace(std::move(*file));
      region->note_ = "; shared, in the file " + how.file;
      if (!region->file_->note().empty()) region->note_ += "; " + region->file_->note();
    }
    region->mapping_ = map_region(region->fd(), bytes);
    if (region->mapping_.base() == nullptr)
      return {OffloadErrc::io_error, asked + " could not be mapped: " + std::strerror(errno)};
  }
  std::byte* const page = region->mapping_.base();
  region->view_ = {page + kRegionRowsOffset, record.row_bytes, record.chunk_bytes,
                   record.num_chunks, nullptr};
  if (auto made = region->make_resident(options, asked); !made) return made.error();
  if (region->file_ == std::nullopt) begin_header(page, region->mapping_.bytes());
  publish_record(page, record);
  region->shared_ = std::move(record);
  return region;
}

int Region::fd() const { return file_ ? file_->fd() : memory_fd_.get(); }

void Region::set_revision(const std::string& revision) {
  if (!shared_ || mapping_.base() == nullptr) return;
  shared_->revision = revision.substr(0, kRevisionBytesMax);
  publish_record(mapping_.base(), *shared_);
}

bool Region::all_joined() const {
  return shared_ && mapping_.base() != nullptr &&
         kv_offload::all_joined({mapping_.base(), kRegionHeaderBytes}, shared_->world_size);
}

void Region::remove_name() {
  if (file_) file_->remove_name();
}

}  // namespace kv_offload
