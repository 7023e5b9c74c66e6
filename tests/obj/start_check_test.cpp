// What a start says when the store is not what the configuration says: what to change, in one line.
#include "kv_offload/tests/support/tier_obj_fixture.hpp"

#include <algorithm>

namespace kv_offload {
namespace {

using namespace std::chrono_literals;
using FaultKind = bench::ServerFaultKind;
using test::becomes_true;
using test::ObjFixture;
using test::tier_keys;

/// Fast to give up.
void ask_once(ObjFixture& f) {
  f.config.retry.attempts = 1;
  f.config.request_timeout = 1s;
}
/// The line, which has no secret and one line.
std::string line_of(ObjFixture& f, OffloadErrc code) {
  const auto started = f.try_start();
  REQUIRE_FALSE(started);
  CHECK(started.error().code == code);
  const std::string& line = started.error().detail;
  CHECK(line.find("must-not-be-shown") == std::string::npos);
  CHECK(line.find('\n') == std::string::npos);
  CHECK(line.starts_with("1:obj: "));
  CHECK(line.size() < 1200);
  return line;
}
bool has(const std::string& line, const std::string& part) {
  INFO(line);
  CHECK(line.find(part) != std::string::npos);
  return line.find(part) != std::string::npos;
}

TEST_CASE("a start tries to read, to write, to read back and to remove, and leaves nothing",
          "[obj][io]") {
  ObjFixture f;
  f.config.prefix = GENERATE(as<std::string>{}, "", "p");
  f.start();
  const auto counts = f.server.counts();
  CHECK(counts.gets == 2);
  CHECK(counts.puts == 1);
  CHECK(counts.deletes == 1);
  CHECK(f.server.objects() == 0);
  const std::string name = (f.config.prefix.empty() ? "" : f.config.prefix + "/") +
                           "__kv_offload_probe__/connectivity_test";
  for (const bench::SeenRequest& request : f.server.requests()) CHECK(request.key == name);
  has(f.log(), "credentials of the configuration");
  has(f.log(), "http: chunks travel unencrypted");
}

TEST_CASE("what says yes to everything is no store", "[obj][io]") {
  ObjFixture f;
  ask_once(f);
  f.server.faults().add(
      {.method = "GET", .kind = FaultKind::text, .argument = 200, .text = "<html>hello</html>"});
  has(line_of(f, OffloadErrc::io_error), "it gave back other bytes than were written");
}

TEST_CASE("what a store repeats of the credentials is not shown", "[obj][io]") {
  ObjFixture f;
  ask_once(f);
  const auto& keys = f.config.credentials;
  f.server.faults().add({.kind = FaultKind::text,
                         .argument = 403,
                         .text = "<Error><Code>AccessDenied</Code><Message>key " + keys.access_key +
                                 " with " + keys.secret_key + " may not</Message></Error>"});
  has(line_of(f, OffloadErrc::invalid_config), "key *** with *** may not");
}

TEST_CASE("what libcurl says of a proxy is said without what it was given", "[obj][io]") {
  ObjFixture f;
  ask_once(f);
  f.config.proxy =
      GENERATE(as<std::string>{}, "ftp://u:must-not-be-shown@x", "http://u:must-not-be-shown/y@x:1",
               "http://u:must-not-be-shown@x:port");
  has(line_of(f, OffloadErrc::io_error), "not reachable");
}

TEST_CASE("a silent store ends a start within its time", "[obj][io]") {
  ObjFixture f;
  f.config.request_timeout = 300ms;
  f.config.retry.attempts = 4;
  f.server.faults().add({.kind = FaultKind::hang});
  const auto began = std::chrono::steady_clock::now();
  has(line_of(f, OffloadErrc::io_error), "did not answer in time");
  CHECK(std::chrono::steady_clock::now() - began < 1150ms);  // four attempts would be 1.2 s
}

TEST_CASE("a store that cannot be reached is named with the key that says where it is",
          "[obj][io]") {
  ObjFixture f;
  ask_once(f);
  SECTION("a closed port") { f.server.stop(); }
  SECTION("a name that is none") { f.config.place.host = "no-such-host.invalid"; }
  const std::string line = line_of(f, OffloadErrc::io_error);
  has(line, "endpoint_override");
  has(line, f.config.place.host);
}

TEST_CASE("HTTPS at a port that speaks HTTP names the scheme", "[obj][io]") {
  ObjFixture f;
  ask_once(f);
  f.config.place.scheme = "https";
  has(line_of(f, OffloadErrc::io_error), "store_config.scheme");
}

TEST_CASE("whoever answers with something else is no store", "[obj][io]") {
  ObjFixture f;
  ask_once(f);
  SECTION("not HTTP") { f.server.faults().add({.kind = FaultKind::garbage}); }
  SECTION("a page for people") {
    f.server.faults().add({.kind = FaultKind::text,
                           .argument = 400,
                           .text = "<html>The plain HTTP request was sent to HTTPS port</html>"});
  }
  SECTION("headers without end") { f.server.faults().add({.kind = FaultKind::huge_headers}); }
  const std::string line = line_of(f, OffloadErrc::io_error);
  has(line, "no answer of an S3 store");
  has(line, "store_config.scheme");
}

TEST_CASE("a silent store is said not to answer in time", "[obj][io]") {
  ObjFixture f;
  ask_once(f);
  f.server.faults().add({.kind = FaultKind::hang});
  has(line_of(f, OffloadErrc::io_error), "request_timeout_ms");
}

TEST_CASE("a missing bucket is named", "[obj][io]") {
  ObjFixture f;
  ask_once(f);
  f.config.place.bucket = "nobody";
  const std::string line = line_of(f, OffloadErrc::invalid_config);
  has(line, "no bucket \"nobody\"");
  has(line, "store_config.bucket");
}

TEST_CASE("missing rights are named, with what was tried", "[obj][io]") {
  ObjFixture f;
  ask_once(f);
  const std::string method = GENERATE(as<std::string>{}, "GET", "PUT", "DELETE");
  if (method == "DELETE") f.config.capacity_bytes = 1 << 20;
  f.server.faults().add({.method = method, .kind = FaultKind::status, .argument = 403});
  const std::string line = line_of(f, OffloadErrc::invalid_config);
  has(line, method == "GET"   ? "may not read"
            : method == "PUT" ? "may not write"
                              : "may not remove");
  has(line, method == "GET"   ? "s3:GetObject"
            : method == "PUT" ? "s3:PutObject"
                              : "s3:DeleteObject");
  has(line, "credentials of the configuration");
}

TEST_CASE("without a capacity nothing needs to be removed, and a line says what is lost",
          "[obj][io]") {
  ObjFixture f;
  f.server.faults().add({.method = "DELETE", .kind = FaultKind::status, .argument = 403});
  f.start();
  has(f.log(), "objects cannot be removed here");
  f.store_named(1, 1);
}

TEST_CASE("credentials that nobody knows are named by their source", "[obj][io]") {
  ObjFixture f;
  ask_once(f);
  const std::string code =
      GENERATE(as<std::string>{}, "InvalidAccessKeyId", "SignatureDoesNotMatch");
  f.server.faults().add({.kind = FaultKind::status, .argument = 403, .text = code});
  const std::string line = line_of(f, OffloadErrc::invalid_config);
  has(line, code);
  has(line, "does not accept the credentials of the configuration");
  has(line, "secret key");
}

TEST_CASE("a wrong clock is said with its direction and its size", "[obj][io]") {
  ObjFixture f;
  ask_once(f);
  const int ahead = GENERATE(3600, -3600);
  f.server.faults().add({.kind = FaultKind::skew, .argument = ahead});
  const std::string line = line_of(f, OffloadErrc::io_error);
  // To the second, but for one that passes in between.
  CHECK((line.find("3600 s") != std::string::npos || line.find("3599 s") != std::string::npos ||
         line.find("3601 s") != std::string::npos));
  has(line, ahead > 0 ? "behind the store's" : "ahead of the store's");
}

TEST_CASE("a bucket elsewhere is named with its region", "[obj][io]") {
  ObjFixture f;
  ask_once(f);
  f.server.faults().add({.kind = FaultKind::redirect, .text = "eu-west-9"});
  const std::string line = line_of(f, OffloadErrc::invalid_config);
  has(line, "store_config.region");
  has(line, "eu-west-9");
}

TEST_CASE("what a store says in anger stands in the line without its control characters",
          "[obj][io]") {
  ObjFixture f;
  ask_once(f);
  f.server.faults().add({.kind = FaultKind::text,
                         .argument = 403,
                         .text = "<Error><Code>Bad&#10;Code</Code><Message>\033[31m" +
                                 std::string(5000, 'm') + "\nnext line</Message></Error>"});
  const std::string line = line_of(f, OffloadErrc::invalid_config);
  CHECK(line.find('\033') == std::string::npos);
}

TEST_CASE("a start tries again before it gives up", "[obj][io]") {
  ObjFixture f;
  f.server.faults().add({.kind = FaultKind::status, .argument = 500, .times = 3});
  f.start();
  CHECK(f.metric("kv_offload_obj_retries_total") == 3);
}

TEST_CASE("a start that may go on without the store does, and works once the store is there",
          "[obj][io]") {
  ObjFixture f;
  ask_once(f);
  f.config.start_unreachable = true;
  f.config.breaker = {.failures = 3, .open = 1ms, .open_max = 5ms};
  f.server.stop();
  f.start();
  has(f.log(), "started all the same");
  CHECK(f.probe(tier_keys(1, 1)) == std::vector{LookupResult::retry});
  CHECK_FALSE(f.store(tier_keys(1, 1)).success);
  REQUIRE(f.server.start());
  f.memory.fill(0, 1);
  CHECK(becomes_true([&] { return f.store(tier_keys(1, 1)).success; }));
  CHECK(f.load(tier_keys(1, 1), 8).success);
}

TEST_CASE("a wrong configuration is none that a start goes on with", "[obj][io]") {
  ObjFixture f;
  ask_once(f);
  f.config.start_unreachable = true;
  f.config.place.bucket = "nobody";
  has(line_of(f, OffloadErrc::invalid_config), "store_config.bucket");
}

TEST_CASE("whoever trusts any certificate is told at every start", "[obj][io]") {
  ObjFixture f;
  f.config.insecure_skip_verify = true;
  f.config.without_effect = {"io_threads"};
  f.start();
  has(f.log(), "insecure_skip_verify");
  has(f.log(), "io_threads is without effect");
}

}  // namespace
}  // namespace kv_offload
