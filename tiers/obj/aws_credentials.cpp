#include "kv_offload/tiers/obj/aws_credentials.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace kv_offload {

namespace {

struct Field {
  const char* name;
  const std::string& value;
  std::size_t bytes_max;
  bool may_be_empty;
};

bool is_visible(char c) { return c > ' ' && c <= '~'; }

}  // namespace

std::optional<std::string> unusable_field(const AwsCredentials& credentials) {
  // AWS's access keys have 16 to 128 characters, its secrets 40; it names no length of tokens, but the headers
  // of a request together must stay under 8 KiB there. Other stores have longer keys.
  const std::array<Field, 3> fields = {
      Field{"access_key", credentials.access_key, 512, false},
      Field{"secret_key", credentials.secret_key, 1024, false},
      Field{"session_token", credentials.session_token, 16384, true},
  };
  for (const Field& field : fields) {
    const std::string name = field.name;
    if (field.value.empty() && !field.may_be_empty) return name + ": is empty";
    if (field.value.size() > field.bytes_max)
      return name + ": has " + std::to_string(field.value.size()) +
             " characters; expected at most " + std::to_string(field.bytes_max);
    if (!std::all_of(field.value.begin(), field.value.end(), is_visible))
      return name + ": has a space, a control character or one that is not ASCII";
  }
  return std::nullopt;
}

}  // namespace kv_offload
