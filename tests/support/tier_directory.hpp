#pragma once

#include "kv_offload/tests/support/open_things.hpp"

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <sys/xattr.h>
#include <vector>

namespace kv_offload::test {

/// A directory that lives as long as its object.
class TierDirectory {
 public:
  TierDirectory() {
    std::string path = (std::filesystem::temp_directory_path() / "kvo-tier-XXXXXX").string();
    if (::mkdtemp(path.data()) == nullptr) throw std::runtime_error("mkdtemp " + path);
    path_ = path;
  }
  ~TierDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TierDirectory(const TierDirectory&) = delete;
  TierDirectory& operator=(const TierDirectory&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  /// Paths of all regular files below it whose name ends so.
  [[nodiscard]] std::vector<std::string> files(const std::string& ending) const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path_))
      if (entry.is_regular_file() && entry.path().native().ends_with(ending))
        found.push_back(entry.path().native());
    return found;
  }
  [[nodiscard]] bool is_empty() const { return std::filesystem::is_empty(path_); }

 private:
  std::string path_;
};

inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
inline void write_file(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << text;
}
inline void flip_byte(const std::string& path, std::streamoff at) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(at);
  const auto byte = static_cast<char>(file.get() ^ 1);
  file.seekp(at);
  file.put(byte);
}
/// Empty if there is none.
inline std::string attribute(const std::string& path, const char* name) {
  std::string value(256, '\0');
  const ssize_t size = ::getxattr(path.c_str(), name, value.data(), value.size());
  value.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
  return value;
}

}  // namespace kv_offload::test
