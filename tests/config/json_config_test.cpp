#include "kv_offload/actors/json_config.hpp"

#include <catch2/catch.hpp>

#include <string>

using namespace kv_offload;

TEST_CASE("JSON text becomes a tree of the same values", "[config]") {
  const auto root =
      parse_json_config(R"({"a": [1, -2, 2.5, "x", true, null, {}], "b": {"c": "µ"}})", "f");
  REQUIRE(root.has_value());
  const auto* list = root->find("a")->list();
  REQUIRE(list != nullptr);
  REQUIRE(list->size() == 7);
  CHECK(std::get<std::int64_t>((*list)[0].value()) == 1);
  CHECK(std::get<std::int64_t>((*list)[1].value()) == -2);
  CHECK(std::get<double>((*list)[2].value()) == 2.5);
  CHECK(std::get<std::string>((*list)[3].value()) == "x");
  CHECK(std::get<bool>((*list)[4].value()));
  CHECK((*list)[5].is_null());
  CHECK((*list)[6].object()->empty());
  CHECK(std::get<std::string>(root->find("b")->find("c")->value()) == "µ");
}

TEST_CASE("a JSON mistake is named by file, line, column and what was expected", "[config]") {
  const std::pair<std::string, std::string> table[] = {
      {"",
       "f.json:1:1: while parsing value - unexpected end of input; expected '[', '{', or a "
       "literal"},
      {"{\n  \"a\": 1,\n}",
       "f.json:3:1: while parsing object key - unexpected '}'; expected string literal"},
      {"{\"a\" 1}",
       "f.json:1:6: while parsing object separator - unexpected number literal; expected ':'"},
      {"{\"a\": 1 \"b\": 2}",
       "f.json:1:9: while parsing object - unexpected string literal; expected '}'"},
      {"[1 2]", "f.json:1:4: while parsing array - unexpected number literal; expected ']'"},
      {"{\"a\": tru}", "f.json:1:10: while parsing value - invalid literal; expected valid JSON"},
      {"{} {}", "f.json:1:4: while parsing value - unexpected '{'; expected end of input"},
      {"{\"a\": 1e999}", "f.json:1:7: a number is out of range; expected one that fits a double"},
      {"{\n \"a\": 1,\n \"b\": {\"a\": 2},\n \"a\": 3\n}",
       "f.json:4:2: key \"a\" is given twice; expected every key once"},
      {"// no comments\n{}",
       "f.json:1:1: while parsing value - invalid literal; expected valid JSON"},
  };
  for (const auto& [text, line] : table) {
    INFO(text);
    const auto root = parse_json_config(text, "f.json");
    REQUIRE_FALSE(root.has_value());
    CHECK(root.error().code == OffloadErrc::invalid_config);
    CHECK(root.error().detail == line);
  }
}

TEST_CASE("a JSON mistake never quotes the text, which may be a secret", "[config]") {
  for (const std::string text : {"{\"secret_key\": \"hunter2", "{\"secret_key\": \"hunter2\n\"}",
                                 "{\"secret_key\": hunter2}", "{\"secret_key\": \"hunter2\" x}"}) {
    INFO(text);
    const auto root = parse_json_config(text, "f");
    REQUIRE_FALSE(root.has_value());
    CHECK(root.error().detail.find("hunter2") == std::string::npos);
    CHECK(root.error().detail.find('\n') == std::string::npos);
  }
}

TEST_CASE("nesting and length of a document are bounded", "[config]") {
  CHECK(parse_json_config(std::string(64, '[') + std::string(64, ']'), "f").has_value());
  const auto deep = parse_json_config(std::string(65, '[') + std::string(65, ']'), "f");
  REQUIRE_FALSE(deep.has_value());
  CHECK(deep.error().detail == "f:1:65: nested too deeply; expected at most 64 levels");
  const auto deep_objects = parse_json_config(
      [] {
        std::string text;
        for (int i = 0; i < 100'000; ++i) text += "{\"a\":";
        return text;
      }(),
      "f");
  CHECK_FALSE(deep_objects.has_value());
  const auto longer = parse_json_config(std::string((4 << 20) + 1, ' '), "f");
  REQUIRE_FALSE(longer.has_value());
  CHECK(longer.error().detail == "f: 4194305 bytes; expected at most 4194304 bytes of JSON");
}

TEST_CASE("an integer beyond 64 bits does not wrap", "[config]") {
  for (const std::string written :
       {"9223372036854775808", "18446744073709551615", "18446744073709551616",
        "-9223372036854775809", "123456789012345678901234567890"}) {
    const auto root = parse_json_config("{\"a\": " + written + "}", "f");
    REQUIRE(root.has_value());
    ConfigReader reader(*root, "");
    reader.integer("a", 0, 0, 10);
    const auto error = reader.finish();
    REQUIRE(error);
    CHECK(error->detail == "a: " + written + " is not allowed; expected an integer in [0, 10]");
  }
}
