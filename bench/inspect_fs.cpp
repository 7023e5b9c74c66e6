#include "kv_offload/bench/inspect_fs.hpp"

#include "kv_offload/tiers/fs/chunk_walk.hpp"
#include "kv_offload/tiers/fs/digest_attribute.hpp"
#include "kv_offload/tiers/fs/file_mapper.hpp"
#include "kv_offload/tiers/fs/fs_directory.hpp"
#include "kv_offload/tiers/fs/temp_files.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace kv_offload::bench {
namespace {

namespace fs = std::filesystem;

/// No row is longer.
constexpr std::uint64_t kRowBytesMax = std::uint64_t{4} << 30;

class OpenFile {
 public:
  explicit OpenFile(const std::string& path) : fd_(::open(path.c_str(), kFlags | O_NOATIME)) {
    if (fd_ < 0 && errno == EPERM)  // O_NOATIME is for the owner
      fd_ = ::open(path.c_str(), kFlags);
  }
  ~OpenFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  [[nodiscard]] int fd() const { return fd_; }

 private:
  static constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  int fd_;
};

/// What it reads is not left in the page cache: tiers read past it. 0 or errno; a short file is EIO.
int read_whole(int fd, std::vector<std::byte>& bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n =
        ::pread(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : EIO;
    done += static_cast<std::size_t>(n);
  }
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  return 0;
}

void count(FileCount& files, const struct stat& info) {
  ++files.files;
  files.bytes += static_cast<std::uint64_t>(info.st_size);
  files.allocated += static_cast<std::uint64_t>(info.st_blocks) * 512;
}

/// "model_name m, dtype auto, …": fields of their default kind; the tenant is a secret.
std::string for_people(const std::string& identity_json) {
  const auto fields = nlohmann::json::parse(identity_json, nullptr, false);
  std::string text;
  for (const auto& [key, value] : fields.items()) {
    if (key == "kv_cache_groups" && value.empty()) continue;
    text += (text.empty() ? "" : ", ") + key + " " +
            (key == "tenant"         ? "(set)"
             : value.is_structured() ? std::to_string(value.size())
             : value.is_string()     ? value.get<std::string>()
                                     : value.dump());
  }
  return text;
}

std::uint64_t noted_row_bytes(const std::string& directory) {
  char text[32] = {};
  if (::getxattr(directory.c_str(), kRowBytesAttribute, text, sizeof text - 1) <= 0) return 0;
  return std::strtoull(text, nullptr, 10);
}

/// One directory of chunks.
class NamespaceInspection {
 public:
  NamespaceInspection(const std::string& directory, bool verify, bool purge, FsReport& report,
                      DamageList& damage)
      : directory_(directory), verify_(verify), purge_(purge), all_(report), damage_(damage) {}

  FsNamespaceReport run() {
    report_.directory = fs::path(directory_).filename().string();
    report_.row_bytes = noted_row_bytes(directory_);
    auto mapper = FileMapper::of_directory(directory_);
    if (mapper) {
      report_.identity = for_people(mapper->identity_json());
      digester_.emplace(mapper->digest_namespace());
      mapper_ = std::move(*mapper);
    } else {
      damage_.add(directory_, mapper.error().detail);
    }
    std::error_code error;
    fs::recursive_directory_iterator at(directory_, error), end;
    for (; !error && at != end; at.increment(error)) look_at(at->path());
    // Directories of forgotten chunks may go while we look.
    if (error && error != std::errc::no_such_file_or_directory)
      damage_.add(directory_, error.message());
    return std::move(report_);
  }

 private:
  void look_at(const fs::path& at) {
    const std::string& path = at.native();
    struct stat info {};
    if (::lstat(path.c_str(), &info) != 0) return void(++all_.vanished);
    if (S_ISDIR(info.st_mode)) return;
    if (!S_ISREG(info.st_mode)) return count(report_.other, info);
    if (path.ends_with(".tmp"))
      return count(is_left_over_temp_file(path) ? report_.left_over : report_.being_written, info);
    if (at.parent_path() == directory_) return;  // the tier's own: records and marks
    const auto name =
        parse_chunk_name(at.parent_path().filename().native(), at.filename().native());
    if (!name) return count(report_.other, info);
    if (name->is_quarantined) return take_quarantined(path, info);
    take_chunk(path, info, name->key);
  }

  void take_quarantined(const std::string& path, const struct stat& info) {
    // Where the namespace is unknown, these may be anybody's.
    if (purge_ && mapper_ && ::unlink(path.c_str()) == 0)
      ++report_.purged;
    else
      count(report_.quarantined, info);
  }

  void take_chunk(const std::string& path, const struct stat& info, const OffloadKey& key) {
    const OpenFile file(path);
    if (file.fd() < 0) {
      if (errno == ENOENT) return void(++all_.vanished);
      count(report_.chunks, info);
      return damage_.add(path, std::strerror(errno));
    }
    count(report_.chunks, info);
    const auto size = static_cast<std::uint64_t>(info.st_size);
    ChunkDigest stored;
    const StoredDigest has = read_digest_attribute(file.fd(), stored);
    if (has == StoredDigest::error) return damage_.add(path, std::strerror(errno));
    if (has == StoredDigest::absent) return count(report_.foreign, info);
    if (has == StoredDigest::malformed) return damage_.add(path, "its digest cannot be read");
    const std::uint64_t row_bytes = report_.row_bytes != 0 ? report_.row_bytes : size;
    if (size != row_bytes || size > kRowBytesMax)
      return damage_.add(
          path, "has " + std::to_string(size) + " bytes, a row " + std::to_string(row_bytes));
    if (mapper_ && mapper_->path_of(key) != path)
      return damage_.add(path, "lies where no load looks for it");
    if (!verify_ || !digester_) return;
    bytes_.resize(size);
    if (const int error = read_whole(file.fd(), bytes_); error != 0)
      return damage_.add(path, std::strerror(error));
    if (digester_->digest(key, bytes_) != stored)
      return damage_.add(path, "its bytes do not have its digest");
    ++report_.verified;
  }

  const std::string& directory_;
  const bool verify_;
  const bool purge_;
  FsReport& all_;
  DamageList& damage_;
  FsNamespaceReport report_;
  std::optional<FileMapper> mapper_;
  std::optional<ChunkDigester> digester_;
  std::vector<std::byte> bytes_;
};

/// "<model>_<12 hex digits>_r<rank>"
bool is_chunk_dir(const std::string& name) {
  const auto mark = name.rfind("_r");
  if (mark == std::string::npos || mark < 13 || mark + 2 == name.size()) return false;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto is_hex = [&](char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); };
  const auto at = name.begin() + static_cast<std::ptrdiff_t>(mark);
  return std::all_of(at + 2, name.end(), is_digit) && std::all_of(at - 12, at, is_hex) &&
         name[mark - 13] == '_';
}

}  // namespace

Expected<FsReport> inspect_fs(const std::string& root, bool verify, bool purge,
                              DamageList& damage) {
  std::error_code error;
  std::vector<std::string> directories;
  fs::directory_iterator at(root, error), end;
  std::error_code gone;
  for (; !error && at != end; at.increment(error))
    // No links: what they lead to is not this directory's.
    if (is_chunk_dir(at->path().filename().native()) && fs::is_directory(at->symlink_status(gone)))
      directories.push_back(root + (root.ends_with('/') ? "" : "/") +
                            at->path().filename().native());
  if (error) return {OffloadErrc::io_error, root + ": " + error.message()};
  if (directories.empty())
    return {OffloadErrc::invalid_argument,
            root + ": holds no chunks of a file tier; expected its root_dir, or an extent file"};
  std::sort(directories.begin(), directories.end());
  FsReport report;
  for (const std::string& directory : directories)
    report.namespaces.push_back(
        NamespaceInspection(directory, verify, purge, report, damage).run());
  return report;
}

}  // namespace kv_offload::bench
