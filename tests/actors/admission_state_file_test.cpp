#include "kv_offload/actors/admission_state_file.hpp"

#include "kv_offload/actors/offload_engine.hpp"

#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>
#include <string>
#include <sys/stat.h>
#include <vector>

// The file itself, on a real disk.
using namespace kv_offload;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

struct Fixture {
  Fixture() {
    std::string name = (fs::temp_directory_path() / "kv_offload_state_XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    directory = name;
    path = name + "/state";
  }
  ~Fixture() {
    std::error_code ignored;
    fs::remove_all(directory, ignored);
  }
  using File = std::unique_ptr<AdmissionStateFile>;
  Expected<File> open(const std::string& file) {
    return AdmissionStateFile::open(file, [this](std::string_view level, const std::string& line) {
      const std::scoped_lock lock(mutex);
      log.push_back(std::string(level) + ": " + line);
    });
  }
  File must_open() {
    auto file = open(path);
    INFO((file ? "" : to_string(file.error())));
    REQUIRE(file);
    return std::move(*file);
  }
  std::string refusal(const std::string& file) {
    const auto opened = open(file);
    if (opened) return "opened";
    CHECK(opened.error().code == OffloadErrc::invalid_config);
    CHECK(opened.error().detail.find('\n') == std::string::npos);
    return opened.error().detail;
  }
  static void put(const std::string& file, const std::string& text) {
    std::ofstream(file, std::ios::binary) << text;
  }
  static std::string text_of(const std::string& file) {
    std::ostringstream text;
    text << std::ifstream(file, std::ios::binary).rdbuf();
    return text.str();
  }

  fs::path directory;
  std::string path;
  std::mutex mutex;
  std::vector<std::string> log;
};

}  // namespace

TEST_CASE_METHOD(Fixture, "what was kept last is found by the next one", "[state]") {
  {
    const auto file = must_open();
    CHECK(file->found().empty());
    for (int i = 0; i < 100; ++i) file->keep("text " + std::to_string(i));
    CHECK(file->close(60s));
  }
  CHECK(must_open()->found() == "text 99");
  CHECK_FALSE(fs::exists(path + ".tmp"));
  CHECK(log.empty());
}

TEST_CASE_METHOD(Fixture, "where nothing was kept nothing is written", "[state]") {
  put(path, "before");
  must_open();
  CHECK(text_of(path) == "before");
}

TEST_CASE_METHOD(Fixture, "a write that a crash interrupted leaves the text before it", "[state]") {
  put(path, "before");
  put(path + ".tmp", "half of the ne");
  const auto file = must_open();
  CHECK(file->found() == "before");
  CHECK_FALSE(fs::exists(path + ".tmp"));
  REQUIRE(log.size() == 1);
  CHECK(log[0].find("a write before did not end") != std::string::npos);
}

TEST_CASE_METHOD(Fixture, "an empty file is not the same as none", "[state]") {
  put(path, "");
  CHECK_FALSE(must_open()->found().empty());
}

TEST_CASE_METHOD(Fixture, "a file too large to be a state is read no further", "[state]") {
  put(path, std::string(3 * AdmissionStateFile::kBytesMax, 'x'));
  CHECK(must_open()->found().size() == AdmissionStateFile::kBytesMax);
}

TEST_CASE_METHOD(Fixture, "a second engine is refused the file until the first one is done",
                 "[state]") {
  const auto first = must_open();
  CHECK(refusal(path) == "admission_state_file: " + path +
                             ": another engine uses it; give each engine a file of its own");
  first->keep("kept");
  CHECK(first->close(60s));
  CHECK(must_open()->found() == "kept");
}

TEST_CASE_METHOD(Fixture, "a place that cannot be written is refused in one line", "[state]") {
  const std::string missing = directory.string() + "/missing/state";
  CHECK(refusal(missing) == "admission_state_file: " + missing + ": its directory " +
                                directory.string() +
                                "/missing cannot be used: No such file or directory; create it or "
                                "name another file");
  put(path, "a file");
  CHECK(refusal(path + "/state").find("Not a directory") != std::string::npos);
  fs::create_directory(directory / "folder");
  CHECK(refusal(directory.string() + "/folder").find("is not a regular file") != std::string::npos);
  CHECK_FALSE(fs::exists(directory / "folder.lock"));  // nothing is made beside what is refused
  // Even root creates no file there.
  CHECK(refusal("/proc/state").find("cannot be written: ") != std::string::npos);
  fs::create_directory(directory / "closed");
  fs::permissions(directory / "closed", fs::perms::owner_read | fs::perms::owner_exec);
  if (::geteuid() != 0)
    CHECK(refusal(directory.string() + "/closed/state").find("Permission denied") !=
          std::string::npos);
}

TEST_CASE_METHOD(Fixture, "a write that fails is said once and made good at the end", "[state]") {
  const auto file = must_open();
  fs::create_directory(path);  // a rename over a directory fails
  file->keep("a");
  const auto said = [&] {
    const std::scoped_lock lock(mutex);
    return log.size();
  };
  while (said() == 0) std::this_thread::yield();
  CHECK(log[0].starts_with("error: admission_state_file: " + path + ": cannot be written: "));
  fs::remove(path);
  CHECK(file->close(60s));
  CHECK(text_of(path) == "a");
  CHECK(said() == 2);
  CHECK(log[1] == "info: admission_state_file: " + path + ": written again");
}

namespace {

Expected<std::unique_ptr<OffloadEngine>> start_engine(const std::string& state) {
  auto config = EngineConfig::parse(
      R"({"chunk_bytes": 4096, "cpu_bytes_to_use": "1 MiB", "log_level": "off",
          "secondary_tiers": [{"type": "example"}], "admission_policy": {"type": "write_budget",
          "bytes_per_day": "1 MiB", "peak_bytes": 262144}, "admission_state_file": ")" +
      state + "\"}");
  REQUIRE(config);
  return OffloadEngine::start(*config);
}

/// What the one gate says: the bytes left come first.
double bytes_left(OffloadEngine& engine) {
  const auto stats = engine.stats().get();
  REQUIRE(stats);
  for (const auto& gate : stats->admission.gates)
    if (gate.gate == "write_budget") return std::stod(gate.text);
  FAIL("no budget");
  return 0;
}

void store(OffloadEngine& engine, unsigned char name, std::size_t n) {
  const auto request =
      engine.new_request({.req_id = std::string(1, static_cast<char>(name))}).get();
  REQUIRE(request);
  KeyList keys;
  for (std::size_t i = 0; i < n; ++i) {
    const std::byte hash[32] = {std::byte{name}, static_cast<std::byte>(i)};
    keys.push_back(*OffloadKey::make(hash, 0));
  }
  const auto plan = engine.prepare_store(*request, keys).get();
  REQUIRE(plan);
  REQUIRE(engine.complete_store(plan->lease, {.success = true, .wait_cascades = true}).get());
}

}  // namespace

TEST_CASE_METHOD(Fixture, "an engine that starts again goes on with its write budget",
                 "[state][engine]") {
  {
    auto engine = start_engine(path);
    INFO((engine ? "" : to_string(engine.error())));
    REQUIRE(engine);
    CHECK(bytes_left(**engine) == 262144);
    store(**engine, 'a', 20);
    CHECK(bytes_left(**engine) < 262144 - 19 * 4096);
    const auto second = start_engine(path);
    REQUIRE_FALSE(second);
    CHECK(second.error().detail.find("another engine uses it") != std::string::npos);
    CHECK((*engine)->shutdown());
    auto next = start_engine(path);  // before the object of the first one is gone
    REQUIRE(next);
  }
  auto engine = start_engine(path);
  REQUIRE(engine);
  // 9 bytes a second come back: a minute of a slow machine is less than a chunk.
  CHECK(bytes_left(**engine) < 262144 - 19 * 4096);
  CHECK(bytes_left(**engine) > 262144 - 21 * 4096);
}

TEST_CASE_METHOD(Fixture, "an engine starts with a damaged state and an empty budget",
                 "[state][engine]") {
  const std::string damaged = "kv_offload admission 1\nwrite_budget 1 17";
  put(path, damaged);
  {
    auto engine = start_engine(path);
    REQUIRE(engine);
    CHECK(bytes_left(**engine) < 4096);
    CHECK(text_of(path) == damaged);  // until there is something to put in its place
  }
}

TEST_CASE_METHOD(Fixture, "what could not be used is kept aside when it is replaced", "[state]") {
  put(path, "what a person might still read");
  {
    auto file = must_open();
    file->keep_aside();
    CHECK(text_of(path) == "what a person might still read");
    file->keep("new");
    CHECK(file->close(10s));
  }
  CHECK(text_of(path) == "new");
  CHECK(text_of(AdmissionStateFile::aside(path)) == "what a person might still read");
  {
    auto file = must_open();  // sound: nothing goes aside
    file->keep("newer");
    CHECK(file->close(10s));
  }
  CHECK(text_of(path) == "newer");
  CHECK(text_of(AdmissionStateFile::aside(path)) == "what a person might still read");
}

TEST_CASE_METHOD(Fixture, "an engine without a place for its state does not start",
                 "[state][engine]") {
  const auto engine = start_engine(directory.string() + "/missing/state");
  REQUIRE_FALSE(engine);
  CHECK(engine.error().code == OffloadErrc::invalid_config);
  CHECK(engine.error().detail.starts_with("admission_state_file: "));
}
