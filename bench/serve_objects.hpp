#pragma once

#include "kv_offload/bench/object_server/object_server.hpp"

#include <iosfwd>

namespace kv_offload::bench {

/// `serve-objects`: an object store in memory, for whoever has none at hand. Says where it listens and how an engine
/// is told, serves until the program is interrupted, then says what was asked.
///
/// @return 0, or 2 with one line on `err`: the port is taken
int serve_objects(const ObjectServerOptions& options, std::ostream& out, std::ostream& err);

}  // namespace kv_offload::bench
