#include "kv_offload/tests/config/config_lines.hpp"

#include <catch2/catch.hpp>

#include <random>
#include <string>

using namespace kv_offload;

namespace {

const std::string kDocument = R"({"chunk_bytes": "16 KiB", "cpu_bytes_to_use": 1073741824,
  "primary": {"headroom_share": 0.2, "hold": false}, "secondary_tiers": [
    {"type": "fs", "root_dir": "/a", "pin_share": 0.1, "backpressure": null}],
  "admission_policy": {"type": "composite", "policies": [{"type": "always_admit"}]},
  "identity": {"model_name": "m", "kv_cache_groups": [{"tokens_per_block": 8, "layer_names": ["l"]}]},
  "deadlines": {"load_ms": 1}, "metrics": {"port": 0}, "domains": "auto"})";

std::string mutated(std::mt19937_64& random) {
  static const std::string kBytes = "{}[]\",:0-.eE9tfn\\u \n\x7f\xff";
  std::string text = kDocument;
  for (auto changes = 1 + random() % 3; changes > 0 && !text.empty(); --changes) {
    const std::size_t at = random() % text.size();
    const char byte = kBytes[random() % kBytes.size()];
    switch (random() % 4) {
      case 0: text[at] = byte; break;
      case 1: text.insert(at, 1, byte); break;
      case 2: text.erase(at, 1 + random() % 8); break;
      default: text.resize(at + 1); break;
    }
  }
  return text;
}

}  // namespace

TEST_CASE("a damaged document is either good or refused in one line", "[config]") {
  const auto seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  REQUIRE(line_about(kDocument) == "valid");
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    const std::string text = mutated(random);
    const std::string line = line_about(text);
    if (line == "valid") continue;
    ++refused;
    if (line.empty() || line.find('\n') != std::string::npos) {
      INFO(text);
      INFO(line);
      FAIL("not one line");
    }
  }
  CHECK(refused > 1000);
}
