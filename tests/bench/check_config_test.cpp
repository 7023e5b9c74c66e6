#include "kv_offload/bench/check_config.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

using namespace kv_offload;

namespace {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "kv_offload_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
    path_ = name;
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(file(name)) << text;
    return file(name);
  }

 private:
  std::filesystem::path path_;
};

struct Outcome {
  int status = -1;
  std::string out, err;
};
Outcome check(const std::string& file, std::optional<std::string> json = {}, bool quiet = false) {
  std::ostringstream out, err;
  const int status = bench::check_config(file, std::move(json), quiet, out, err);
  return {status, out.str(), err.str()};
}
bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const std::string kGood = R"({"chunk_bytes": "16 KiB", "cpu_bytes_to_use": "16 MiB",
  "spec_name": "TieringOffloadingSpec", "primary": {"hold_share": 0}})";

}  // namespace

TEST_CASE("check-config prints every effective value, notes and warnings, and ends with 0",
          "[config]") {
  const TemporaryDirectory dir;
  const std::string file = dir.write("c.json", kGood);
  const Outcome outcome = check(file);
  CHECK(outcome.status == 0);
  CHECK(outcome.err.empty());
  CHECK(contains(outcome.out, "chunk_bytes"));
  CHECK(contains(outcome.out, "16384 bytes (16 KiB)"));
  CHECK(contains(outcome.out, "derived: cpu_bytes_to_use / row_bytes"));
  CHECK(contains(outcome.out, "note: spec_name: has no effect: "));
  CHECK(contains(outcome.out, "warning: primary.hold_share: 0 of 1024 chunks"));
  CHECK(contains(outcome.out, file + ": valid, 1 warning\n"));
  const Outcome quiet = check(file, {}, true);
  CHECK(quiet.status == 0);
  CHECK((quiet.out + quiet.err).empty());
}

TEST_CASE("check-config counts one chunk as one", "[config]") {
  const TemporaryDirectory dir;
  const std::string file = dir.write("c.json", R"({"chunk_bytes": "16 KiB",
      "cpu_bytes_to_use": "16 KiB", "domains": 1, "spin_us": 1})");
  const Outcome outcome = check(file);
  INFO(outcome.out);
  CHECK(outcome.status == 0);
  CHECK(contains(outcome.out, " 1 chunk "));
  CHECK(contains(outcome.out, "0.1 x 1 chunk\n"));
  CHECK(contains(outcome.out, "1 domain "));
  CHECK(contains(outcome.out, "1 us "));
  CHECK(contains(outcome.out, "warning: cpu_bytes_to_use: 1 chunk of 16 KiB"));
  CHECK_FALSE(contains(outcome.out, " 1 chunks"));
}

TEST_CASE("check-config ends with 2 and one line for a bad or missing file", "[config]") {
  const TemporaryDirectory dir;
  const std::string bad_value =
      dir.write("value.json", R"({"chunk_bytes": "16 KiB", "cpu_bytes_to_use": "16 MiB",
                                 "primary": {"hold_share": 3}})");
  const std::string bad_json = dir.write("json.json", "{\n  \"chunk_bytes\": 16,\n}");
  const std::string bad_sum =
      dir.write("sum.json", R"({"chunk_bytes": "16 KiB", "cpu_bytes_to_use": "16 MiB",
                                "primary": {"hold_share": 1}})");
  const std::string json = dir.file("out.json");
  for (const auto& [file, part] :
       {std::pair<std::string, std::string>{
            bad_value, "primary.hold_share: 3 is not allowed; expected a number in [0, 1]"},
        {bad_json, bad_json + ":3:1: "},
        {bad_sum, "= 1.35 is not allowed; expected a sum of at most 1"},
        {dir.file("missing.json"), "cannot be read: No such file or directory"}}) {
    INFO(file);
    const Outcome outcome = check(file, json);
    CHECK(outcome.status == 2);
    CHECK(outcome.out.empty());
    CHECK(contains(outcome.err, part));
    CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
    CHECK_FALSE(std::filesystem::exists(json));
  }
}

TEST_CASE("check-config writes the same facts as JSON", "[config]") {
  const TemporaryDirectory dir;
  const std::string file = dir.write("c.json", kGood);
  const std::string json = dir.file("out.json");
  REQUIRE(check(file, json, true).status == 0);
  std::ifstream in(json);
  const auto document = nlohmann::json::parse(in);
  CHECK(document.at("version").is_string());
  CHECK(document.at("machine").at("cores").is_number());
  CHECK(document.at("machine").at("kernel").is_string());
  CHECK(document.at("wall_seconds").is_number());
  CHECK(document.at("promises").empty());
  CHECK(document.at("warnings").size() == 1);
  CHECK(document.at("notes").size() == 1);
  bool found = false;
  for (const auto& row : document.at("effective")) {
    if (row.at("key") != "num_chunks") continue;
    found = true;
    CHECK(row.at("value") == "1024");
    CHECK(row.at("unit") == "chunks");
    CHECK(row.at("origin") == "derived: cpu_bytes_to_use / row_bytes");
  }
  CHECK(found);
}

TEST_CASE("check-config ends with 2 when its JSON file cannot be written", "[config]") {
  const TemporaryDirectory dir;
  const std::string file = dir.write("c.json", kGood);
  const Outcome outcome = check(file, dir.file("no/such/dir.json"), true);
  CHECK(outcome.status == 2);
  CHECK(contains(outcome.err, "--json: "));
  CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
}
