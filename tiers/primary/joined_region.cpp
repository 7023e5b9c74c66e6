#include "kv_offload/tiers/primary/joined_region.hpp"

#include "kv_offload/tiers/primary/region_file.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <new>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace kv_offload {
namespace {

constexpr Duration kLookEvery = std::chrono::milliseconds(5);
/// A page that its owner changes while it is read is right at the second look.
constexpr int kLooksMax = 3;

OffloadError bad(std::string what) {
  return {OffloadErrc::invalid_argument, "region: " + std::move(what)};
}

using Page = std::array<std::byte, kRegionHeaderBytes>;

/// False if there is not as much; errno is 0 then.
bool read_page(int fd, Page& page) {
  errno = 0;
  return ::pread(fd, page.data(), page.size(), 0) == static_cast<ssize_t>(page.size());
}

Expected<RegionHeader> read_header(int fd) {
  Page page;
  Expected<RegionHeader> header = bad("not read");
  for (int look = 0; look < kLooksMax && !header; ++look) {
    if (!read_page(fd, page))
      return bad(errno != 0 ? std::string("its first page: ") + std::strerror(errno)
                            : "is shorter than its first page");
    header = parse_header(page);
  }
  return header;
}

std::optional<OffloadError> check_rank(std::uint32_t rank, std::uint32_t world_size) {
  if (rank < world_size) return std::nullopt;
  return bad("rank: " + std::to_string(rank) + "; expected 0 to " + std::to_string(world_size - 1));
}

std::string text_of(const ProcessMark& mark) {
  return "pid " + std::to_string(mark.pid) + " started at " + std::to_string(mark.start_ticks);
}

/// Opens what stands under the path now. Not there, not whole, or its owner dead: no header, and `missing` says what.
struct Found {
  UniqueFd fd;
  std::optional<RegionHeader> header;
  std::string missing;
};

Expected<Found> look(const std::string& path) {
  Found found;
  struct stat named {};
  if (::lstat(path.c_str(), &named) != 0) {
    if (errno != ENOENT) return OffloadError{OffloadErrc::io_error, std::strerror(errno)};
    found.missing = "it is not there";
    return found;
  }
  if (!S_ISREG(named.st_mode) || named.st_uid != ::geteuid())
    return bad("is no regular file of this user");
  found.fd.reset(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!found.fd) {
    if (errno != ENOENT) return OffloadError{OffloadErrc::io_error, std::strerror(errno)};
    found.missing = "it is not there";
    return found;
  }
  if (named.st_size == 0) {
    found.missing = "it is empty";
    return found;
  }
  auto header = read_header(found.fd.get());
  if (!header) return header.error();
  if (!region_owner_lives(found.fd.get()))
    found.missing =
        header->record ? "its owner, pid " + std::to_string(header->record->owner.pid) + ", is dead"
                       : "its owner is dead";
  else if (!header->ready)
    found.missing = "its owner is still making it";
  found.header = std::move(*header);
  return found;
}

}  // namespace

Expected<std::unique_ptr<JoinedRegion>> JoinedRegion::map(int fd, const RegionHeader& header,
                                                          bool is_sealed, const Who& who) {
  const RegionRecord& record = *header.record;
  if (auto error = check_expectation(record, who.expected)) return *error;
  if (auto error = check_rank(who.rank, record.world_size)) return *error;
  if (auto size = check_shared_size(fd, header.file_bytes, is_sealed); !size) return size.error();
  std::unique_ptr<JoinedRegion> region(new (std::nothrow) JoinedRegion);
  if (region == nullptr) return {OffloadErrc::io_error, "region: no memory"};
  region->mapping_ = map_region(fd, header.file_bytes);
  if (region->mapping_.base() == nullptr)
    return {OffloadErrc::io_error,
            std::string("region: could not be mapped: ") + std::strerror(errno)};
  region->rank_ = who.rank;
  region->record_ = record;
  region->rows_ = region->mapping_.base() + kRegionRowsOffset;
  return region;
}

Expected<std::unique_ptr<JoinedRegion>> JoinedRegion::adopt(Handed handed, const Who& who) {
  auto header = read_header(handed.fd.get());
  if (!header) return header.error();
  if (!header->ready) return bad("is not ready");
  const RegionRecord& found = *header->record;
  const RegionRecord& sent = handed.record;
  if (found.owner != sent.owner)
    return bad("owner: found " + text_of(found.owner) + ", expected " + text_of(sent.owner));
  RegionExpectation same{sent.engine_id, sent.chunk_bytes, sent.world_size, sent.blocks_per_chunk,
                         sent.layout,    sent.fingerprint, std::nullopt};
  if (auto error = check_expectation(found, same)) return *error;
  if (found.num_chunks != sent.num_chunks)
    return bad("num_chunks: found " + std::to_string(found.num_chunks) + ", expected " +
               std::to_string(sent.num_chunks));
  return map(handed.fd.get(), *header, handed.is_sealed, who);
}

Expected<std::unique_ptr<JoinedRegion>> JoinedRegion::find(const Named& named, const Who& who) {
  const auto now = [&] { return named.now ? named.now() : std::chrono::steady_clock::now(); };
  const auto deadline = now() + named.patience;
  const std::string at = "region file " + named.path + ": ";
  for (;;) {
    auto found = look(named.path);
    if (!found) return {found.error().code, at + found.error().detail};
    // Of another engine: said at once, and of a dead one it may be this engine's next file that is waited for.
    if (found->header && found->header->record && region_owner_lives(found->fd.get()))
      if (auto error = check_expectation(*found->header->record, who.expected))
        return {error->code, at + error->detail};
    if (found->missing.empty()) {
      if (auto error = check_rank(who.rank, found->header->record->world_size))
        return {error->code, at + error->detail};
      if (const int e = lock_region_rank(found->fd.get(), who.rank); e == EAGAIN)
        return {OffloadErrc::busy,
                at + "rank " + std::to_string(who.rank) + " is held by another process"};
      else if (e != 0)
        return {OffloadErrc::io_error, at + "the lock of its rank: " + std::strerror(e)};
      auto region = map(found->fd.get(), *found->header, false, who);
      if (!region) return {region.error().code, at + region.error().detail};
      (*region)->path_ = named.path;
      (*region)->file_ = std::move(found->fd);
      return region;
    }
    if (now() >= deadline)
      return {OffloadErrc::deadline,
              at + "no region of a living engine in time: " + found->missing};
    found = Found{};  // with its descriptor
    if (named.wait) {
      if (!named.wait(kLookEvery)) return {OffloadErrc::aborted, at + "given up"};
    } else {
      std::this_thread::sleep_for(kLookEvery);
    }
  }
}

JoinedRegion::~JoinedRegion() = default;

PrimaryView JoinedRegion::view() const {
  return {rows_, record_.row_bytes, record_.chunk_bytes, record_.num_chunks, nullptr};
}

Expected<Ok> JoinedRegion::populate(std::uint64_t slot_offset, std::uint64_t slot_bytes,
                                    Madvise advise) {
  if (slot_bytes > record_.row_bytes || slot_offset > record_.row_bytes - slot_bytes)
    return bad("slot: " + std::to_string(slot_bytes) + " bytes at " + std::to_string(slot_offset) +
               " are not in a row of " + std::to_string(record_.row_bytes));
  if (const int e = touch_slots(
          rows_, {record_.row_bytes, record_.num_chunks, slot_offset, slot_bytes}, advise);
      e != 0)
    return {OffloadErrc::io_error,
            std::string("region: slots could not be made resident: ") + std::strerror(e)};
  if (mark_joined(mapping_.base(), rank_, record_.world_size) && !path_.empty())
    remove_name_of(path_, file_.get());
  return Ok{};
}

}  // namespace kv_offload
