#include "kv_offload/bench/command_line.hpp"
#include "kv_offload/bench/object_server/object_server.hpp"
#include "kv_offload/bench/progress.hpp"
#include "kv_offload/tests/bench/child_process.hpp"

#include <catch2/catch.hpp>

#include <csignal>
#include <iostream>
#include <sstream>
#include <string>

using namespace kv_offload::bench;

namespace {

int run(std::vector<const char*> arguments, std::ostream& out, std::ostream& err) {
  arguments.insert(arguments.begin(), "kv-offload-bench");
  return run_command_line(static_cast<int>(arguments.size()), arguments.data(), out, err);
}

}  // namespace

TEST_CASE("serve-objects says where it is, and at its end what was asked", "[bench][unit]") {
  const auto [status, text] = in_a_process([] {
    watch_interrupts();
    std::raise(SIGTERM);  // before it begins: it starts, says where, and ends
    std::ostringstream none;
    ::_exit(run({"serve-objects", "--bucket", "b"}, std::cerr, none));
  });
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(text.starts_with("http://127.0.0.1:"));
  CHECK(text.find(R"("bucket": "b")") != std::string::npos);
  CHECK(text.find("GET 0, PUT 0") != std::string::npos);
}

TEST_CASE("serve-objects on a port that is taken is one line and status 2", "[bench][unit]") {
  ObjectServer other;
  REQUIRE(other.start());
  std::ostringstream out, err;
  const std::string port = std::to_string(other.port());
  CHECK(run({"serve-objects", "--port", port.c_str()}, out, err) == 2);
  CHECK(err.str().find(port) != std::string::npos);
  CHECK(err.str().find('\n') == err.str().size() - 1);
  CHECK(out.str().empty());
  CHECK(run({"serve-objects", "--port", "70000"}, out, err) == 2);
}
