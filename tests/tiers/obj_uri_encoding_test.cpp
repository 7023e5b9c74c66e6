#include "kv_offload/tiers/obj/uri_encoding.hpp"

#include <catch2/catch.hpp>

#include <string>

namespace kv_offload {
namespace {

TEST_CASE("unreserved characters stay, every other byte is encoded in upper case", "[obj]") {
  const std::string unreserved =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
  CHECK(uri_encode(unreserved, false) == unreserved);
  CHECK(uri_encode("a=b c+d%/é", false) == "a%3Db%20c%2Bd%25%2F%C3%A9");
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    if (unreserved.find(c) != std::string::npos) continue;
    const std::string encoded = uri_encode(std::string(1, c), false);
    CAPTURE(byte, encoded);
    CHECK(encoded.size() == 3);
    CHECK(encoded.find_first_not_of("%0123456789ABCDEF") == std::string::npos);
  }
}

TEST_CASE("a path keeps its slashes, also those that lead and those that double", "[obj]") {
  CHECK(uri_encode("/kv//model_1_r0/abc/de_g0/ff.bin", true) == "/kv//model_1_r0/abc/de_g0/ff.bin");
  CHECK(uri_encode("a/b$", true) == "a/b%24");
  CHECK(uri_encode("a/b", false) == "a%2Fb");
  CHECK(uri_encode("", true).empty());
}

TEST_CASE("decoding undoes encoding for every byte", "[obj]") {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  CHECK(url_decode(uri_encode(all, false)) == all);
  CHECK(url_decode(uri_encode(all, true)) == all);
}

TEST_CASE("decoding takes both cases and the plus of forms", "[obj]") {
  CHECK(url_decode("a%2fb%2Fc+d%2B") == "a/b/c d+");
}

TEST_CASE("a percent sign without two digits stays as it is", "[obj]") {
  CHECK(url_decode("%") == "%");
  CHECK(url_decode("%4") == "%4");
  CHECK(url_decode("100%") == "100%");
  CHECK(url_decode("%G1%1G%%41") == "%G1%1G%A");
}

}  // namespace
}  // namespace kv_offload
