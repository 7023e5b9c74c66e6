#include "kv_offload/bench/serve_objects.hpp"

#include "kv_offload/bench/options.hpp"
#include "kv_offload/bench/progress.hpp"

#include <chrono>
#include <ostream>
#include <thread>

namespace kv_offload::bench {

int serve_objects(const ObjectServerOptions& options, std::ostream& out, std::ostream& err) {
  ObjectServer server(options);
  if (const auto started = server.start(); !started) {
    err << "kv-offload-bench: " << to_string(started.error()) << '\n';
    return kUsageError;
  }
  // In one line, and at once: scripts wait for it and take the endpoint from its front.
  out << server.endpoint() << R"(  {"type": "obj", "prefix": "kv", "store_config": {"bucket": ")"
      << server.bucket() << R"(", "endpoint_override": ")" << server.endpoint()
      << R"(", "access_key": "any", "secret_key": "thing"}})" << std::endl;
  while (!interrupted()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  server.stop();
  const ServerCounts counts = server.counts();
  out << "GET " << counts.gets << ", PUT " << counts.puts << ", HEAD " << counts.heads
      << ", DELETE " << counts.deletes << ", lists " << counts.lists << ", multi-object deletes "
      << counts.multi_deletes << ", others " << counts.others << "; connections "
      << counts.connections_accepted << "; bytes in " << counts.body_bytes_in << ", out "
      << counts.body_bytes_out << "; objects " << server.objects() << '\n';
  return kHeld;
}

}  // namespace kv_offload::bench
