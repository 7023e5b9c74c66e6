#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kv_offload::bench {

/// What an inspection found wrong: all counted, the first `limit` named.
class DamageList {
 public:
  struct Entry {
    std::string where, what;
  };
  explicit DamageList(std::size_t limit) : limit_(limit) {}

  void add(std::string where, std::string what) {
    ++count_;
    if (entries_.size() < limit_) entries_.push_back({std::move(where), std::move(what)});
  }
  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }

 private:
  const std::size_t limit_;
  std::uint64_t count_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace kv_offload::bench
