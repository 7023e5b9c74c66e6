#include "kv_offload/tests/metrics/exposition.hpp"

#include <catch2/catch.hpp>

#include <cmath>
#include <limits>

namespace kv_offload::test {
namespace {

std::string error_of(const std::string& text) {
  try {
    Exposition::parse(text);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "accepted";
}

const std::string kHead = "# HELP a Help.\n# TYPE a counter\n";
const std::string kHistogram = "# HELP h Help.\n# TYPE h histogram\n";

TEST_CASE("the parser of these tests reads what a scraper reads", "[metrics][unit]") {
  const auto page = Exposition::parse(
      "# HELP a:b Help, with \"quotes\".\n# TYPE a:b counter\n"
      "a:b{tier=\"1:fs\",why=\"a\\\"b\\\\c\\nd\"} 3\n"
      "# HELP g Help.\n# TYPE g gauge\ng -1.5e-05\n"
      "# HELP h Help.\n# TYPE h histogram\nh_count 3\nh_sum 2.5\n"
      "h_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 3\n"
      "# HELP s Help.\n# TYPE s summary\ns_count 0\ns_sum 0\ns{quantile=\"0.5\"} Nan\n"
      "# HELP empty Help.\n# TYPE empty gauge\n");
  CHECK(page.families.size() == 5);
  CHECK(page.families.at("a:b").type == "counter");
  CHECK(page.families.at("a:b").help == "Help, with \"quotes\".");
  CHECK(page.families.at("empty").samples.empty());
  CHECK(page.families.at("h").samples.size() == 4);
  CHECK(page.values.at("a:b{tier=\"1:fs\",why=\"a\"b\\c\nd\"}") == 3);
  CHECK(page.values.at("g") == -1.5e-05);
  CHECK(page.values.at("h_bucket{le=\"+Inf\"}") == 3);
  CHECK(std::isnan(page.values.at("s{quantile=\"0.5\"}")));
  CHECK(page.values.size() == 9);
}

TEST_CASE("the parser of these tests names the line that a scraper would refuse",
          "[metrics][unit]") {
  struct Row {
    std::string text, error;
  };
  const std::vector<Row> rows = {
      {kHead + "a 1", "the last line does not end"},
      {"a 1\n", "line 1: a is outside its family"},
      {"# TYPE a counter\na 1\n", "line 1: TYPE of a without its HELP"},
      {"# HELP a Help.\n# TYPE a number\n", "line 2: type 'number'"},
      {kHead + "b 1\n", "line 3: b is outside its family"},
      {kHead + "a_count 1\n", "line 3: a_count is outside its family"},
      {kHead + "a 1\na 2\n", "line 4: a twice"},
      {kHead + "a{x=\"1\",x=\"2\"} 1\n", "line 3: label x twice"},
      {kHead + "a{x=\"1\"\n", "line 3: expected ','"},
      {kHead + "a{x=\"1} 1\n", "line 3: a label value does not end"},
      {kHead + "a{x=\"\\t\"} 1\n", "line 3: unknown escape"},
      {kHead + "a{x-y=\"1\"} 1\n", "line 3: expected '='"},
      {kHead + "a-b 1\n", "line 3: expected ' '"},
      {kHead + "1a 1\n", "line 3: a name is missing"},
      {kHead + "a one\n", "line 3: 'one' is no number"},
      {kHead + "a -1\n", "line 3: a is negative"},
      {kHead + "a 1\n# HELP a Again.\n", "line 4: family a twice"},
      {kHead + "the rest of a help text of two lines\n",
       "line 3: 'rest of a help text of two lines' is no number"},
      {kHistogram + "h 1\n", "line 3: h in a histogram"},
      {kHistogram + "h_bucket 1\n", "line 3: a bucket without le"},
      {kHistogram + "h_bucket{le=\"2\"} 1\nh_bucket{le=\"1\"} 1\n", "line 4: buckets do not rise"},
      {kHistogram + "h_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 1\n",
       "line 4: buckets do not rise"},
      {kHistogram + "h_bucket{le=\"1\"} 2\n", "at the end: a histogram ends without +Inf"},
      {kHistogram + "h_count 2\nh_bucket{le=\"+Inf\"} 3\n",
       "line 4: _count is not the +Inf bucket"},
      {kHistogram + "h_bucket{le=\"+Inf\"} 3\nh_count 2\n",
       "line 4: _count is not the +Inf bucket"},
  };
  for (const Row& row : rows) {
    INFO(row.text);
    CHECK(error_of(row.text) == row.error);
  }
}

}  // namespace
}  // namespace kv_offload::test
