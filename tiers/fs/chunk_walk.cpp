#include "kv_offload/tiers/fs/chunk_walk.hpp"

#include "kv_offload/tiers/fs/fs_errors.hpp"
#include "kv_offload/tiers/fs/temp_files.hpp"
#include "kv_offload/tiers/hex_digit.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <ctime>
#include <fcntl.h>
#include <sys/stat.h>
#include <utility>

namespace kv_offload {

namespace {

constexpr std::string_view kChunkEnd = ".bin";
constexpr std::string_view kQuarantinedEnd = ".bin.quarantined";
constexpr std::string_view kTempEnd = ".tmp";
/// No layout has more; what somebody else put there is not listed for ever.
constexpr std::size_t kTopsMax = 1U << 16;

}  // namespace

std::optional<ChunkName> parse_chunk_name(std::string_view group_dir, std::string_view file) {
  ChunkName name;
  name.is_quarantined = file.ends_with(kQuarantinedEnd);
  if (!name.is_quarantined && !file.ends_with(kChunkEnd)) return std::nullopt;
  file.remove_suffix(name.is_quarantined ? kQuarantinedEnd.size() : kChunkEnd.size());
  std::array<std::byte, OffloadKey::kMaxHashBytes> hash{};
  if (file.empty() || file.size() % 2 != 0 || file.size() > 2 * hash.size()) return std::nullopt;
  for (std::size_t i = 0; i < file.size(); i += 2) {
    const int high = hex_digit(file[i]);
    const int low = hex_digit(file[i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    hash[i / 2] = static_cast<std::byte>(16 * high + low);
  }
  const auto at = group_dir.rfind("_g");
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view digits = group_dir.substr(at + 2);
  std::uint32_t group = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), group);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  const auto key = OffloadKey::make(std::span(hash).first(file.size() / 2), group);
  if (!key) return std::nullopt;
  name.key = *key;
  return name;
}

double ChunkWalk::progress() const {
  if (is_over_) return 1;
  if (tops_.empty() || next_top_ == 0) return 0;
  return static_cast<double>(next_top_ - 1) / static_cast<double>(tops_.size());
}

ChunkWalk::Directory ChunkWalk::open_directory(const std::string& path) {
  Directory directory(::opendir(path.c_str()));
  if (!directory && !is_absent(errno)) ++unreadable_;
  return directory;
}

void ChunkWalk::list_tops() {
  is_listed_ = true;
  const Directory root = open_directory(chunk_dir_);
  if (!root) return;
  while (const dirent* entry = ::readdir(root.get())) {
    const std::string_view name = entry->d_name;
    // Our own files here have dots in their names.
    if (name.find('.') == std::string_view::npos && tops_.size() < kTopsMax)
      tops_.emplace_back(name);
  }
}

bool ChunkWalk::open_next_top() {
  while (next_top_ < tops_.size()) {
    top_path_ = chunk_dir_ + '/' + tops_[next_top_++];
    top_ = open_directory(top_path_);
    if (top_) return true;
  }
  is_over_ = true;
  return false;
}

/// The next directory of chunks in this one of the first level; false: there is none.
bool ChunkWalk::open_next_group() {
  while (const dirent* entry = ::readdir(top_.get())) {
    const std::string_view name = entry->d_name;
    if (name.find("_g") == std::string_view::npos) continue;
    group_name_ = name;
    group_path_ = top_path_ + '/' + group_name_;
    group_ = open_directory(group_path_);
    if (group_) return true;
  }
  top_.reset();
  return false;
}

std::optional<ChunkWalk::Found> ChunkWalk::look_at(const char* name, const IsKnown& is_known) {
  const std::string_view text = name;
  Found found;
  if (text.ends_with(kTempEnd)) {
    found.kind = Found::Kind::left_over;
    found.path = group_path_ + '/' + name;
    if (!is_left_over_temp_file(found.path)) return std::nullopt;
    return found;
  }
  const auto parsed = parse_chunk_name(group_name_, text);
  if (!parsed) return std::nullopt;
  if (!parsed->is_quarantined && is_known(parsed->key)) return std::nullopt;
  found.kind = parsed->is_quarantined ? Found::Kind::quarantined : Found::Kind::chunk;
  found.key = parsed->key;
  struct stat info {};
  if (::fstatat(::dirfd(group_.get()), name, &info, AT_SYMLINK_NOFOLLOW) != 0) return std::nullopt;
  if (!S_ISREG(info.st_mode)) return std::nullopt;
  found.path = group_path_ + '/' + name;
  found.bytes = static_cast<std::uint64_t>(info.st_blocks) * 512;
  found.modified_us =
      static_cast<std::uint64_t>(std::max<std::time_t>(info.st_mtim.tv_sec, 0)) * 1'000'000 +
      static_cast<std::uint64_t>(info.st_mtim.tv_nsec) / 1000;
  return found;
}

std::optional<ChunkWalk::Found> ChunkWalk::next(std::size_t entries_max, const IsKnown& is_known) {
  if (!is_listed_) list_tops();
  for (std::size_t n = 0; n < entries_max && !is_over_; ++n) {
    if (!group_) {
      if (!top_ && !open_next_top()) break;
      open_next_group();
      continue;
    }
    const dirent* entry = ::readdir(group_.get());
    if (entry == nullptr) {
      group_.reset();
      continue;
    }
    if (auto found = look_at(entry->d_name, is_known)) return found;
  }
  return std::nullopt;
}

}  // namespace kv_offload
