#pragma once

#include <string>
#include <string_view>

namespace kv_offload {

/// S3's canonical encoding: the unreserved characters of RFC 3986 (letters, digits, '-', '.', '_', '~') stay,
/// every other byte becomes %XX in upper case. A path keeps its slashes, a query does not.
[[nodiscard]] std::string uri_encode(std::string_view text, bool keep_slash);

/// Undoes what stores do for encoding-type=url: %XX in either case, '+' is a space. A '%' without two hex digits
/// stays as it is, as in other clients: such a key is somebody else's.
[[nodiscard]] std::string url_decode(std::string_view text);

}  // namespace kv_offload
