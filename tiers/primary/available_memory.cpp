#include "kv_offload/tiers/primary/available_memory.hpp"

#include <fstream>
#include <sstream>

namespace kv_offload {
namespace {

constexpr std::uint64_t kHugePageBytes = 2ULL << 20;

/// The number in a file that holds nothing else; nullopt for "max", no file, no number.
std::optional<std::uint64_t> read_number(const std::string& path) {
  std::ifstream in(path);
  std::uint64_t value = 0;
  if (in >> value) return value;
  return std::nullopt;
}

/// The number after `name` in a file of lines "name value [unit]", behind what every line begins with.
std::optional<std::uint64_t> read_field(const std::string& path, const std::string& name,
                                        const std::string& prefix = "") {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(prefix)) continue;
    std::istringstream words(line.substr(prefix.size()));
    std::string word;
    std::uint64_t value = 0;
    if (words >> word >> value && word == name) return value;
  }
  return std::nullopt;
}

/// What one cgroup directory leaves, for either version's file names.
struct CgroupFiles {
  const char* limit;
  const char* usage;
  const char* reclaimable;
};
constexpr CgroupFiles kVersion2{"/memory.max", "/memory.current", "inactive_file"};
constexpr CgroupFiles kVersion1{"/memory.limit_in_bytes", "/memory.usage_in_bytes",
                                "total_inactive_file"};

void narrow(std::optional<AvailableMemory>& least, std::uint64_t bytes, std::string file) {
  if (!least || bytes < least->bytes) least = AvailableMemory{bytes, std::move(file)};
}

/// The cgroup `path` and all its ancestors up to `mount`.
void narrow_by_cgroups(std::optional<AvailableMemory>& least, const std::string& mount,
                       std::string path, const CgroupFiles& files) {
  while (true) {
    const std::string dir = mount + path;
    if (const auto limit = read_number(dir + files.limit)) {
      const std::uint64_t used = read_number(dir + files.usage).value_or(0);
      const std::uint64_t cache = read_field(dir + "/memory.stat", files.reclaimable).value_or(0);
      const std::uint64_t held = used > cache ? used - cache : 0;
      narrow(least, *limit > held ? *limit - held : 0, dir + files.limit);
    }
    if (path.empty()) return;
    path.erase(path.find_last_of('/'));
  }
}

}  // namespace

std::optional<AvailableMemory> available_memory(const std::string& root) {
  std::optional<AvailableMemory> least;
  if (const auto kib = read_field(root + "/proc/meminfo", "MemAvailable:"))
    narrow(least, *kib * 1024, root + "/proc/meminfo MemAvailable");
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "<id>:<controllers>:<path>"
    const auto first = line.find(':');
    const auto second = line.find(':', first == std::string::npos ? first : first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    std::string path = line.substr(second + 1);
    if (path.empty() || path.front() != '/') continue;
    if (path == "/") path.clear();
    if (controllers == ",,")
      narrow_by_cgroups(least, root + "/sys/fs/cgroup", path, kVersion2);
    else if (controllers.find(",memory,") != std::string::npos)
      narrow_by_cgroups(least, root + "/sys/fs/cgroup/memory", path, kVersion1);
  }
  return least;
}

std::optional<AvailableMemory> available_on_node(std::uint32_t node, std::uint64_t page_bytes,
                                                 const std::string& root) {
  const std::string number = std::to_string(node);
  const std::string dir = root + "/sys/devices/system/node/node" + number;
  if (page_bytes >= kHugePageBytes) {
    const std::string file =
        dir + "/hugepages/hugepages-" + std::to_string(page_bytes >> 10) + "kB/free_hugepages";
    const auto pages = read_number(file);
    if (!pages) return std::nullopt;
    return AvailableMemory{*pages * page_bytes, file};
  }
  const std::string file = dir + "/meminfo";
  const auto kib = [&](const char* name) {  // "Node 0 MemFree:  1234 kB"
    return read_field(file, name, "Node " + number + " ");
  };
  const auto free = kib("MemFree:"), total = kib("MemTotal:");
  if (!free || !total) return std::nullopt;
  const std::uint64_t cache =
      kib("Active(file):").value_or(0) + kib("Inactive(file):").value_or(0);
  const std::uint64_t kept = *total / 64;
  return AvailableMemory{(*free + cache > kept ? *free + cache - kept : 0) * 1024, file};
}

}  // namespace kv_offload
