#include "kv_offload/tiers/primary/region_placement.hpp"

#include "kv_offload/messages/byte_size.hpp"
#include "kv_offload/tiers/topology/pin_thread.hpp"
#include "kv_offload/tiers/topology/place_memory.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <thread>

namespace kv_offload {
namespace {

constexpr std::uint64_t kHugePageBytes = 2ULL << 20;
/// Pages of the region that are asked for: all of 1 GiB, in 30 ms (a question takes 0.1 us).
constexpr std::uint64_t kPagesAsked = 1ULL << 18;

OffloadError refused(const PlacedMemory& part, OffloadErrc code, const std::string& why) {
  return {code, "domains: NUMA node " + std::to_string(part.node) + " cannot take " +
                    format_bytes(part.bytes_planned) + " of cpu_bytes_to_use: " + why};
}

/// Memory is bound for good: what a node does not have must be known before, or the kernel kills somebody for it.
std::optional<OffloadError> check_available(const std::vector<PlacedMemory>& parts,
                                            const RegionPlacement& placement,
                                            std::uint64_t page_bytes) {
  for (const auto& part : parts) {
    std::uint64_t wanted = 0;  // domains of one node share what it has
    for (const auto& other : parts)
      if (other.node == part.node) wanted += other.bytes_planned;
    const auto available = placement.available ? placement.available(part.node)
                                               : available_on_node(part.node, page_bytes);
    if (available && wanted > available->bytes)
      return refused(part, OffloadErrc::invalid_config,
                     std::to_string(available->bytes >> 20) + " MiB are available there for " +
                         std::to_string(wanted >> 20) + " MiB (" + available->limited_by +
                         "); ask for less, free memory or set domains: off");
  }
  return std::nullopt;
}

OffloadError bind_error(const PlacedMemory& part, int error) {
  const std::string what = std::strerror(error);
  if (error == EPERM || error == ENOSYS)
    return refused(part, OffloadErrc::unsupported,
                   "mbind: " + what +
                       "; allow the container mbind (CAP_SYS_NICE), or set domains: off");
  if (error == EINVAL)
    return refused(part, OffloadErrc::unsupported,
                   "mbind: " + what + "; is the node among this process's cpuset.mems?");
  return refused(part, OffloadErrc::io_error, "mbind: " + what);
}

/// One thread per domain, which runs there if it may, and its helpers with it.
int touch(const PrimaryView& rows, const std::vector<DomainBytes>& runs,
          const RegionPlacement& placement, const PlacementRun& how) {
  const auto domains = placement.domains.size();
  const auto helpers = std::max<std::size_t>(how.threads / domains, 1);
  std::atomic<int> error{0};
  const auto work = [&](DomainId domain) {
    for (const auto& r : runs) {
      if (r.domain != domain) continue;
      if (const int e =
              touch_pages(rows.base + r.begin, r.end - r.begin,
                          static_cast<std::uint32_t>(helpers), kHugePageBytes, how.advise);
          e != 0)
        error = e;
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < domains; ++i) {
    const auto domain = static_cast<DomainId>(i);
    try {
      threads.emplace_back([&, domain] {
        // Where it may not run there, it is slower; the memory is bound.
        static_cast<void>(pin_thread(placement.domains[domain], "kvo-touch"));
        work(domain);
      });
    } catch (const std::system_error&) {  // no thread to be had: do it here
      work(domain);
    }
  }
  for (auto& t : threads) t.join();
  return error;
}

/// Nothing found out about a part is no failure: the bytes are where they are.
void find(const PrimaryView& rows, const std::vector<DomainBytes>& runs,
          std::vector<PlacedMemory>& parts) {
  for (const auto& run : runs) {
    auto& part = parts[run.domain];
    const std::uint64_t bytes = run.end - run.begin;
    const auto found =
        find_pages(rows.base + run.begin, bytes, part.node, kPagesAsked / runs.size());
    if (found.error != 0) {
      part.error = found.error;
      continue;
    }
    const auto share = [&](std::uint64_t pages) {
      return static_cast<std::uint64_t>(static_cast<double>(bytes) * static_cast<double>(pages) /
                                        static_cast<double>(found.asked));
    };
    part.bytes_found += share(found.on_node);
    part.bytes_elsewhere += share(found.elsewhere);
  }
}

}  // namespace

std::vector<DomainBytes> domain_bytes(const PrimaryView& rows, const DomainMap& map,
                                      std::uint64_t page_bytes) {
  std::vector<DomainBytes> runs;
  const std::uint64_t slice = rows.row_bytes * map.slice_chunks;
  const std::uint64_t slices = std::uint64_t{map.domains} * map.domains;
  for (std::uint64_t i = 0; i < slices; ++i) {
    const std::uint64_t up = i + 1 == slices ? page_bytes - 1 : page_bytes / 2;
    const DomainBytes run{(i * slice + page_bytes / 2) / page_bytes * page_bytes,
                          ((i + 1) * slice + up) / page_bytes * page_bytes,
                          static_cast<DomainId>(i % map.domains)};
    if (run.begin < run.end) runs.push_back(run);
  }
  return runs;
}

Expected<std::vector<PlacedMemory>> place_rows(const PrimaryView& rows,
                                               const RegionPlacement& placement,
                                               const PlacementRun& how) {
  const auto& map = placement.map;
  if (map.domains != placement.domains.size() || map.num_chunks() != rows.num_chunks)
    return {OffloadErrc::invalid_config, "domains: a region of " + std::to_string(rows.num_chunks) +
                                             " chunks for " +
                                             std::to_string(placement.domains.size()) +
                                             " domains is not what the map of " +
                                             std::to_string(map.num_chunks()) + " says"};
  const auto runs = domain_bytes(rows, map, how.page_bytes);
  std::vector<PlacedMemory> parts;
  for (DomainId d = 0; d < map.domains; ++d)
    parts.push_back({.domain = d, .node = placement.domains[d].node});
  for (const auto& run : runs) parts[run.domain].bytes_planned += run.end - run.begin;
  if (auto error = check_available(parts, placement, how.page_bytes)) return *error;
  for (const auto& run : runs)
    if (const int e =
            bind_memory(rows.base + run.begin, run.end - run.begin, parts[run.domain].node);
        e != 0)
      return bind_error(parts[run.domain], e);
  if (const int e = touch(rows, runs, placement, how); e != 0)
    return {OffloadErrc::io_error, std::string("domains: memory could not be made resident: ") +
                                       std::strerror(e) + " (" + to_string(parts) + " wanted)"};
  for (const auto& run : runs)  // cannot fail where binding did not; if it does, the stricter one stays
    static_cast<void>(
        loosen_memory(rows.base + run.begin, run.end - run.begin, parts[run.domain].node));
  find(rows, runs, parts);
  return parts;
}

std::string to_string(const std::vector<PlacedMemory>& placed) {
  std::string line;
  std::uint64_t elsewhere = 0;
  int error = 0;
  for (const auto& part : placed) {
    line += format_bytes(part.error != 0 ? part.bytes_planned : part.bytes_found) +
            " on NUMA node " + std::to_string(part.node) + ", ";
    elsewhere += part.bytes_elsewhere;
    if (part.error != 0) error = part.error;
  }
  if (error != 0) return line + "not verified: " + std::strerror(error);
  return line + format_bytes(elsewhere) + " elsewhere";
}

}  // namespace kv_offload
