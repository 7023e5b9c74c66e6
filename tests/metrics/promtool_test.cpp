#include "kv_offload/actors/engine_metrics.hpp"
#include "kv_offload/tests/config/config_lines.hpp"
#include "kv_offload/tests/metrics/known_stats.hpp"
#include "kv_offload/tests/support/tier_directory.hpp"

#include <catch2/catch.hpp>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace kv_offload::test {
namespace {

TEST_CASE("promtool accepts the page, the reference's names with a colon excepted",
          "[metrics][unit]") {
  if (std::system("command -v promtool > /dev/null 2>&1") != 0) {
    WARN("skipped: promtool is not installed (Debian package prometheus)");
    return;
  }
  const TierDirectory directory;
  const std::string page = directory.path() + "/page", findings = directory.path() + "/findings";
  // With a policy of which nothing is known yet: declared, no samples.
  auto config =
      good_config(document(R"("secondary_tiers": [{"type": "example", "backpressure": {}}], )"
                           R"("admission_policy": {"type": "cascade_backpressure"})"));
  config.tokens_per_chunk = config_with_everything().tokens_per_chunk;
  config.store_threshold = config_with_everything().store_threshold;
  std::ofstream(page) << render_metrics(known_stats(), metric_definitions(config));
  const std::string command = "promtool check metrics < '" + page + "' > '" + findings + "' 2>&1";
  const int status = std::system(command.c_str());
  std::ifstream lines(findings);
  std::size_t num_colons = 0;
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    const bool is_colon =
        line.starts_with("vllm:") && line.ends_with(" metric names should not contain ':'");
    CHECK(is_colon);
    num_colons += is_colon ? 1U : 0U;
  }
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 3);  // it found something to say, and could read the page
  CHECK(num_colons > 20);
}

}  // namespace
}  // namespace kv_offload::test
