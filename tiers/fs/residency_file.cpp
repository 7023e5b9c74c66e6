#include "kv_offload/tiers/fs/residency_file.hpp"

#include "kv_offload/tiers/fs/temp_files.hpp"

#define XXH_STATIC_LINKING_ONLY  // the streaming state, as a member
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace kv_offload {

namespace {

constexpr std::array<char, 8> kMagic{'K', 'V', 'O', 'R', 'E', 'S', '0', '1'};
constexpr std::uint32_t kClean = 1;
constexpr std::size_t kBlock = 4096;
constexpr std::size_t kTrailer = 16;  ///< count, check
constexpr std::uint32_t kRevisionsMax = 1024;
constexpr std::size_t kRevisionBytesMax = 4096;
constexpr std::size_t kReadBytes = 1U << 20;

struct FileHeader {
  std::array<char, 8> magic;
  std::uint32_t flags;
  std::uint32_t num_revisions;
  std::uint64_t fingerprint;
  std::uint64_t row_bytes;
};
static_assert(sizeof(FileHeader) == 32);

struct EntryHeader {
  std::uint8_t key_bytes;  // 0: no more entries
  std::uint8_t is_quarantined;
  std::uint16_t reserved;
  std::uint32_t units;  // of 512 bytes
  std::uint64_t last_use;
};
static_assert(sizeof(EntryHeader) == 16);

/// An entry's least length: a hash of one byte.
constexpr std::size_t kEntryMin = sizeof(EntryHeader) + OffloadKey::kGroupBytes + 1;

}  // namespace

std::uint64_t residency_fingerprint(const std::string& digest_namespace) {
  return XXH3_64bits(digest_namespace.data(), digest_namespace.size());
}

// --- writing --------------------------------------------------------------------------------------

struct ResidencyImage::Check {
  XXH3_state_t state;
};

ResidencyImage::ResidencyImage(const FsResidency& residency, const ResidencyHeader& header,
                               const std::vector<ResidencyEntry>& quarantined)
    : residency_(residency), check_(std::make_unique<Check>()) {
  XXH3_64bits_reset(&check_->state);
  const auto num =
      static_cast<std::uint32_t>(std::min<std::size_t>(header.revisions.size(), kRevisionsMax));
  const FileHeader file{kMagic, header.is_clean ? kClean : 0U, num, header.fingerprint,
                        header.row_bytes};
  put(&file, sizeof file);
  for (std::uint32_t i = 0; i < num; ++i) {
    const std::string& revision = header.revisions[i];
    const auto length = static_cast<std::uint16_t>(std::min(revision.size(), kRevisionBytesMax));
    put(&length, sizeof length);
    put(revision.data(), length);
  }
  for (const ResidencyEntry& entry : quarantined) put(entry);
}

ResidencyImage::~ResidencyImage() = default;

void ResidencyImage::put(const void* data, std::size_t size) {
  const auto* bytes = static_cast<const std::byte*>(data);
  pending_.insert(pending_.end(), bytes, bytes + size);
  XXH3_64bits_update(&check_->state, data, size);
}

void ResidencyImage::put(const ResidencyEntry& entry) {
  const auto key = entry.key.bytes();
  const EntryHeader header{static_cast<std::uint8_t>(key.size()),
                           static_cast<std::uint8_t>(entry.is_quarantined ? 1 : 0), 0,
                           static_cast<std::uint32_t>(entry.bytes / 512), entry.last_use};
  put(&header, sizeof header);
  put(key.data(), key.size());
  ++count_;
}

/// End of the entries, zeros to the end of a block, and the trailer as its last bytes.
void ResidencyImage::finish() {
  is_finished_ = true;
  const EntryHeader end{};
  put(&end, sizeof end);
  const std::uint64_t so_far = written_ + pending_.size();
  const std::uint64_t total = (so_far + kTrailer + kBlock - 1) / kBlock * kBlock;
  const std::vector<std::byte> zeros(total - kTrailer - so_far);
  put(zeros.data(), zeros.size());
  const std::uint64_t count = count_;
  put(&count, sizeof count);
  const std::uint64_t check = XXH3_64bits_digest(&check_->state);
  put(&check, sizeof check);
}

std::size_t ResidencyImage::next(std::span<std::byte> out) {
  while (!is_finished_ && pending_.size() < out.size()) {
    if (slot_ >= residency_.slots_touched()) {
      finish();
      break;
    }
    // What is leaving is named: it is still there, and a next start would not find it otherwise.
    if (residency_.is_present(slot_) || residency_.is_leaving(slot_))
      put({residency_.key_of(slot_), residency_.bytes_of(slot_),
           residency_.is_leaving(slot_) ? 0 : residency_.last_use(slot_), false});
    ++slot_;
  }
  const std::size_t size = std::min(out.size(), pending_.size());
  std::memcpy(out.data(), pending_.data(), size);
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(size));
  written_ += size;
  return size;
}

int write_residency(ResidencyImage& image, const std::string& path) {
  std::string temp = path;
  TempNames().append_to(temp);
  const int fd = ::open(temp.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (fd < 0) return errno;
  std::vector<std::byte> piece(kReadBytes);
  int error = 0;
  while (const std::size_t size = error == 0 ? image.next(piece) : 0) {
    for (std::size_t done = 0; done < size && error == 0;) {
      const ssize_t n = ::write(fd, piece.data() + done, size - done);
      if (n < 0 && errno != EINTR) error = errno;
      if (n == 0) error = ENOSPC;
      if (n > 0) done += static_cast<std::size_t>(n);
    }
  }
  if (::close(fd) != 0 && error == 0) error = errno;
  if (error == 0 && ::rename(temp.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) ::unlink(temp.c_str());
  return error;
}

// --- reading --------------------------------------------------------------------------------------

/// Bytes in order, all of them checked but the last eight.
struct ResidencyReader::State {
  int fd = -1;
  std::uint64_t size = 0;
  std::uint64_t read_to = 0;  // of the file
  std::size_t at = 0;         // in buffer
  std::vector<std::byte> buffer;
  XXH3_state_t check;
  std::uint64_t check_wanted = 0;

  ~State() {
    if (fd >= 0) ::close(fd);
  }
  /// The next `n` bytes, or nullptr at the end or on an error.
  const std::byte* take(std::size_t n) {
    if (buffer.size() - at < n && !refill(n)) return nullptr;
    const std::byte* bytes = buffer.data() + at;
    at += n;
    return bytes;
  }
  bool refill(std::size_t n) {
    buffer.erase(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(at));
    at = 0;
    const std::uint64_t end = size - sizeof check_wanted;
    while (buffer.size() < n) {
      const std::size_t had = buffer.size();
      const std::size_t wanted = std::min<std::uint64_t>(kReadBytes, end - read_to);
      if (wanted == 0) return false;
      buffer.resize(had + wanted);
      const ssize_t got = ::pread(fd, buffer.data() + had, wanted, static_cast<off_t>(read_to));
      if (got <= 0) {
        buffer.resize(had);
        if (got < 0 && errno == EINTR) continue;
        return false;
      }
      buffer.resize(had + static_cast<std::size_t>(got));
      XXH3_64bits_update(&check, buffer.data() + had, static_cast<std::size_t>(got));
      read_to += static_cast<std::uint64_t>(got);
    }
    return true;
  }
};

ResidencyReader::ResidencyReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
ResidencyReader::ResidencyReader(ResidencyReader&&) noexcept = default;
ResidencyReader::~ResidencyReader() = default;

Expected<std::optional<ResidencyReader>> ResidencyReader::open(const std::string& path) {
  auto state = std::make_unique<State>();
  const auto damaged = [&](const std::string& what) {
    return OffloadError{OffloadErrc::io_error, path + ": " + what};
  };
  state->fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (state->fd < 0) {
    if (errno == ENOENT) return std::optional<ResidencyReader>();
    return damaged(std::strerror(errno));
  }
  struct stat info {};
  if (::fstat(state->fd, &info) != 0) return damaged(std::strerror(errno));
  if (!S_ISREG(info.st_mode)) return damaged("is no file");
  state->size = static_cast<std::uint64_t>(info.st_size);
  if (state->size < kBlock || state->size % kBlock != 0) return damaged("was cut off");
  std::array<std::uint64_t, 2> trailer{};
  if (::pread(state->fd, trailer.data(), kTrailer, static_cast<off_t>(state->size - kTrailer)) !=
      static_cast<ssize_t>(kTrailer))
    return damaged("cannot be read to its end");
  state->check_wanted = trailer[1];
  XXH3_64bits_reset(&state->check);

  std::optional<ResidencyReader> reader = ResidencyReader(std::move(state));
  reader->count_ = trailer[0];
  if (reader->count_ > reader->state_->size / kEntryMin) return damaged("is damaged");
  if (const auto what = reader->read_header()) return damaged(*what);
  return reader;
}

std::optional<std::string> ResidencyReader::read_header() {
  FileHeader file;
  const std::byte* bytes = state_->take(sizeof file);
  if (bytes == nullptr) return "cannot be read";
  std::memcpy(&file, bytes, sizeof file);
  if (file.magic != kMagic) return "is no record of this version";
  header_.is_clean = (file.flags & kClean) != 0;
  header_.fingerprint = file.fingerprint;
  header_.row_bytes = file.row_bytes;
  if (file.num_revisions > kRevisionsMax) return "is damaged";
  for (std::uint32_t i = 0; i < file.num_revisions; ++i) {
    std::uint16_t length = 0;
    if ((bytes = state_->take(sizeof length)) == nullptr) return "is damaged";
    std::memcpy(&length, bytes, sizeof length);
    if (length > kRevisionBytesMax || (bytes = state_->take(length)) == nullptr)
      return "is damaged";
    header_.revisions.emplace_back(reinterpret_cast<const char*>(bytes), length);
  }
  return std::nullopt;
}

bool ResidencyReader::next(ResidencyEntry& entry) {
  if (is_broken_ || given_ == count_) return false;
  EntryHeader header;
  const std::byte* bytes = state_->take(sizeof header);
  is_broken_ = true;
  if (bytes == nullptr) return false;
  std::memcpy(&header, bytes, sizeof header);
  bytes = state_->take(header.key_bytes);
  if (bytes == nullptr) return false;
  const auto key = OffloadKey::from_bytes({bytes, header.key_bytes});
  if (!key) return false;
  is_broken_ = false;
  ++given_;
  entry = {*key, std::uint64_t{header.units} * 512, header.last_use, header.is_quarantined != 0};
  return true;
}

bool ResidencyReader::is_sound() {
  if (is_broken_ || given_ != count_) return false;
  while (state_->take(1) != nullptr) state_->at = state_->buffer.size();
  return state_->read_to == state_->size - sizeof state_->check_wanted &&
         XXH3_64bits_digest(&state_->check) == state_->check_wanted;
}

}  // namespace kv_offload
