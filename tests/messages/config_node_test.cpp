#include "kv_offload/messages/config_node.hpp"

#include <catch2/catch.hpp>

using namespace kv_offload;

namespace {

ConfigNode object(ConfigNode::Object fields) { return ConfigNode(std::move(fields)); }
ConfigNode text(const char* s) { return ConfigNode(std::string(s)); }
ConfigNode integer(std::int64_t i) { return ConfigNode(i); }
ConfigNode number(double d) { return ConfigNode(d); }

/// The line of the first error, or "" if there is none.
std::string line_of(ConfigReader& reader) {
  const auto error = reader.finish();
  if (!error) return {};
  CHECK(error->code == OffloadErrc::invalid_config);
  return error->detail;
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("what is said is read, what is not said has its default", "[messages][unit]") {
  const auto node = object({{"share", number(0.25)},
                            {"whole", integer(2)},
                            {"count", integer(-7)},
                            {"on", ConfigNode(true)},
                            {"name", text("n")},
                            {"mode", text("observe")}});
  ConfigReader reader(node, "tier");
  CHECK(reader.number("share", 9, 0, 1) == 0.25);
  CHECK(reader.number("whole", 9, 0, 3) == 2.0);  // an integer is a number
  CHECK(reader.integer("count", 9, -10, 10) == -7);
  CHECK(reader.boolean("on", false));
  CHECK(reader.string("name", "d") == "n");
  CHECK(reader.choice("mode", "off", {"off", "observe"}) == "observe");
  CHECK(reader.number("a", 0.5, 0, 1) == 0.5);
  CHECK(reader.integer("b", 3, 0, 10) == 3);
  CHECK(reader.boolean("c", true));
  CHECK(reader.string("d", "d") == "d");
  CHECK(reader.choice("e", "off", {"off"}) == "off");
  CHECK(reader.has("share"));
  CHECK_FALSE(reader.has("a"));
  CHECK(reader.child("a") == nullptr);
  CHECK_FALSE(reader.failed());
  CHECK(line_of(reader).empty());
}

TEST_CASE("a number outside its range is an error with path, value and range", "[messages][unit]") {
  const auto read = [](const ConfigNode& value, double min, double max, bool exclusive) {
    const auto node = object({{"x", value}});
    ConfigReader reader(node, "a.b[2]");
    const double got = reader.number("x", 0.5, min, max, exclusive);
    CHECK(got == (reader.failed() ? 0.5 : 1.0));
    return line_of(reader);
  };
  CHECK(read(number(1.0), 0, 1, false).empty());
  CHECK(read(integer(1), 0, 1, false).empty());
  CHECK(read(number(1.0), 1, 2, false).empty());
  CHECK(read(number(1.0), 1, 2, true) ==
        "a.b[2].x: 1.0 is not allowed; expected a number in (1, 2]");
  CHECK(read(number(1.5), 0, 1, false) ==
        "a.b[2].x: 1.5 is not allowed; expected a number in [0, 1]");
  CHECK(read(number(-0.25), 0, kInfinity, false) ==
        "a.b[2].x: -0.25 is not allowed; expected a number in [0, inf]");
  CHECK(read(number(std::nan("")), 0, 1, false) ==
        "a.b[2].x: nan is not allowed; expected a number in [0, 1]");
  CHECK(read(text("1"), 0, 0.5, false) ==
        "a.b[2].x: \"1\" is not allowed; expected a number in [0, 0.5]");
  CHECK(read(ConfigNode(true), 0, 1, false) ==
        "a.b[2].x: true is not allowed; expected a number in [0, 1]");
  CHECK(read(ConfigNode(nullptr), 0, 1, false) ==
        "a.b[2].x: null is not allowed; expected a number in [0, 1]");
}

TEST_CASE("an integer must be one, in range", "[messages][unit]") {
  const auto read = [](const ConfigNode& value) {
    const auto node = object({{"n", value}});
    ConfigReader reader(node, "");
    const auto got = reader.integer("n", 5, 1, 10);
    CHECK(got == (reader.failed() ? 5 : 10));
    return line_of(reader);
  };
  CHECK(read(integer(10)).empty());
  CHECK(read(integer(0)) == "n: 0 is not allowed; expected an integer in [1, 10]");
  CHECK(read(integer(11)) == "n: 11 is not allowed; expected an integer in [1, 10]");
  CHECK(read(number(2.0)) == "n: 2.0 is not allowed; expected an integer in [1, 10]");
  CHECK(read(text("2")) == "n: \"2\" is not allowed; expected an integer in [1, 10]");
}

TEST_CASE("the other types are checked too", "[messages][unit]") {
  const auto node = object({{"flag", integer(1)},
                            {"name", ConfigNode(false)},
                            {"mode", text("Off")},
                            {"kind", integer(3)}});
  {
    ConfigReader reader(node, "p");
    CHECK(reader.boolean("flag", true));
    CHECK(line_of(reader) == "p.flag: 1 is not allowed; expected true or false");
  }
  {
    ConfigReader reader(node, "p");
    CHECK(reader.string("name", "d") == "d");
    CHECK(line_of(reader) == "p.name: false is not allowed; expected a string");
  }
  {
    ConfigReader reader(node, "p");
    CHECK(reader.choice("mode", "on", {"off", "on"}) == "on");
    CHECK(line_of(reader) == "p.mode: \"Off\" is not allowed; expected one of: off, on");
  }
  {
    ConfigReader reader(node, "p");
    CHECK(reader.choice("kind", "on", {"off", "on"}) == "on");
    CHECK(line_of(reader) == "p.kind: 3 is not allowed; expected one of: off, on");
  }
}

TEST_CASE("a key that nobody asked for is an error that lists the known ones", "[messages][unit]") {
  const auto node = object({{"alhpa", number(1)}, {"alpha", number(1)}});
  ConfigReader reader(node, "policy");
  reader.number("alpha", 0, 0, 1);
  reader.boolean("fast", false);
  CHECK(line_of(reader) == "policy.alhpa: unknown key; known here: alpha, fast");
}

TEST_CASE("the first error is the one reported", "[messages][unit]") {
  const auto node = object({{"a", integer(100)}, {"b", integer(100)}, {"unknown", integer(1)}});
  ConfigReader reader(node, "");
  reader.integer("b", 0, 0, 1);
  reader.integer("a", 0, 0, 1);
  reader.fail("a line of its own");
  CHECK(reader.failed());
  CHECK(line_of(reader) == "b: 100 is not allowed; expected an integer in [0, 1]");
}

TEST_CASE("a value that is no object is an error and reads as defaults", "[messages][unit]") {
  const ConfigNode node =
      GENERATE(ConfigNode(std::int64_t{7}), ConfigNode(ConfigNode::List{}), ConfigNode(nullptr));
  ConfigReader named(node, "tiers[1]");
  CHECK(named.number("x", 0.5, 0, 1) == 0.5);
  CHECK_FALSE(named.has("x"));
  CHECK(line_of(named) == "tiers[1]: " + node.text() + " is not allowed; expected an object");
  ConfigReader top(node, "");
  CHECK(line_of(top) == "configuration: " + node.text() + " is not allowed; expected an object");
}

TEST_CASE("fail names the path of its key", "[messages][unit]") {
  const auto node = object({{"low", number(2)}});
  ConfigReader reader(node, "p");
  reader.child("low");
  reader.fail("low", *node.find("low"), "at most high (1)");
  CHECK(line_of(reader) == "p.low: 2.0 is not allowed; expected at most high (1)");
}

TEST_CASE("values are shown as written, and shortened", "[messages][unit]") {
  CHECK(ConfigNode(nullptr).text() == "null");
  CHECK(ConfigNode(true).text() == "true");
  CHECK(integer(-3).text() == "-3");
  CHECK(number(0.25).text() == "0.25");
  CHECK(number(100.0).text() == "100.0");
  CHECK(text("x").text() == "\"x\"");
  CHECK(text(std::string(500, 'y').c_str()).text() == '"' + std::string(80, 'y') + '"');
  CHECK(ConfigNode(ConfigNode::List{integer(1), integer(2)}).text() == "a list of 2");
  CHECK(object({{"a", integer(1)}}).text() == "an object");
}

TEST_CASE("kinds have names", "[messages][unit]") {
  CHECK(ConfigNode(nullptr).kind() == "null");
  CHECK(ConfigNode(true).kind() == "a boolean");
  CHECK(integer(1).kind() == "an integer");
  CHECK(number(1).kind() == "a number");
  CHECK(text("").kind() == "a string");
  CHECK(ConfigNode(ConfigNode::List{}).kind() == "a list");
  CHECK(ConfigNode().kind() == "an object");
}

TEST_CASE("a fresh node is an empty object, not null", "[messages][unit]") {
  const ConfigNode node;
  REQUIRE(node.object() != nullptr);
  CHECK(node.object()->empty());
  CHECK_FALSE(node.is_null());
  CHECK(node.find("x") == nullptr);
  CHECK(integer(1).find("x") == nullptr);
}
