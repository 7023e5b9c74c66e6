#pragma once

#include "kv_offload/tests/support/open_things.hpp"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace kv_offload::test {

/// What this process holds, and what stands under names, at one moment. Compared with another one, says what was left
/// behind between them.
struct Holdings {
  std::vector<std::string> descriptors;  // what they stand for
  std::size_t threads = 0;
  std::vector<std::string> mappings;  // of shared memory and files
  std::vector<std::string> sockets;   // of Unix, with a name
  std::vector<std::string> shared_memory;
  std::vector<std::string> files;

  /// `folder`: whose files count; `name`: what our sockets and memory have in their names.
  static Holdings now(const std::string& folder, const std::string& name) {
    namespace fs = std::filesystem;
    Holdings h;
    for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      const auto target = fs::read_symlink(entry.path(), gone).string();
      if (gone || target.find("/proc/") == 0) continue;  // the look itself
      h.descriptors.push_back(target.substr(0, target.find(':')));
    }
    h.threads = running_threads();
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);)
      if (line.find("memfd:kv_offload") != std::string::npos ||
          (!folder.empty() && line.find(folder) != std::string::npos))
        h.mappings.push_back(line);
    std::ifstream unix_sockets("/proc/net/unix");
    for (std::string line; std::getline(unix_sockets, line);)
      if (line.find(name) != std::string::npos) h.sockets.push_back(line);
    if (fs::exists("/dev/shm"))
      for (const auto& entry : fs::directory_iterator("/dev/shm"))
        if (entry.path().string().find("kv") != std::string::npos)
          h.shared_memory.push_back(entry.path());
    if (!folder.empty())
      for (const auto& entry : fs::directory_iterator(folder)) h.files.push_back(entry.path());
    for (auto* list : {&h.descriptors, &h.mappings, &h.sockets, &h.shared_memory, &h.files})
      std::sort(list->begin(), list->end());
    return h;
  }
  /// Empty: nothing more than `before`.
  [[nodiscard]] std::string beyond(const Holdings& before) const {
    std::string what;
    const auto add = [&](const char* kind, const std::vector<std::string>& has,
                         const std::vector<std::string>& had) {
      std::vector<std::string> more;
      std::set_difference(has.begin(), has.end(), had.begin(), had.end(), std::back_inserter(more));
      for (const auto& one : more) what += std::string(kind) + " " + one + "; ";
    };
    add("descriptor", descriptors, before.descriptors);
    add("mapping", mappings, before.mappings);
    add("socket", sockets, before.sockets);
    add("shared memory", shared_memory, before.shared_memory);
    add("file", files, before.files);
    if (threads > before.threads) what += std::to_string(threads - before.threads) + " threads; ";
    return what;
  }
};

}  // namespace kv_offload::test
