#pragma once

#include "kv_offload/messages/kv_layout.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kv_offload {

/// One contiguous piece of a page: where it lies in a rank's own page, and where in the row's page
/// of that block.
struct PageFragment {
  std::uint64_t local_offset = 0;
  std::uint64_t row_offset = 0;
  std::uint64_t bytes = 0;
  friend bool operator==(const PageFragment&, const PageFragment&) = default;
};

/// A page is cut into at most so many: beyond it a worker would hold more than 24 MiB for one
/// layer.
inline constexpr std::uint64_t kPageFragmentsMax = std::uint64_t{1} << 20;

/// What is wrong with a mapping of a page of `page_bytes`: field, value and what is allowed;
/// nothing if all is well. Runs must stay within both pages and must not overlap in either.
[[nodiscard]] std::optional<std::string> wrong_in_mapping(const PageMapping& mapping,
                                                          std::uint64_t page_bytes);

/// Bytes of the rank's page that no run of such a mapping has: they would be lost without a word.
[[nodiscard]] std::optional<std::string> left_out_by(const PageMapping& mapping,
                                                     std::uint64_t page_bytes);

/// The runs of a mapping in which nothing is wrong, unrolled in their order; neighbours that touch
/// in both pages are one fragment.
[[nodiscard]] std::vector<PageFragment> unroll_runs(const PageMapping& mapping);

}  // namespace kv_offload
