#pragma once

#include "kv_offload/tests/support/tier_obj_fixture.hpp"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string>

namespace kv_offload::test {

/// An obj tier on the store that the environment names (tests/scripts/with_store.sh), with a prefix of its own.
class GatewayFixture : public ObjFixture {
 public:
  GatewayFixture() : GatewayFixture(Options{}) {}
  explicit GatewayFixture(const Options& options) : ObjFixture(options) {
    place("ENDPOINT");
    config.place.bucket = variable("BUCKET");
    config.place.region = variable("REGION");
    config.credentials.access_key = variable("ACCESS_KEY");
    config.credentials.secret_key = variable("SECRET_KEY");
    static std::atomic<int> next{0};
    config.prefix = "test-" + std::to_string(::getpid()) + "-" + std::to_string(next++);
  }
  [[nodiscard]] static std::string variable(const std::string& name) {
    const char* value = std::getenv(("KV_OFFLOAD_TEST_S3_" + name).c_str());
    return value == nullptr ? "" : value;
  }
  /// Takes scheme and host from that variable.
  void place(const std::string& name) {
    const std::string url = variable(name);
    const auto mark = url.find("://");
    INFO("KV_OFFLOAD_TEST_S3_" << name << "=" << url);
    REQUIRE(mark != std::string::npos);
    config.place.scheme = url.substr(0, mark);
    config.place.host = url.substr(mark + 3);
  }
};

}  // namespace kv_offload::test
