#pragma once

#include "kv_offload/messages/expected.hpp"
#include "kv_offload/tiers/obj/aws_credentials.hpp"

#include <string>
#include <string_view>

namespace kv_offload {

/// The keys of one profile of a text in the format of ~/.aws/credentials: `[profile]`, `name = value`, comments
/// after '#' and ';'. Sections of one name are one, and the last value of a name counts. Errors name the file,
/// the line and the setting that is wrong; never a value, nor a name that is not one of the known settings: a
/// secret may stand where a name is expected.
Expected<AwsCredentials> parse_shared_credentials(std::string_view text, const std::string& profile,
                                                  const std::string& file_name);

}  // namespace kv_offload
