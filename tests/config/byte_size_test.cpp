#include "kv_offload/messages/byte_size.hpp"

#include <catch2/catch.hpp>

#include <cstdint>
#include <limits>
#include <string>

using namespace kv_offload;

TEST_CASE("sizes are read in bytes, KiB, MiB, GiB and TiB", "[config]") {
  const std::pair<const char*, std::uint64_t> table[] = {
      {"0", 0},
      {"512", 512},
      {"512B", 512},
      {"512 B", 512},
      {"16 KiB", 16384},
      {"1MiB", 1 << 20},
      {"2GiB", std::uint64_t{2} << 30},
      {"3 TiB", std::uint64_t{3} << 40},
      {"18446744073709551615", std::numeric_limits<std::uint64_t>::max()},
      {"16777215 TiB", std::uint64_t{16777215} << 40},
  };
  for (const auto& [text, bytes] : table) {
    INFO(text);
    const auto parsed = parse_bytes(text);
    REQUIRE(parsed.has_value());
    CHECK(*parsed == bytes);
  }
}

TEST_CASE("text that is not a size is refused in one line that quotes it", "[config]") {
  for (const std::string text : {"", " ", "GiB", "1.5 GiB", "1 GB", "1 kib", "-1", "+1", "16  KiB",
                                 "16 KiB ", " 16", "16 ", "0x10", "16 KiB16", "1\nKiB"}) {
    INFO(text);
    const auto parsed = parse_bytes(text);
    REQUIRE_FALSE(parsed.has_value());
    CHECK(parsed.error().detail.find('\n') == std::string::npos);
    CHECK(parsed.error().detail.find("expected a whole number of bytes, KiB, MiB, GiB or TiB") !=
          std::string::npos);
  }
  CHECK(parse_bytes("1 GB").error().detail ==
        "\"1 GB\" is not allowed; expected a whole number of bytes, KiB, MiB, GiB or TiB");
}

TEST_CASE("a size that does not fit 64 bits is refused, not wrapped", "[config]") {
  for (const char* text : {"18446744073709551616", "16777216 TiB", "18014398509481984 KiB"}) {
    INFO(text);
    const auto parsed = parse_bytes(text);
    REQUIRE_FALSE(parsed.has_value());
    CHECK(parsed.error().detail.find("below 16 EiB") != std::string::npos);
  }
}

TEST_CASE("a formatted size reads back as the same number", "[config]") {
  CHECK(format_bytes(0) == "0 B");
  CHECK(format_bytes(4097) == "4097 B");
  CHECK(format_bytes(16384) == "16 KiB");
  CHECK(format_bytes(3 << 20) == "3 MiB");
  for (std::uint64_t bytes : {std::uint64_t{1}, std::uint64_t{1023}, std::uint64_t{1} << 20,
                              (std::uint64_t{1} << 20) + 1024, std::uint64_t{1} << 63,
                              std::numeric_limits<std::uint64_t>::max()})
    CHECK(*parse_bytes(format_bytes(bytes)) == bytes);
}

TEST_CASE("a size in a configuration may be an integer, a whole number or a string", "[config]") {
  const auto read = [](ConfigNode value) {
    const ConfigNode node(ConfigNode::Object{{"size", std::move(value)}});
    ConfigReader reader(node, "x");
    const std::uint64_t bytes = read_bytes(reader, "size", 7, 1, std::uint64_t{1} << 40);
    const auto error = reader.finish();
    return error ? error->detail : std::to_string(bytes);
  };
  CHECK(read(ConfigNode(std::int64_t{4096})) == "4096");
  CHECK(read(ConfigNode(8e9)) == "8000000000");
  CHECK(read(ConfigNode(std::string("4 KiB"))) == "4096");
  const std::string expected =
      " is not allowed; expected a whole number of bytes, KiB, MiB, GiB or TiB in [1 B, 1 TiB]";
  CHECK(read(ConfigNode(std::int64_t{0})) == "x.size: 0" + expected);
  CHECK(read(ConfigNode(std::int64_t{-1})) == "x.size: -1" + expected);
  CHECK(read(ConfigNode(1.5)) == "x.size: 1.5" + expected);
  CHECK(read(ConfigNode(true)) == "x.size: true" + expected);
  CHECK(read(ConfigNode(std::string("2 TiB"))) == "x.size: \"2 TiB\"" + expected);
  CHECK(read(ConfigNode(nullptr)) == "x.size: null" + expected);
  const ConfigNode empty;
  ConfigReader reader(empty, "x");
  CHECK(read_bytes(reader, "size", 7, 1, 100) == 7);
  CHECK_FALSE(reader.finish());
}
