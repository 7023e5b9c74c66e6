#include "kv_offload/tiers/fs/small_file.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace kv_offload {

namespace {

constexpr off_t kBytesMax = off_t{1} << 20;

OffloadError failed(const std::string& path, int error) {
  return {OffloadErrc::io_error, path + ": " + std::strerror(error)};
}

class Descriptor {
 public:
  explicit Descriptor(const std::string& path)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const { return fd_; }

 private:
  const int fd_;
};

}  // namespace

Expected<std::optional<std::string>> read_small_file(const std::string& path) {
  const Descriptor file(path);
  if (file.get() < 0 && errno == ENOENT) return std::optional<std::string>();
  struct stat info {};
  if (file.get() < 0 || ::fstat(file.get(), &info) != 0) return failed(path, errno);
  if (!S_ISREG(info.st_mode))
    return {OffloadErrc::invalid_argument, path + ": is not a regular file"};
  if (info.st_size > kBytesMax)
    return {OffloadErrc::invalid_argument,
            path + ": has " + std::to_string(info.st_size) + " bytes; expected at most 1 MiB"};
  std::string text(static_cast<std::size_t>(info.st_size), '\0');
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::read(file.get(), text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed(path, errno);
    if (n == 0) break;  // it became shorter
    done += static_cast<std::size_t>(n);
  }
  text.resize(done);
  return std::optional(std::move(text));
}

}  // namespace kv_offload
