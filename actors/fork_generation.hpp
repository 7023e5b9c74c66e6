#pragma once

#include <cstdint>

namespace kv_offload {

/// How many forks lie between this process and the one that first asked. Whoever owns threads remembers the
/// number it was made under: another number means a child, in which those threads do not exist. One relaxed
/// load. Not counted: vfork, posix_spawn and raw clone, whose children exec or share all.
std::uint32_t fork_generation();

/// What a call in such a child answers.
inline constexpr const char* kForkedText =
    "this process was forked while the engine ran, and the engine stayed with the parent; start an engine after fork";

}  // namespace kv_offload
