#include "kv_offload/tiers/device/page_runs.hpp"

#include <algorithm>

namespace kv_offload {
namespace {

/// Beyond `limit`, or beyond what 64 bits hold?
bool leaves(std::uint64_t offset, std::uint64_t stride, const PageRun& run, std::uint64_t limit) {
  std::uint64_t last = 0, end = 0;
  if (run.count > 1 && __builtin_mul_overflow(run.count - 1, stride, &last)) return true;
  return __builtin_add_overflow(offset, last, &end) ||
         __builtin_add_overflow(end, run.fragment_bytes, &end) || end > limit;
}

std::string text_of(const PageRun& run, const char* side, std::uint64_t offset,
                    std::uint64_t stride) {
  return std::to_string(run.count) + " fragments of " + std::to_string(run.fragment_bytes) +
         " bytes from " + side + "_offset " + std::to_string(offset) + " every " +
         std::to_string(stride);
}

std::optional<std::string> wrong_in_run(const PageRun& run, std::uint64_t page_bytes,
                                        std::uint64_t canonical_page_bytes) {
  const auto refuse = [](const std::string& what, const std::string& allowed) {
    return what + " is not allowed; expected " + allowed;
  };
  if (run.fragment_bytes == 0) return refuse("fragment_bytes 0", "at least 1");
  if (run.count == 0 || run.count > kPageFragmentsMax)
    return refuse("count " + std::to_string(run.count),
                  "1 to " + std::to_string(kPageFragmentsMax));
  if (leaves(run.local_offset, run.local_stride, run, page_bytes))
    return refuse(
        text_of(run, "local", run.local_offset, run.local_stride),
        "all of them within the " + std::to_string(page_bytes) + " bytes of the rank's page");
  if (leaves(run.canonical_offset, run.canonical_stride, run, canonical_page_bytes))
    return refuse(text_of(run, "canonical", run.canonical_offset, run.canonical_stride),
                  "all of them within the " + std::to_string(canonical_page_bytes) +
                      " bytes of the canonical page");
  return std::nullopt;
}

/// Two fragments that share a byte of the page that `offset` looks at.
std::optional<std::string> overlap(std::vector<PageFragment>& fragments,
                                   std::uint64_t PageFragment::*offset, const char* page) {
  std::sort(
      fragments.begin(), fragments.end(),
      [offset](const PageFragment& a, const PageFragment& b) { return a.*offset < b.*offset; });
  for (std::size_t i = 1; i < fragments.size(); ++i) {
    const PageFragment& before = fragments[i - 1];
    if (before.*offset + before.bytes > fragments[i].*offset)
      return "bytes from " + std::to_string(fragments[i].*offset) + " of the " + page +
             " page are in two fragments; expected runs that do not overlap";
  }
  return std::nullopt;
}

}  // namespace

std::vector<PageFragment> unroll_runs(const PageMapping& mapping) {
  std::vector<PageFragment> fragments;
  for (const PageRun& run : mapping.runs) {
    for (std::uint64_t i = 0; i < run.count; ++i) {
      const PageFragment next{run.local_offset + i * run.local_stride,
                              run.canonical_offset + i * run.canonical_stride, run.fragment_bytes};
      if (!fragments.empty()) {
        PageFragment& last = fragments.back();
        if (last.local_offset + last.bytes == next.local_offset &&
            last.row_offset + last.bytes == next.row_offset) {
          last.bytes += next.bytes;
          continue;
        }
      }
      fragments.push_back(next);
    }
  }
  return fragments;
}

std::optional<std::string> wrong_in_mapping(const PageMapping& mapping, std::uint64_t page_bytes) {
  if (mapping.canonical_page_bytes == 0)
    return "canonical_page_bytes 0 is not allowed; expected at least 1";
  if (mapping.num_writers == 0) return "num_writers 0 is not allowed; expected at least 1";
  if (mapping.writer >= mapping.num_writers)
    return "writer " + std::to_string(mapping.writer) +
           " is not allowed; expected below num_writers, which is " +
           std::to_string(mapping.num_writers);
  if (mapping.runs.empty()) return "there are no runs; expected at least one";
  std::uint64_t fragments = 0;
  for (std::size_t i = 0; i < mapping.runs.size(); ++i) {
    if (auto why = wrong_in_run(mapping.runs[i], page_bytes, mapping.canonical_page_bytes))
      return "run " + std::to_string(i) + ": " + *why;
    fragments += mapping.runs[i].count;
    if (fragments > kPageFragmentsMax)
      return "more than " + std::to_string(kPageFragmentsMax) +
             " fragments in a page are not allowed";
  }
  auto unrolled = unroll_runs(mapping);
  if (auto why = overlap(unrolled, &PageFragment::local_offset, "rank's")) return why;
  return overlap(unrolled, &PageFragment::row_offset, "canonical");
}

std::optional<std::string> left_out_by(const PageMapping& mapping, std::uint64_t page_bytes) {
  auto fragments = unroll_runs(mapping);
  std::sort(fragments.begin(), fragments.end(),
            [](const PageFragment& a, const PageFragment& b) { return a.local_offset < b.local_offset; });
  std::uint64_t covered = 0;
  for (const PageFragment& f : fragments) {
    if (f.local_offset > covered) break;
    covered = f.local_offset + f.bytes;
  }
  if (covered == page_bytes) return std::nullopt;
  return "bytes from " + std::to_string(covered) + " of the rank's page are in no run; expected runs that cover all " +
         std::to_string(page_bytes) +
         " of them (padding at the end belongs to the tensor's page alone: a smaller page_bytes)";
}

}  // namespace kv_offload
