#pragma once

#include <string>
#include <string_view>

namespace kv_offload {

/// The header Content-MD5 of a body, which stores ask for with multi-object deletes; empty where this machine's
/// OpenSSL has no MD5. Not for security: it tells the store that the body arrived whole.
[[nodiscard]] std::string content_md5(std::string_view body);

}  // namespace kv_offload
