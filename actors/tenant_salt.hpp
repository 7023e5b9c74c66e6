#pragma once

#include <cstdint>
#include <string_view>

namespace kv_offload {

/// What keeps a tenant's keys apart from everybody else's (OffloadKey::salted): the first 8 bytes of the
/// SHA-256 of its name, so that no name can be made up that meets another's. Never 0.
std::uint64_t tenant_salt(std::string_view tenant);

}  // namespace kv_offload
