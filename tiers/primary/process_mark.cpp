#include "kv_offload/tiers/primary/region_record.hpp"

#include <charconv>
#include <fstream>
#include <iterator>
#include <unistd.h>

namespace kv_offload {
namespace {

std::string read_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

/// Field 22 of /proc/<pid>/stat. The name in field 2 may hold spaces and brackets: counted from its last one.
std::optional<std::uint64_t> start_ticks(std::int64_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  auto at = text.rfind(')');
  if (at == std::string::npos) return std::nullopt;
  for (int field = 2; field < 22; ++field) {
    at = text.find(' ', at);
    if (at == std::string::npos) return std::nullopt;
    ++at;
  }
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), value);
  static_cast<void>(end);
  return error == std::errc{} ? std::optional(value) : std::nullopt;
}

}  // namespace

std::optional<ProcessMark> mark_of_process(std::int64_t pid) {
  const auto ticks = start_ticks(pid);
  if (!ticks) return std::nullopt;
  return ProcessMark{pid, *ticks, read_line("/proc/sys/kernel/random/boot_id")};
}

ProcessMark mark_of_this_process() {
  return mark_of_process(::getpid())
      .value_or(ProcessMark{.pid = ::getpid(), .start_ticks = 0, .boot_id = {}});
}

}  // namespace kv_offload
