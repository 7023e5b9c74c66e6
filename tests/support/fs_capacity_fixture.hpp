#pragma once

#include "kv_offload/tests/support/disk_bytes.hpp"
#include "kv_offload/tests/support/tier_fs_fixture.hpp"
#include "kv_offload/tiers/fs/residency_file.hpp"

#include <catch2/catch.hpp>
#include <utime.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace kv_offload::test {

/// A file tier with room for `chunks` chunks of 64 KiB, as its file system counts them.
class FsCapacityFixture : public FsFixture {
 public:
  explicit FsCapacityFixture(std::uint64_t chunks, Options options = {})
      : FsFixture(std::move(options)), room(chunks) {
    bytes_per_chunk = measure();
    config.capacity_bytes = chunks * bytes_per_chunk;
  }

  /// As of a turn that began after the call: two answers have a whole turn between them.
  [[nodiscard]] double sample(const std::string& name) {
    for (int i = 0; i < 2; ++i) probe(tier_keys(9'999'999, 1));
    for (const auto& s : tier->stats().samples)
      if (s.name == "kv_offload_fs_" + name) return s.value;
    return -1;
  }
  /// Waits until `condition`; the lane takes turns meanwhile. False after 20 s.
  bool wait_for(const std::function<bool()>& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      probe(tier_keys(9'999'999, 1));
    }
    return true;
  }
  /// Every file was looked at, and what is counted is what is there.
  bool settle() {
    return wait_for([&] {
      return sample("walk_progress") == 1 && sample("leaving_files") == 0 &&
             sample("allocated_bytes") == static_cast<double>(on_disk()) &&
             on_disk() <= *config.capacity_bytes;
    });
  }
  [[nodiscard]] std::uint64_t on_disk() const { return chunk_bytes_on_disk(directory.path()); }
  /// The bound that the README states, for what is in flight at most.
  [[nodiscard]] std::uint64_t bound() const {
    return *config.capacity_bytes + std::max(config.inflight_bytes_max, bytes_per_chunk);
  }
  void store_one(std::uint64_t name) {
    memory.fill(0, name);
    REQUIRE(store(tier_keys(name, 1)).success);
  }
  /// One after the other: which of several in one job is first, the device decides.
  void store_in_order(std::uint64_t first, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) store_one(first + i);
  }
  bool has(std::uint64_t name) { return probe(tier_keys(name, 1))[0] == LookupResult::hit; }
  [[nodiscard]] std::string record() const {
    return FileMapper::make(directory.path(), identity)->chunk_dir() + "/" + kResidencyFile;
  }
  [[nodiscard]] bool has_file(std::uint64_t name) const {
    return std::filesystem::exists(path_of(tier_key(name)));
  }
  void set_time(std::uint64_t name, std::time_t time) const {
    const utimbuf times{time, time};
    REQUIRE(::utime(path_of(tier_key(name)).c_str(), &times) == 0);
  }
  /// A tier that stores without a capacity, as before an upgrade.
  void start_unbounded() {
    const auto capacity = std::exchange(config.capacity_bytes, std::nullopt);
    start();
    config.capacity_bytes = capacity;
  }

 private:
  std::uint64_t measure() {
    start();
    store_one(77'777);
    stop();
    const std::string path = path_of(tier_key(77'777));
    const std::uint64_t bytes = allocated(path);
    for (const auto& entry : std::filesystem::directory_iterator(directory.path()))
      std::filesystem::remove_all(entry.path());
    return bytes;
  }

 public:
  std::uint64_t room;
  std::uint64_t bytes_per_chunk = 0;
};

}  // namespace kv_offload::test
