#include "kv_offload/tiers/fs/temp_files.hpp"

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <optional>
#include <random>
#include <signal.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace kv_offload {

namespace {

constexpr std::string_view kSuffix = ".tmp";
constexpr std::time_t kForeignAgeS = 3600;
/// File times lag behind the clock by a scheduler tick; a file of ours is never this much older than
/// the process.
constexpr std::time_t kClockSlackS = 1;

/// When this process began, as early as static initialisation knows it.
const std::time_t kProcessStart = std::time(nullptr);

std::uint32_t host_hash() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  std::uint32_t hash = 2166136261U;  // FNV-1a
  for (const char c : std::string_view(name.data()))
    hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return hash;
}

std::string fixed_hex(std::uint64_t value, std::size_t digits) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text(digits, '0');
  for (std::size_t i = digits; i-- > 0; value >>= 4) text[i] = kDigits[value & 15U];
  return text;
}

struct Writer {
  std::uint32_t host = 0;
  pid_t pid = 0;
};

/// The writer named in "…_<host>-<pid>-<number>.tmp"; nullopt if the name is not ours.
std::optional<Writer> writer_of(std::string_view name) {
  name.remove_suffix(kSuffix.size());
  const auto underscore = name.rfind('_');
  if (underscore == std::string_view::npos) return std::nullopt;
  const std::string_view tag = name.substr(underscore + 1);
  if (tag.size() < 8 + 1 + 1 + 1 + 16 || tag[8] != '-' || tag[tag.size() - 17] != '-')
    return std::nullopt;
  Writer writer;
  const auto host = std::from_chars(tag.data(), tag.data() + 8, writer.host, 16);
  const char* pid_end = tag.data() + tag.size() - 17;
  const auto pid = std::from_chars(tag.data() + 9, pid_end, writer.pid);
  if (host.ec != std::errc{} || host.ptr != tag.data() + 8) return std::nullopt;
  if (pid.ec != std::errc{} || pid.ptr != pid_end || writer.pid <= 0) return std::nullopt;
  return writer;
}

bool is_alive(pid_t pid) { return ::kill(pid, 0) == 0 || errno == EPERM; }

}  // namespace

bool is_left_over_temp_file(const std::string& path) {
  const auto slash = path.rfind('/');
  const std::string_view name = std::string_view(path).substr(slash + 1);  // npos + 1: all of it
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
  const auto writer = writer_of(name);
  if (!writer || writer->host != host_hash())
    return info.st_mtime + kForeignAgeS < std::time(nullptr);
  if (writer->pid == ::getpid()) return info.st_mtime + kClockSlackS < kProcessStart;
  return !is_alive(writer->pid);
}

TempNames::TempNames()
    : prefix_("_" + fixed_hex(host_hash(), 8) + "-" + std::to_string(::getpid()) + "-") {
  std::random_device random;
  number_ = (std::uint64_t{random()} << 32) | random();
}

void TempNames::append_to(std::string& path, std::string_view ending) {
  static constexpr char kDigits[] = "0123456789abcdef";
  path += prefix_;
  const std::uint64_t number = number_++;
  for (int shift = 60; shift >= 0; shift -= 4) path += kDigits[(number >> shift) & 15U];
  path += ending;
}

SweepResult sweep_temp_files(const std::string& chunk_dir, Duration patience) {
  namespace fs = std::filesystem;
  const auto end = std::chrono::steady_clock::now() + patience;
  SweepResult result;
  std::error_code error;
  fs::recursive_directory_iterator it(chunk_dir, fs::directory_options::skip_permission_denied,
                                      error);
  for (std::uint64_t seen = 0; !error && it != fs::recursive_directory_iterator();
       it.increment(error), ++seen) {
    if (seen % 256 == 0 && std::chrono::steady_clock::now() > end) {
      result.is_complete = false;
      break;
    }
    const std::string& path = it->path().native();
    if (!path.ends_with(kSuffix)) continue;
    if (!is_left_over_temp_file(path))
      ++result.kept;
    else if (::unlink(path.c_str()) == 0)
      ++result.removed;
    else
      ++result.failed;
  }
  if (error) result.is_complete = false;
  return result;
}

}  // namespace kv_offload
