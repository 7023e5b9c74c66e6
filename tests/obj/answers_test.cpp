// Every answer that a store can give: what becomes of the job or the probe, and which counter moves.
#include "kv_offload/tests/support/tier_obj_fixture.hpp"

#include <cerrno>

namespace kv_offload {
namespace {

using namespace std::chrono_literals;
using FaultKind = bench::ServerFaultKind;
using bench::ServerFault;
using test::ObjFixture;
using test::tier_key;
using test::tier_keys;
using Outcomes = std::map<std::string, double>;

struct Answer {
  std::string name;
  ServerFault fault;
  std::string outcome;  // of a GET or PUT
  TransferFailure failure = TransferFailure::io_error;
  bool is_transient = false;
};

/// A whole error document, as a store writes it.
std::string error_of(const std::string& code) {
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>" + code +
         "</Code><Message>no</Message></Error>";
}

/// What may come to any request.
std::vector<Answer> answers_to_all() {
  const auto status = [](int number, const std::string& code = "") {
    return ServerFault{.kind = FaultKind::status, .argument = number, .text = code};
  };
  const auto text = [](int number, const std::string& body) {
    return ServerFault{.kind = FaultKind::text, .argument = number, .text = body};
  };
  const auto io = TransferFailure::io_error;
  return {
      {"500", status(500), "server_error", io, true},
      {"502", text(502, "<html>Bad Gateway</html>"), "server_error", io, true},
      {"503 that says why", status(503, "SlowDown"), "throttled", io, true},
      {"503 that says something else", status(503, "ServiceUnavailable"), "server_error", io, true},
      {"503 without a word", text(503, ""), "throttled", io, true},
      {"429", status(429), "throttled", io, true},
      {"408", status(408), "timed_out", io, true},
      {"400 that means a time-out", status(400, "RequestTimeout"), "timed_out", io, true},
      {"400", status(400), "refused"},
      {"501", text(501, error_of("NotImplemented")), "server_error", io, true},
      {"401", status(401), "denied"},
      {"403", status(403), "denied"},
      {"403 without a word", text(403, ""), "denied"},
      {"403 for the key", status(403, "InvalidAccessKeyId"), "bad_credentials"},
      {"403 for the secret", status(403, "SignatureDoesNotMatch"), "bad_credentials"},
      {"400 for the token", status(400, "ExpiredToken"), "bad_credentials"},
      {"404 for the bucket", status(404, "NoSuchBucket"), "no_bucket"},
      {"another clock", {.kind = FaultKind::skew, .argument = 3600}, "clock_skew"},
      {"a redirect", {.kind = FaultKind::redirect}, "redirected"},
      {"307", text(307, ""), "redirected"},
      {"a status that no store gives", text(202, ""), "malformed", io, true},
      {"a connection that closes at once", {.kind = FaultKind::close_at_once}, "broken", io, true},
      {"garbage", {.kind = FaultKind::garbage}, "malformed", io, true},
      {"headers without end", {.kind = FaultKind::huge_headers}, "malformed", io, true},
      {"many headers",
       {.kind = FaultKind::huge_headers, .argument = 40'000},
       "malformed",
       io,
       true},
      {"silence", {.kind = FaultKind::hang}, "timed_out", io, true},
  };
}

/// With one attempt, so that each answer is seen alone.
void ask_once(ObjFixture& f) {
  f.config.retry.attempts = 1;
  f.config.breaker.failures = 0;
  f.config.request_timeout = 1s;
  f.config.probe_timeout = 1s;
}

TEST_CASE("whatever the store answers to a GET ends the load with its reason, counted once",
          "[obj][io]") {
  auto answers = answers_to_all();
  const auto corrupt = TransferFailure::corrupt;
  answers.push_back({"404",
                     {.kind = FaultKind::status, .argument = 404},
                     "not_found",
                     TransferFailure::not_found});
  answers.push_back({"404 without a word",
                     {.kind = FaultKind::text, .argument = 404},
                     "not_found",
                     TransferFailure::not_found});
  answers.push_back({"a body that ends early", {.kind = FaultKind::short_body}, "broken"});
  answers.push_back({"a connection that closes in the body",
                     {.kind = FaultKind::close_after_bytes, .argument = 5000},
                     "broken"});
  answers.push_back({"a shorter object",
                     {.kind = FaultKind::wrong_length, .argument = -1},
                     "wrong_length",
                     corrupt});
  answers.push_back({"an empty object",
                     {.kind = FaultKind::wrong_length, .argument = -(64 << 10)},
                     "wrong_length",
                     corrupt});
  answers.push_back({"a longer object",
                     {.kind = FaultKind::wrong_length, .argument = 1},
                     "wrong_length",
                     corrupt});
  answers.push_back(
      {"another byte", {.kind = FaultKind::wrong_bytes, .argument = 777}, "none", corrupt});
  answers.push_back({"a trickle", {.kind = FaultKind::trickle, .argument = 10'000}, "timed_out"});
  ObjFixture f;
  ask_once(f);
  f.start();
  std::uint64_t name = 0;
  for (Answer& a : answers) {
    INFO(a.name);
    const KeyList key = tier_keys(++name, 1);
    f.store_named(name, 1);
    const auto before = f.outcomes();
    a.fault.method = "GET";
    f.server.faults().add(a.fault);
    const JobResult result = f.load(key, 8);
    CHECK_FALSE(result.success);
    CHECK(result.fates == std::vector{KeyFate::failed});
    CHECK(result.failure == a.failure);
    CHECK(result.error_number != 0);
    CHECK(result.transfer_bytes == 0);
    CHECK(f.outcomes_since(before) == Outcomes{{a.outcome, 1}});
    f.server.faults().clear();
    // What the store has is served once it answers; what was found corrupt is not asked for again.
    const bool is_lost = a.failure == corrupt;
    if (is_lost) CHECK(f.store(key).success);
    CHECK(f.load(key, 8).success);
    CHECK(f.memory.holds(8, name));
    f.memory.clear(8);
  }
  CHECK(f.metric("kv_offload_obj_retries_total") == 0);
  CHECK(f.memory.uses() == 0);
}

TEST_CASE("whatever the store answers to a PUT ends the store with its reason, counted once",
          "[obj][io]") {
  auto answers = answers_to_all();
  answers.push_back({"404 for nothing", {.kind = FaultKind::status, .argument = 404}, "not_found"});
  answers.push_back({"a connection that closes in the body",
                     {.kind = FaultKind::close_after_bytes, .argument = 5000},
                     "broken"});
  answers.push_back({"a connection that closes before the body",
                     {.kind = FaultKind::close_after_bytes},
                     "broken"});
  answers.push_back({"a trickle", {.kind = FaultKind::trickle, .argument = 10'000}, "timed_out"});
  answers.push_back({"507", {.kind = FaultKind::status, .argument = 507}, "server_error"});
  ObjFixture f;
  ask_once(f);
  f.start();
  std::uint64_t name = 0;
  for (Answer& a : answers) {
    INFO(a.name);
    const KeyList key = tier_keys(++name, 1);
    f.memory.fill(0, name);
    const auto before = f.outcomes();
    a.fault.method = "PUT";
    f.server.faults().add(a.fault);
    const JobResult result = f.store(key);
    CHECK_FALSE(result.success);
    CHECK(result.fates == std::vector{KeyFate::failed});
    CHECK(result.failure == TransferFailure::io_error);
    CHECK(result.error_number != 0);
    CHECK(f.outcomes_since(before) == Outcomes{{a.outcome, 1}});
    f.server.faults().clear();
    CHECK(f.store(key).fates == std::vector{KeyFate::done});  // nobody claims that it was there
    CHECK(f.load(key, 8).success);
    CHECK(f.memory.holds(8, name));
  }
}

TEST_CASE("whatever the store answers to a HEAD is a miss only where the object is not there",
          "[obj][io]") {
  auto answers = answers_to_all();
  // No body says why; the store's clock does, where it is the reason.
  for (Answer& a : answers) {
    if (a.name == "503 that says something else") a.outcome = "throttled";
    if (a.name == "400 that means a time-out" || a.name == "400 for the token")
      a.outcome = "refused";
    if (a.outcome == "bad_credentials") a.outcome = "denied";
    if (a.outcome == "no_bucket") a.outcome = "not_found";
  }
  answers.push_back({"404", {.kind = FaultKind::status, .argument = 404}, "not_found"});
  answers.push_back(
      {"a shorter object", {.kind = FaultKind::wrong_length, .argument = -1}, "wrong_length"});
  answers.push_back(
      {"a longer object", {.kind = FaultKind::wrong_length, .argument = 1}, "wrong_length"});
  ObjFixture f;
  ask_once(f);
  f.start();
  f.store_named(1, 1);
  f.config.positive_ttl = Duration::zero();  // each probe asks
  f.start();
  for (Answer& a : answers) {
    INFO(a.name);
    const auto before = f.outcomes();
    a.fault.method = "HEAD";
    f.server.faults().add(a.fault);
    const bool is_miss = a.outcome == "not_found" || a.outcome == "wrong_length";
    CHECK(f.probe(tier_keys(1, 1)) ==
          std::vector{is_miss ? LookupResult::miss : LookupResult::retry});
    CHECK(f.outcomes_since(before) == Outcomes{{a.outcome, 1}});
    f.server.faults().clear();
    CHECK(f.probe(tier_keys(1, 1)) == std::vector{LookupResult::hit});
  }
}

TEST_CASE("what passes is overcome by another attempt, what stays is asked once", "[obj][io]") {
  for (Answer& a : answers_to_all()) {
    for (const char* method : {"GET", "PUT"}) {
      INFO(method << ": " << a.name);
      ObjFixture f;
      f.config.request_timeout = 500ms;
      f.start();
      f.store_named(1, 1);
      a.fault.method = method;
      a.fault.times = 2;
      f.server.faults().add(a.fault);
      const bool is_load = std::string(method) == "GET";
      f.memory.fill(1, 2);
      const JobResult result = is_load ? f.load(tier_keys(1, 1), 8) : f.store(tier_keys(2, 1), 1);
      CHECK(result.success == a.is_transient);
      // A kept connection that closes without a word is a stale one for libcurl, which asks again.
      const int seen = a.fault.kind == FaultKind::close_at_once ? 1 : 2;
      CHECK(f.metric("kv_offload_obj_retries_total") == (a.is_transient ? seen : 0));
      CHECK(f.answers(a.outcome) == (a.is_transient ? seen : 1));
      if (!a.is_transient) continue;
      if (is_load) {
        CHECK(f.memory.holds(8, 1));
      } else {
        CHECK(f.load(tier_keys(2, 1), 8).success);
        CHECK(f.memory.holds(8, 2));
      }
    }
  }
}

TEST_CASE("bodies that broke off are taken anew from their beginning", "[obj][io]") {
  ObjFixture f;
  f.start();
  f.store_named(1, 4);
  f.server.faults().add(
      {.method = "GET", .kind = FaultKind::short_body, .argument = 1, .times = 2});
  f.server.faults().add(
      {.method = "GET", .kind = FaultKind::close_after_bytes, .argument = 40'000, .times = 2});
  CHECK(f.load(tier_keys(1, 4), 8).success);
  for (ChunkId i = 0; i < 4; ++i) CHECK(f.memory.holds(8 + i, 1 + i));
  CHECK(f.answers("broken") == 4);
}

TEST_CASE("a store that says when to come back is left alone until then", "[obj][io]") {
  ObjFixture f;
  f.start();
  f.store_named(1, 1);
  ServerFault fault{.method = "GET", .kind = FaultKind::status, .argument = 429, .times = 1};
  fault.retry_after_s = 1;
  f.server.faults().add(fault);
  const auto began = f.now();
  CHECK(f.load(tier_keys(1, 1), 8).success);
  CHECK(f.now() - began >= 1s);  // the waits of the retries themselves are 5 ms at most
  // A job that cannot wait so long is told at once.
  fault.retry_after_s = 3000;
  f.server.faults().add(fault);
  TransferJob job = f.job(true, tier_keys(1, 1), 8);
  job.deadline = f.now() + 20s;
  CHECK(f.end_of(f.submit(std::move(job))).error_number == EAGAIN);
}

TEST_CASE("a connection that the store closed meanwhile costs nobody anything", "[obj][io]") {
  ObjFixture f;
  f.start();
  f.store_named(1, 1);
  f.server.faults().add({.kind = FaultKind::close_after_answer, .times = 6});
  f.memory.fill(1, 2);
  CHECK(f.load(tier_keys(1, 1), 8).success);
  CHECK(f.store(tier_keys(2, 1), 1).success);
  CHECK(f.load(tier_keys(2, 1), 9).success);
  CHECK(f.probe(tier_keys(7, 1)) == std::vector{LookupResult::miss});
  CHECK(f.memory.holds(8, 1));
  CHECK(f.memory.holds(9, 2));
  f.server.close_connections();
  CHECK(f.store(tier_keys(3, 1), 1).success);
  CHECK(f.load(tier_keys(3, 1), 8).success);
  CHECK(f.answers("broken") == 0);
  CHECK(f.metric("kv_offload_obj_retries_total") == 0);
}

TEST_CASE("412 says that the object is there, where a store was told to put nothing over it",
          "[obj][io]") {
  ObjFixture f;
  f.config.if_none_match = true;
  f.start();
  f.store_named(1, 2);
  f.start();  // a new tier, which has seen nothing
  f.memory.fill(2, 3);
  const JobResult result = f.store(tier_keys(1, 3));
  CHECK(result.success);
  CHECK(result.fates ==
        std::vector{KeyFate::already_present, KeyFate::already_present, KeyFate::done});
  CHECK(result.transfer_bytes == 64U << 10);
  CHECK(f.answers("exists") == 2);
  CHECK(f.metric("kv_offload_obj_retries_total") == 0);
  CHECK(f.probe(tier_keys(1, 3)) == std::vector(3, LookupResult::hit));
  CHECK(f.requests("head") == 0);
}

TEST_CASE("a store without a wish puts over what is there, and never asks first", "[obj][io]") {
  ObjFixture f;
  f.start();
  f.store_named(1, 1);
  f.start();
  CHECK(f.store(tier_keys(1, 1)).fates == std::vector{KeyFate::done});
  CHECK(f.store(tier_keys(1, 1)).fates ==
        std::vector{KeyFate::already_present});  // seen by this tier itself
  CHECK(f.requests("head") == 0);
}

TEST_CASE("a refusal that a wrong clock explains says by how much it is wrong", "[obj][io]") {
  ObjFixture f;
  ask_once(f);
  f.start();
  // The request of a HEAD has no body that could say why: the Date of the answer does.
  f.server.faults().add({.method = "HEAD", .kind = FaultKind::skew, .argument = -7200});
  CHECK(f.probe(tier_keys(1, 1)) == std::vector{LookupResult::retry});
  CHECK(f.answers("clock_skew") == 1);
  CHECK(f.answers("denied") == 0);
}

}  // namespace
}  // namespace kv_offload
