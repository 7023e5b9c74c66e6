#include "kv_offload/actors/admission_state_file.hpp"

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <fcntl.h>
#include <mutex>
#include <optional>
#include <sys/file.h>
#include <sys/stat.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>

namespace kv_offload {
namespace {

constexpr auto kRetryPeriod = std::chrono::seconds(5);
constexpr mode_t kMode = 0644;

/// A descriptor, closed with its object.
class File {
 public:
  File(const std::string& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC, kMode)) {}
  File(File&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  File& operator=(File&&) = delete;
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] bool is_open() const { return fd_ >= 0; }
  [[nodiscard]] int fd() const { return fd_; }

 private:
  int fd_;
};

std::string reason(int error) { return std::generic_category().message(error); }

OffloadError refused(const std::string& path, const std::string& why) {
  return {OffloadErrc::invalid_config, "admission_state_file: " + path + ": " + why};
}

std::string directory_of(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

bool write_whole(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

/// 0, or errno of the first step that failed. After any end of the process the file is whole: the
/// new text or the one before.
int replace_file(const std::string& path, const std::string& text) {
  const std::string temporary = path + ".tmp";
  {
    const File file(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW);
    if (!file.is_open() || !write_whole(file.fd(), text) || ::fsync(file.fd()) != 0) return errno;
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) return errno;
  const File directory(directory_of(path), O_RDONLY | O_DIRECTORY);
  // Some file systems have no such thing as syncing a directory; the rename is done all the same.
  return directory.is_open() && ::fsync(directory.fd()) != 0 && errno != EINVAL ? errno : 0;
}

Expected<std::string> read_file(const std::string& path) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) {
    if (errno == ENOENT) return std::string();
    return refused(path, "cannot be read: " + reason(errno));
  }
  if (!S_ISREG(facts.st_mode)) return refused(path, "is not a regular file");
  const File file(path, O_RDONLY);
  if (!file.is_open()) return refused(path, "cannot be read: " + reason(errno));
  std::string text(AdmissionStateFile::kBytesMax, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t n = ::read(file.fd(), text.data() + size, text.size() - size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return refused(path, "cannot be read: " + reason(errno));
    if (n == 0) break;
    size += static_cast<std::size_t>(n);
  }
  text.resize(size);
  // No file and an empty one differ: the second had an earlier life, and lost it.
  return text.empty() ? std::string(AdmissionStateFile::kEmpty) : text;
}

}  // namespace

struct AdmissionStateFile::Writer {
  Writer(std::string file, File held, Log out)
      : path(std::move(file)), lock(std::move(held)), log(std::move(out)) {}

  const std::string path;
  std::optional<File> lock;  // flock()ed; given up at the end of run()
  const Log log;
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<std::string> waiting;
  bool ends = false, is_done = false;
  bool is_damaged = false;  // what is there goes aside before anything replaces it
  std::thread thread;

  void run() {
    bool is_failing = false;
    std::unique_lock guard(mutex);
    for (;;) {
      // What could not be written waits for its next try, or for the end.
      if (is_failing) changed.wait_for(guard, kRetryPeriod, [&] { return ends; });
      changed.wait(guard, [&] { return ends || waiting; });
      const bool is_last = ends;
      if (waiting) {
        const std::string text = *std::exchange(waiting, std::nullopt);
        const bool aside = std::exchange(is_damaged, false);
        guard.unlock();
        int error = 0;
        if (aside && ::rename(path.c_str(), AdmissionStateFile::aside(path).c_str()) != 0 &&
            errno != ENOENT)
          error = errno;
        const bool is_still_there = error != 0;
        if (error == 0) error = replace_file(path, text);
        say(error, is_failing, is_last);
        guard.lock();
        is_damaged = is_damaged || is_still_there;
        is_failing = error != 0;
        if (is_failing && !waiting) waiting = text;
      }
      if (is_last) break;
    }
    lock.reset();
    is_done = true;
    changed.notify_all();
  }
  void say(int error, bool was_failing, bool is_last) const {
    if (error != 0 && (!was_failing || is_last))
      log("error", "admission_state_file: " + path + ": cannot be written: " + reason(error) +
                       (is_last ? "; what was written since the last time is forgotten"
                                : "; it is tried again every 5 s"));
    if (error == 0 && was_failing) log("info", "admission_state_file: " + path + ": written again");
  }
};

AdmissionStateFile::AdmissionStateFile(std::shared_ptr<Writer> writer, std::string found)
    : writer_(std::move(writer)), found_(std::move(found)) {}

AdmissionStateFile::~AdmissionStateFile() { close(std::chrono::milliseconds(100)); }

Expected<std::unique_ptr<AdmissionStateFile>> AdmissionStateFile::open(std::string path, Log log) {
  const std::string directory = directory_of(path);
  struct stat facts {};
  if (::stat(directory.c_str(), &facts) != 0)
    return refused(path, "its directory " + directory + " cannot be used: " + reason(errno) +
                             "; create it or name another file");
  // Before anything is made beside it.
  if (::stat(path.c_str(), &facts) == 0 && !S_ISREG(facts.st_mode))
    return refused(path, "is not a regular file");
  File lock(path + ".lock", O_RDWR | O_CREAT | O_NOFOLLOW);
  if (!lock.is_open())
    return refused(path, "cannot be written: " + reason(errno) +
                             "; the engine must be able to create files in " + directory);
  if (::flock(lock.fd(), LOCK_EX | LOCK_NB) != 0)
    return refused(path, errno == EWOULDBLOCK
                             ? "another engine uses it; give each engine a file of its own"
                             : "cannot be locked: " + reason(errno));
  // What a write that did not end left behind, and whether there can be another one.
  const std::string temporary = path + ".tmp";
  const bool was_left = ::unlink(temporary.c_str()) == 0;
  if (!File(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW).is_open())
    return refused(path, "cannot be written: " + temporary + ": " + reason(errno));
  ::unlink(temporary.c_str());
  auto found = read_file(path);
  if (!found) return found.error();
  if (was_left)
    log("info",
        "admission_state_file: " + path + ": a write before did not end; what was there counts");
  auto writer = std::make_shared<Writer>(std::move(path), std::move(lock), std::move(log));
  try {
    writer->thread = std::thread([writer] { writer->run(); });
  } catch (const std::system_error& error) {
    return refused(writer->path, std::string("its thread does not start: ") + error.what());
  }
  return std::unique_ptr<AdmissionStateFile>(
      new AdmissionStateFile(std::move(writer), std::move(*found)));
}

void AdmissionStateFile::keep_aside() {
  const std::scoped_lock lock(writer_->mutex);
  writer_->is_damaged = true;
}

void AdmissionStateFile::keep(std::string text) {
  const std::scoped_lock lock(writer_->mutex);
  writer_->waiting = std::move(text);
  writer_->changed.notify_all();
}

bool AdmissionStateFile::close(Duration patience) {
  if (closed_) return *closed_;
  std::unique_lock lock(writer_->mutex);
  writer_->ends = true;
  writer_->changed.notify_all();
  const auto until = std::chrono::steady_clock::now() + patience;
  const bool in_time = writer_->changed.wait_until(lock, until, [&] { return writer_->is_done; });
  lock.unlock();
  if (in_time)
    writer_->thread.join();
  else
    writer_->thread.detach();
  closed_ = in_time;
  return in_time;
}

}  // namespace kv_offload
