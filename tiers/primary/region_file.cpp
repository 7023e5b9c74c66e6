#include "kv_offload/tiers/primary/region_file.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace kv_offload {
namespace {

constexpr off_t kOwnerByte = 0;
constexpr off_t kRankByte = 64;
/// Others may take the name, or clear it away, between our look and our link: seen once at most in tests.
constexpr int kAttemptsMax = 16;

struct flock byte_lock(off_t at) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = at;
  lock.l_len = 1;
  return lock;
}

int lock_byte(int fd, off_t at) {
  auto lock = byte_lock(at);
  if (::fcntl(fd, F_OFD_SETLK, &lock) == 0) return 0;
  return errno == EACCES ? EAGAIN : errno;
}

std::string proc_path(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

std::string folder_of(const std::string& path) {
  const auto at = path.rfind('/');
  if (at == std::string::npos) return ".";
  return at == 0 ? "/" : path.substr(0, at);
}

std::string whose(const std::array<std::byte, kRegionHeaderBytes>& page) {
  const auto header = parse_header(page);
  if (!header || !header->record) return "an engine that is starting";
  return "engine " + header->record->engine_id + " (pid " +
         std::to_string(header->record->owner.pid) + ")";
}

/// Looks at what is there under `path`: ok if nothing is there any more. `note` says what was removed.
Expected<Ok> clear_the_name(const std::string& path, std::string& note) {
  const std::string at = "region file " + path + ": ";
  struct stat named {};
  if (::lstat(path.c_str(), &named) != 0) {
    if (errno == ENOENT) return Ok{};
    return {OffloadErrc::io_error, at + std::strerror(errno)};
  }
  if (!S_ISREG(named.st_mode) || named.st_uid != ::geteuid())
    return {OffloadErrc::invalid_config,
            at + "is there already and is no regular file of this user; it stays untouched"};
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd) {
    if (errno == ENOENT) return Ok{};
    return {OffloadErrc::io_error, at + "is there already: " + std::strerror(errno)};
  }
  std::array<std::byte, kRegionHeaderBytes> page{};
  if (::pread(fd.get(), page.data(), page.size(), 0) != static_cast<ssize_t>(page.size()) ||
      !looks_like_region(page))
    return {OffloadErrc::invalid_config,
            at + "is there already and is no region; it stays untouched"};
  if (const int e = lock_byte(fd.get(), kOwnerByte); e == EAGAIN)
    return {OffloadErrc::invalid_config, at + "belongs to " + whose(page) + ", which lives"};
  else if (e != 0)
    return {OffloadErrc::io_error, at + "its lock: " + std::strerror(e)};
  // With the lock nobody else clears it away at the same time; if somebody did before, the name is another file's.
  if (remove_name_of(path, fd.get()))
    note = "removed what dead " + whose(page) + " left under its name";
  return Ok{};
}

/// A file of this folder without a name, or -1: not every file system has that.
UniqueFd open_unnamed(const std::string& folder) {
  return UniqueFd(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
}

}  // namespace

Expected<RegionFile> RegionFile::create(const std::string& path, std::uint64_t bytes,
                                        const RegionRecord& record) {
  const std::string at = "region file " + path + ": ";
  const auto failed = [&](const char* what, int error) {
    return OffloadError{error == ENOSPC ? OffloadErrc::no_space : OffloadErrc::io_error,
                        at + what + ": " + std::strerror(error)};
  };
  const std::string folder = folder_of(path);
  struct statvfs space {};
  if (path.empty() || ::statvfs(folder.c_str(), &space) != 0)
    return failed("its folder", path.empty() ? ENOENT : errno);
  RegionFile file;
  for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
    if (auto cleared = clear_the_name(path, file.note_); !cleared) return cleared.error();
    if (::statvfs(folder.c_str(), &space) != 0) return failed("its folder", errno);
    const std::uint64_t free_bytes = static_cast<std::uint64_t>(space.f_bavail) * space.f_frsize;
    if (free_bytes < bytes)
      return {OffloadErrc::no_space, at + "needs " + std::to_string(bytes) +
                                         " bytes, its file system has " +
                                         std::to_string(free_bytes) + " free"};
    file.data_ = open_unnamed(folder);
    const bool unnamed = static_cast<bool>(file.data_);
    if (!unnamed)
      file.data_.reset(::open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
    if (!file.data_) {
      if (errno == EEXIST) continue;
      return failed("cannot be made", errno);
    }
    if (!unnamed) file.path_ = path;  // from here on removed with the object
    ::fchmod(file.data_.get(), 0600);
    file.lock_.reset(::open(proc_path(file.data_.get()).c_str(), O_RDWR | O_CLOEXEC));
    if (!file.lock_) return failed("its lock (is /proc there?)", errno);
    if (const int e = lock_byte(file.lock_.get(), kOwnerByte); e != 0) return failed("its lock", e);
    if (::ftruncate(file.data_.get(), static_cast<off_t>(bytes)) != 0)
      return failed("ftruncate", errno);
    alignas(std::uint64_t) std::array<std::byte, kRegionHeaderBytes> page{};
    begin_header(page.data(), bytes);
    prepare_record(page.data(), record);
    if (::pwrite(file.data_.get(), page.data(), page.size(), 0) !=
        static_cast<ssize_t>(page.size()))
      return failed("its first page", errno);
    if (!unnamed) return file;
    if (::linkat(AT_FDCWD, proc_path(file.data_.get()).c_str(), AT_FDCWD, path.c_str(),
                 AT_SYMLINK_FOLLOW) == 0) {
      file.path_ = path;
      return file;
    }
    if (errno != EEXIST) return failed("its name", errno);
  }
  return {OffloadErrc::busy, at + "others keep taking the name"};
}

RegionFile::~RegionFile() { remove_name(); }

void RegionFile::remove_name() {
  if (!path_.empty() && data_) remove_name_of(path_, data_.get());
  path_.clear();
}

bool region_owner_lives(int fd) {
  auto lock = byte_lock(kOwnerByte);
  return ::fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

int lock_region_rank(int fd, std::uint32_t rank) {
  return lock_byte(fd, kRankByte + static_cast<off_t>(rank));
}

bool remove_name_of(const std::string& path, int fd) {
  struct stat named {};
  struct stat ours {};
  if (::fstat(fd, &ours) != 0 || ::lstat(path.c_str(), &named) != 0) return false;
  if (named.st_dev != ours.st_dev || named.st_ino != ours.st_ino) return false;
  return ::unlink(path.c_str()) == 0;
}

}  // namespace kv_offload
