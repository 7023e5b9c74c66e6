#pragma once

#include <string>
#include <string_view>

namespace kv_offload {

/// Does an Accept or Accept-Encoding header take `name`? One with q=0 is refused; wildcards do not
/// count: who writes them has no wish.
[[nodiscard]] bool accepts(std::string_view header, std::string_view name);

/// The body in gzip's format; empty if it cannot be compressed.
[[nodiscard]] std::string gzip(std::string_view body);

}  // namespace kv_offload
