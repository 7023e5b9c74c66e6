// What may stand in a credentials file. An error says nothing of it: with its numbers made alike it is one of ours.
#include "kv_offload/tests/fuzz/promise.hpp"
#include "kv_offload/tiers/obj/shared_credentials.hpp"

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

namespace kv_offload::fuzz {
namespace {

/// Every run of digits as one '#'.
std::string without_numbers(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_digit)
      out += c;
    else if (!out.ends_with('#'))
      out += '#';
  }
  return out;
}

bool is_known_error(const std::string& detail) {
  static const std::string profile = "FILE: profile \"default\"";
  static const std::set<std::string> known_errors = [] {
    std::set<std::string> known = {
        "FILE: line # stands before the first [profile]",
        "FILE: line # begins with '[' and has no ']'",
        "FILE: line # goes on after its ']'",
        "FILE: line # has no '='; expected name = value",
        profile + " is not there",
        profile + " has no aws_access_key_id and no aws_secret_access_key",
        profile + ": aws_access_key_id is missing",
        profile + ": aws_secret_access_key is missing",
    };
    for (const char* field : {"access_key", "secret_key", "session_token"}) {
      const std::string name = profile + ": " + field + ": ";
      known.insert(name + "has a space, a control character or one that is not ASCII");
      known.insert(name + "has # characters; expected at most #");
    }
    return known;
  }();
  return known_errors.contains(without_numbers(detail));
}

void check(std::string_view text) {
  const auto found = parse_shared_credentials(text, "default", "FILE");
  if (!found) return promise(is_known_error(found.error().detail), "an error has no value in it");
  promise(!unusable_field(*found), "accepted credentials can be used");
  promise(!found->expires, "a file's keys do not expire");
  const auto again =
      parse_shared_credentials("[default]\naws_access_key_id=" + found->access_key +
                                   "\naws_secret_access_key=" + found->secret_key +
                                   "\naws_session_token=" + found->session_token + "\n",
                               "default", "FILE");
  promise(again && again->access_key == found->access_key &&
              again->secret_key == found->secret_key &&
              again->session_token == found->session_token,
          "credentials written to a file are read back");
}

}  // namespace
}  // namespace kv_offload::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  kv_offload::fuzz::check({reinterpret_cast<const char*>(data), size});
  return 0;
}
