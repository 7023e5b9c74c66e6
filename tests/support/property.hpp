#pragma once

#include <catch2/catch.hpp>
#include <rapidcheck.h>

#include <sstream>
#include <string>
#include <utility>

namespace kv_offload::test {

/// Checks a rapidcheck property as part of a TEST_CASE. The failure shows the shrunk counterexample.
/// Every run takes a new seed and prints it; $RC_PARAMS repeats and stretches a run:
///   RC_PARAMS="seed=17" test_properties "name"      the same cases again
///   RC_PARAMS="max_success=1000" test_properties    ten times the usual number of cases
///   RC_PARAMS="seed=17 noshrink=1"                  quick, with the counterexample as it was drawn
/// @param cases_factor  cases for each that $RC_PARAMS says; it says 100 unless it is set
template <class Property>
void check_property(const std::string& name, int cases_factor, Property&& property) {
  using namespace rc::detail;
  TestMetadata metadata;
  metadata.id = name;
  metadata.description = name;
  TestParams params = configuration().testParams;
  params.maxSuccess *= cases_factor;
  const auto result = checkTestable(std::forward<Property>(property), metadata, params);
  std::ostringstream text;
  printResultMessage(result, text);
  INFO(text.str());
  INFO("to repeat: RC_PARAMS=\"seed=" << params.seed << "\"");
  REQUIRE(result.template is<SuccessResult>());
}

}  // namespace kv_offload::test
