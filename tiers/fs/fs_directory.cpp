#include "kv_offload/tiers/fs/fs_directory.hpp"

#include "kv_offload/tiers/fs/digest_attribute.hpp"
#include "kv_offload/tiers/fs/small_file.hpp"
#include "kv_offload/tiers/fs/temp_files.hpp"
#include "kv_offload/tiers/io/chunk_transfer.hpp"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <string_view>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

namespace kv_offload {

namespace {

OffloadError system_error(const std::string& what, int error) {
  return {OffloadErrc::io_error, what + ": " + std::strerror(error)};
}

/// A file that has a name only until it is open; nothing can be left behind.
class ScratchFile {
 public:
  ScratchFile(const std::string& directory, int flags) : path_(directory + "/probe") {
    TempNames().append_to(path_, ".probe");
    fd_ = ::open(path_.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | flags, 0600);
    error_ = fd_ < 0 ? errno : 0;
    // Some file systems create the file and refuse O_DIRECT afterwards.
    ::unlink(path_.c_str());
  }
  ~ScratchFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] int error() const { return error_; }

 private:
  std::string path_;
  int fd_ = -1;
  int error_ = 0;
};

std::optional<OffloadError> write_config(const FileMapper& mapper) {
  std::string temp = mapper.config_path();
  TempNames().append_to(temp, ".new");
  const int fd = ::open(temp.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (fd < 0) return system_error(temp, errno);
  const std::string& text = mapper.config_text();
  const ssize_t written = ::write(fd, text.data(), text.size());
  int error = written < 0 ? errno : 0;
  if (error == 0 && static_cast<std::size_t>(written) != text.size()) error = ENOSPC;
  if (::close(fd) != 0 && error == 0) error = errno;
  if (error == 0 && ::rename(temp.c_str(), mapper.config_path().c_str()) != 0) error = errno;
  if (error == 0) return std::nullopt;
  ::unlink(temp.c_str());
  return system_error(mapper.config_path(), error);
}

/// The directory's name carries 48 bits of the identity's digest; the file has all fields.
std::optional<OffloadError> check_config(const FileMapper& mapper) {
  const auto config = read_small_file(mapper.config_path());
  if (!config) return config.error();
  if (!*config) return write_config(mapper);
  const auto found = nlohmann::json::parse(**config, nullptr, false);
  if (found.is_discarded()) return write_config(mapper);  // left half written by a crash
  if (found == nlohmann::json::parse(mapper.identity_json(), nullptr, false)) return std::nullopt;
  return OffloadError{OffloadErrc::invalid_config,
                      mapper.config_path() +
                          ": describes another namespace than this engine's; expected " +
                          mapper.identity_json()};
}

/// Empty if an aligned direct write works; else why not.
std::string try_direct(const std::string& directory) {
  const ScratchFile file(directory, O_DIRECT);
  if (file.fd() < 0) return std::strerror(file.error());
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  constexpr std::size_t kBytes = ChunkTransfer::kAlignment;
  const std::unique_ptr<void, Free> page(std::aligned_alloc(kBytes, kBytes));
  if (!page) return "out of memory";
  std::memset(page.get(), 0, kBytes);
  if (::pwrite(file.fd(), page.get(), kBytes, 0) != static_cast<ssize_t>(kBytes))
    return std::strerror(errno);
  return {};
}

/// Compares the length of the rows that lie here with ours, or notes ours if nobody did.
std::optional<OffloadError> check_row_bytes(const std::string& directory, std::uint64_t row_bytes) {
  const std::string ours = std::to_string(row_bytes);
  if (::setxattr(directory.c_str(), kRowBytesAttribute, ours.data(), ours.size(), XATTR_CREATE) ==
      0)
    return std::nullopt;
  if (errno != EEXIST) return system_error(directory + ": " + kRowBytesAttribute, errno);
  char text[32] = {};
  const auto size = ::getxattr(directory.c_str(), kRowBytesAttribute, text, sizeof text - 1);
  if (size >= 0 && ours == text) return std::nullopt;
  return OffloadError{OffloadErrc::invalid_config,
                      directory + ": holds chunks of " + std::string(size > 0 ? text : "unknown") +
                          " bytes, but a row here has " + ours +
                          "; use the same chunk_bytes, another root_dir or another identity"};
}

}  // namespace

std::optional<OffloadError> check_root_dir(const std::string& root_dir) {
  const std::string what = "root_dir " + root_dir;
  struct stat info {};
  if (::stat(root_dir.c_str(), &info) != 0) return system_error(what, errno);
  if (!S_ISDIR(info.st_mode)) return system_error(what, ENOTDIR);
  if (::access(root_dir.c_str(), R_OK | W_OK | X_OK) != 0) return system_error(what, errno);
  return std::nullopt;
}

Expected<FsDirectory> open_fs_directory(const FileMapper& mapper, bool needs_attributes,
                                        std::uint64_t row_bytes) {
  for (const std::string* dir : {&mapper.base_dir(), &mapper.chunk_dir()})
    if (::mkdir(dir->c_str(), 0700) != 0 && errno != EEXIST) return system_error(*dir, errno);
  if (auto error = check_config(mapper)) return *error;

  if (needs_attributes) {
    const ScratchFile file(mapper.chunk_dir(), 0);
    if (file.fd() < 0) return system_error(mapper.chunk_dir(), file.error());
    const int error = write_digest_attribute(file.fd(), ChunkDigest{});
    if (error == ENOTSUP || error == EPERM)
      return {OffloadErrc::unsupported,
              mapper.chunk_dir() + ": this file system has no user attributes (" +
                  kDigestAttribute +
                  "), so bytes cannot be verified; use another directory, or checksum: off to run "
                  "without verification"};
    if (error != 0) return system_error(mapper.chunk_dir() + ": " + kDigestAttribute, error);
    if (auto other = check_row_bytes(mapper.chunk_dir(), row_bytes)) return *other;
  }
  FsDirectory directory;
  directory.why_not_direct = try_direct(mapper.chunk_dir());
  directory.is_direct = directory.why_not_direct.empty();
  return directory;
}

}  // namespace kv_offload
