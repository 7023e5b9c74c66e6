#include "kv_offload/bench/io_measure.hpp"

#include "kv_offload/bench/random.hpp"

#include <chrono>
#include <numeric>
#include <sys/resource.h>
#include <utility>
#include <vector>

namespace kv_offload::bench {
namespace {

double seconds_of(const timeval& t) {
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
}

double cpu_now() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

double wall_now() { return to_seconds(std::chrono::steady_clock::now().time_since_epoch()); }

}  // namespace

S3Place IoStore::place() const {
  S3Place place;
  place.bucket = bucket;
  place.region = region;
  const auto mark = endpoint.find("://");
  place.scheme = mark == std::string::npos ? "http" : endpoint.substr(0, mark);
  place.host = mark == std::string::npos ? endpoint : endpoint.substr(mark + 3);
  while (place.host.ends_with('/')) place.host.pop_back();
  return place;
}

IoStopwatch::IoStopwatch() : wall_s_(wall_now()), cpu_s_(cpu_now()) {}

IoFigure IoStopwatch::stop(const IoShape& shape) const {
  const double wall_s = wall_now() - wall_s_, cpu_s = cpu_now() - cpu_s_;
  const auto chunks = static_cast<double>(shape.chunks());
  IoFigure figure;
  figure.mib_per_s = chunks * static_cast<double>(shape.chunk_bytes) / 1048576 / wall_s;
  figure.cpu_us_per_chunk = cpu_s * 1e6 / chunks;
  return figure;
}

OffloadKey io_key(std::uint64_t number) {
  std::array<std::byte, 32> hash{};
  std::uint64_t mixed = number;
  for (std::size_t i = 0; i < hash.size(); ++i) {
    if (i % 8 == 0) mixed = (mixed + 0x9e3779b97f4a7c15ULL) * 0xbf58476d1ce4e5b9ULL;
    hash[i] = static_cast<std::byte>(mixed >> (8 * (i % 8)));
  }
  // The layout takes its directories from the first five hex digits: sixteen times sixteen of them.
  hash[0] = std::byte{0};
  hash[1] = static_cast<std::byte>((number / 16 % 16) << 4);  // digits 2 and 3
  hash[2] = static_cast<std::byte>((number % 16) << 4);       // digit 4
  for (std::size_t i = 0; i < 8; ++i) hash[8 + i] = static_cast<std::byte>(number >> (8 * i));
  return *OffloadKey::make(hash, 0);
}

std::vector<std::uint32_t> io_order(std::uint64_t count) {
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0U);
  Random random(1);
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

}  // namespace kv_offload::bench
