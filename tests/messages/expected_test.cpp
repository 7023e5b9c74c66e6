#include "kv_offload/messages/expected.hpp"

#include <catch2/catch.hpp>

#include <memory>
#include <set>
#include <string>

using namespace kv_offload;

TEST_CASE("an expected value is there and can be moved out", "[messages][unit]") {
  Expected<std::unique_ptr<int>> five(std::make_unique<int>(5));
  REQUIRE(five);
  CHECK(five.has_value());
  CHECK(**five == 5);
  const std::unique_ptr<int> out = std::move(five).value();
  CHECK(*out == 5);

  Expected<std::string> word(std::string("word"));
  CHECK(word->size() == 4);
  *word += "s";
  CHECK(word.value() == "words");
}

TEST_CASE("an error is there instead of a value", "[messages][unit]") {
  const Expected<Ok> failed(OffloadErrc::no_space, "chunks: 8 are not free");
  REQUIRE_FALSE(failed);
  CHECK_FALSE(failed.has_value());
  CHECK(failed.error().code == OffloadErrc::no_space);
  CHECK(to_string(failed.error()) == "chunks: 8 are not free");
  const Expected<int> same(OffloadError{OffloadErrc::deadline, ""});
  CHECK(to_string(same.error()) == "deadline");
}

TEST_CASE("a value that could be an error is still told apart", "[messages][unit]") {
  const Expected<bool> no(false);
  REQUIRE(no);
  CHECK_FALSE(*no);
}

TEST_CASE("every error code has a name of its own", "[messages][unit]") {
  std::set<std::string_view> names;
  int count = 0;
  for (int code = 1; code <= static_cast<int>(OffloadErrc::unsupported); ++code, ++count) {
    const auto name = to_string(static_cast<OffloadErrc>(code));
    CHECK(name != "unknown");
    names.insert(name);
  }
  CHECK(names.size() == static_cast<std::size_t>(count));
  CHECK(to_string(static_cast<OffloadErrc>(0)) == "unknown");
}
