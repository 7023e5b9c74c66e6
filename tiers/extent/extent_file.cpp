#include "kv_offload/tiers/extent/extent_file.hpp"

#include "kv_offload/messages/byte_size.hpp"
#include "kv_offload/tiers/io/aligned_buffer.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace kv_offload {

namespace {

constexpr mode_t kFileMode = 0600;
constexpr std::uint64_t kBlock = ExtentGeometry::kBlockBytes;
constexpr std::uint64_t kCopyAt = kBlock;  // the second superblock
/// The kernel ends the ring of a killed process behind its back, and the lock lives until the last write of
/// it is through: some milliseconds after the process is gone. Until then the file is not quiet.
constexpr auto kLockPatience = std::chrono::seconds(2);
constexpr timespec kLockPoll{0, 10'000'000};

}  // namespace

ExtentFile::~ExtentFile() {
  if (fd_ >= 0) ::close(fd_);
}
ExtentFile::ExtentFile(ExtentFile&& other) noexcept { *this = std::move(other); }
ExtentFile& ExtentFile::operator=(ExtentFile&& other) noexcept {
  if (this == &other) return *this;
  if (fd_ >= 0) ::close(fd_);
  path_ = std::move(other.path_);
  fd_ = std::exchange(other.fd_, -1);
  is_new_ = other.is_new_;
  was_created_ = other.was_created_;
  is_direct_ = other.is_direct_;
  geometry_ = other.geometry_;
  superblock_ = other.superblock_;
  notes_ = std::move(other.notes_);
  has_damaged_superblock_ = other.has_damaged_superblock_;
  return *this;
}

OffloadError ExtentFile::failed(const std::string& what, int error) const {
  return {OffloadErrc::io_error,
          "path " + path_ + ": " + (what.empty() ? "" : what + ": ") + std::strerror(error)};
}

Expected<ExtentFile> ExtentFile::open(const Wanted& wanted) {
  ExtentFile file;
  file.path_ = wanted.path;
  const auto geometry =
      ExtentGeometry::make(wanted.capacity_bytes, wanted.segment_bytes, wanted.row_bytes);
  if (!geometry) return geometry.error();
  file.geometry_ = *geometry;
  auto done = file.open_descriptor(wanted);
  if (done) done = file.lock();
  if (done) done = file.try_direct();
  if (done) done = file.adopt(wanted);
  if (done) return file;
  if (file.was_created_) ::unlink(wanted.path.c_str());
  return done.error();
}

/// Without O_DIRECT, which is switched on later: some file systems create the file and then refuse it.
Expected<Ok> ExtentFile::open_descriptor(const Wanted& wanted) {
  struct stat info {};
  if (::stat(path_.c_str(), &info) == 0 && !S_ISREG(info.st_mode))
    return {
        OffloadErrc::invalid_config,
        "path " + path_ + ": is not a regular file; give a file on a file system, it is created"};
  fd_ = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
  if (fd_ < 0 && errno == ENOENT) {
    fd_ = ::open(path_.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, kFileMode);
    was_created_ = fd_ >= 0;
  }
  if (fd_ < 0) return failed("", errno);
  if (!was_created_ || !wanted.sync_name) return Ok{};
  const std::size_t slash = path_.rfind('/');
  const std::string parent = slash == std::string::npos ? "." : path_.substr(0, slash + 1);
  const int directory = ::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return failed("sync of " + parent, errno);
  const int error = ::fsync(directory) == 0 ? 0 : errno;
  ::close(directory);
  if (error != 0) return failed("sync of " + parent, error);
  return Ok{};
}

Expected<Ok> ExtentFile::lock() const {
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  const auto deadline = std::chrono::steady_clock::now() + kLockPatience;
  int error = 0;
  do {
    if (error != 0) ::nanosleep(&kLockPoll, nullptr);
    error = ::fcntl(fd_, F_OFD_SETLK, &whole) == 0 ? 0 : errno;
    if (error == 0) return Ok{};
  } while ((error == EAGAIN || error == EACCES) && std::chrono::steady_clock::now() < deadline);
  if (error == EAGAIN || error == EACCES)
    return {OffloadErrc::io_error,
            "path " + path_ + ": is in use by another engine; each needs a file of its own"};
  return failed("lock", error);
}

Expected<Ok> ExtentFile::try_direct() {
  const int flags = ::fcntl(fd_, F_GETFL);
  if (flags < 0) return failed("", errno);
  int error = ::fcntl(fd_, F_SETFL, flags | O_DIRECT) == 0 ? 0 : errno;
  if (error == 0) {
    const AlignedBuffer block(kBlock);
    if (::pread(fd_, block.data(), kBlock, 0) < 0) error = errno;
  }
  if (error == 0) return Ok{};
  if (error != EINVAL && error != EOPNOTSUPP) return failed("read", error);
  is_direct_ = false;
  if (::fcntl(fd_, F_SETFL, flags & ~O_DIRECT) != 0) return failed("", errno);
  notes_.push_back("buffered I/O: O_DIRECT does not work for " + path_ + " (" +
                   std::strerror(error) + ")");
  return Ok{};
}

Expected<ExtentFile> ExtentFile::open_read_only(const std::string& path) {
  ExtentFile file;
  file.path_ = path;
  // Not blocking: a path may be a pipe that nobody writes to.
  file.fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat info {};
  if (file.fd_ < 0 || ::fstat(file.fd_, &info) != 0) return file.failed("", errno);
  if (!S_ISREG(info.st_mode))
    return {OffloadErrc::invalid_argument, "path " + path + ": is not a regular file"};
  if (auto direct = file.try_direct(); !direct) return direct.error();
  const auto found = file.read_superblocks();
  if (!found) return found.error();
  if (*found == Found::nothing)
    return {OffloadErrc::invalid_argument,
            "path " + path + ": holds nothing, an extent tier has not used it yet"};
  file.has_damaged_superblock_ = *found == Found::one;
  const Superblock& s = file.superblock_;
  const bool is_sound = s.row_bytes > 0 && s.row_bytes % kBlock == 0 && s.slots_per_segment > 0 &&
                        s.row_bytes <= s.capacity_bytes / s.slots_per_segment;
  const auto geometry =
      ExtentGeometry::make(s.capacity_bytes, is_sound ? s.slots_per_segment * s.row_bytes : 0,
                           is_sound ? s.row_bytes : kBlock);
  if (!is_sound || !geometry || geometry->num_segments != s.num_segments ||
      geometry->slots_per_segment != s.slots_per_segment)
    return {OffloadErrc::invalid_argument, "path " + path + ": its superblock makes no sense"};
  file.geometry_ = *geometry;
  if (static_cast<std::uint64_t>(info.st_size) < s.capacity_bytes)
    return {OffloadErrc::invalid_argument,
            "path " + path + ": is truncated, " +
                format_bytes(static_cast<std::uint64_t>(info.st_size)) + " of " +
                format_bytes(s.capacity_bytes)};
  return file;
}

bool ExtentFile::is_in_use() const {
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  return ::fcntl(fd_, F_OFD_GETLK, &whole) == 0 && whole.l_type != F_UNLCK;
}

/// One that is good becomes superblock_; an error if there are only others.
Expected<ExtentFile::Found> ExtentFile::read_superblocks() {
  const AlignedBuffer blocks(2 * kBlock);
  if (const int error = read(blocks.span(), 0); error != 0) return failed("read", error);
  Superblock found[2];
  SuperblockParse parsed[2];
  for (std::size_t i = 0; i < 2; ++i)
    parsed[i] = parse_superblock(blocks.span(i * kBlock, kBlock), found[i]);
  if (parsed[0] == SuperblockParse::zeros && parsed[1] == SuperblockParse::zeros)
    return Found::nothing;

  const auto good = std::find(parsed, parsed + 2, SuperblockParse::ok);
  if (good == parsed + 2) {
    for (std::size_t i = 0; i < 2; ++i)
      if (parsed[i] == SuperblockParse::unknown_version)
        return {OffloadErrc::invalid_config,
                "path " + path_ + ": has format version " + std::to_string(found[i].version) +
                    ", this build reads version " + std::to_string(Superblock::kVersion)};
    const bool is_ours = std::find(parsed, parsed + 2, SuperblockParse::damaged) != parsed + 2;
    return {
        OffloadErrc::invalid_config,
        "path " + path_ + (is_ours ? ": both superblocks are damaged" : ": is not an extent file")};
  }
  superblock_ = found[good - parsed];
  return parsed[0] == parsed[1] ? Found::both : Found::one;
}

/// Takes over what the file holds, or formats it if it holds nothing.
Expected<Ok> ExtentFile::adopt(const Wanted& wanted) {
  const auto found = read_superblocks();
  if (!found)
    return {found.error().code, found.error().detail + "; remove the file or give another path"};
  if (*found == Found::nothing) return format(wanted);
  if (auto same = check_same(wanted); !same) return same;
  if (*found == Found::one) {
    notes_.push_back(path_ + ": one of two superblocks was damaged and is repaired");
    if (auto written = write_superblocks(); !written) return written;
  }
  struct stat info {};
  if (::fstat(fd_, &info) != 0) return failed("", errno);
  const auto length = static_cast<std::uint64_t>(info.st_size);
  if (length < superblock_.capacity_bytes) {
    notes_.push_back(path_ + ": has " + format_bytes(length) + " of " +
                     format_bytes(superblock_.capacity_bytes) +
                     "; what was cut off is lost, the file is extended");
    return reserve_space();
  }
  return Ok{};
}

Expected<Ok> ExtentFile::check_same(const Wanted& wanted) const {
  const auto differs = [&](const std::string& what) {
    return OffloadError{OffloadErrc::invalid_config,
                        "path " + path_ + ": " + what + "; give another path or remove the file"};
  };
  const Superblock& s = superblock_;
  if (s.fingerprint != wanted.fingerprint)
    return differs("holds chunks of another namespace (model \"" + std::string(s.model.data()) +
                   "\", here \"" + wanted.model + "\")");
  if (s.row_bytes != wanted.row_bytes)
    return differs("holds chunks of " + std::to_string(s.row_bytes) +
                   " bytes, but a row here has " + std::to_string(wanted.row_bytes));
  if (s.capacity_bytes != wanted.capacity_bytes)
    return differs("was made with capacity_bytes " + format_bytes(s.capacity_bytes) + ", not " +
                   format_bytes(wanted.capacity_bytes));
  if (s.slots_per_segment != geometry_.slots_per_segment ||
      s.num_segments != geometry_.num_segments)
    return differs("was made with " + std::to_string(s.num_segments) + " segments of " +
                   std::to_string(s.slots_per_segment) + " rows, not " +
                   std::to_string(geometry_.num_segments) + " of " +
                   std::to_string(geometry_.slots_per_segment) + " (segment_bytes)");
  return Ok{};
}

Expected<Ok> ExtentFile::format(const Wanted& wanted) {
  is_new_ = true;
  superblock_ = {};
  superblock_.slots_per_segment = geometry_.slots_per_segment;
  superblock_.num_segments = geometry_.num_segments;
  superblock_.row_bytes = geometry_.row_bytes;
  superblock_.capacity_bytes = geometry_.capacity_bytes;
  superblock_.fingerprint = wanted.fingerprint;
  std::copy_n(wanted.model.begin(), std::min(wanted.model.size(), superblock_.model.size() - 1),
              superblock_.model.begin());
  if (::getrandom(superblock_.file_id.data(), sizeof superblock_.file_id, 0) !=
      static_cast<ssize_t>(sizeof superblock_.file_id))
    return failed("random file id", errno);
  if (auto reserved = reserve_space(); !reserved) return reserved;
  return write_superblocks();
}

Expected<Ok> ExtentFile::reserve_space() {
  const auto length = static_cast<off_t>(superblock_.capacity_bytes);
  int error = 0;
  do {
    error = ::fallocate(fd_, 0, 0, length) == 0 ? 0 : errno;
  } while (error == EINTR);
  const std::string what = "reserving " + format_bytes(superblock_.capacity_bytes);
  if (error == EOPNOTSUPP || error == ENOSYS) {
    notes_.push_back(path_ +
                     ": this file system cannot reserve space; stores fail when it is full");
    error = ::ftruncate(fd_, length) == 0 ? 0 : errno;
  }
  if (error != 0) {
    // Also what a failed reservation took, where the file was there before.
    if (is_new_) (void)!::ftruncate(fd_, 0);
    return failed(what, error);
  }
  return Ok{};
}

Expected<Ok> ExtentFile::write_superblocks() const {
  const AlignedBuffer block(kBlock);
  encode_superblock(superblock_, block.span());
  // The copy first: until the second write the file has at least one whole superblock or none.
  for (const std::uint64_t at : {kCopyAt, std::uint64_t{0}})
    if (const int error = write(block.span(), at); error != 0) return failed("superblock", error);
  if (::fdatasync(fd_) != 0) return failed("superblock", errno);
  return Ok{};
}

int ExtentFile::read(std::span<std::byte> buffer, std::uint64_t offset) const {
  while (!buffer.empty()) {
    const ssize_t n = ::pread(fd_, buffer.data(), buffer.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) break;
    // A direct read ends within a block only at the end of the file.
    const auto moved = static_cast<std::uint64_t>(n) == buffer.size()
                           ? buffer.size()
                           : static_cast<std::uint64_t>(n) / kBlock * kBlock;
    if (moved == 0) {
      buffer = buffer.subspan(static_cast<std::size_t>(n));
      break;
    }
    buffer = buffer.subspan(moved);
    offset += moved;
  }
  std::fill(buffer.begin(), buffer.end(), std::byte{0});
  return 0;
}

int ExtentFile::write(std::span<const std::byte> buffer, std::uint64_t offset) const {
  while (!buffer.empty()) {
    const ssize_t n = ::pwrite(fd_, buffer.data(), buffer.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    const auto moved = static_cast<std::uint64_t>(n) == buffer.size()
                           ? buffer.size()
                           : static_cast<std::uint64_t>(n) / kBlock * kBlock;
    if (moved == 0) return ENOSPC;
    buffer = buffer.subspan(moved);
    offset += moved;
  }
  return 0;
}

}  // namespace kv_offload
