#pragma once

#include "kv_offload/messages/expected.hpp"
#include "kv_offload/tiers/obj/aws_credentials.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kv_offload {

// What S3 and STS say in XML. Pure functions of a text that somebody else wrote: the caller bounds its length,
// nothing here throws or follows a reference, and what goes to people is one short printable line.

/// One object of a listing.
struct S3Object {
  std::string key;
  std::uint64_t bytes = 0;
  std::int64_t modified_s = 0;  ///< since 1970; 0: unknown
};

/// One page of a listing.
struct S3Listing {
  std::vector<S3Object> objects;
  bool is_truncated = false;
  std::string continuation;  ///< the token of the next page; never empty where is_truncated
};

/// The answer to ListObjectsV2. Keys are percent-decoded where the answer says EncodingType url. An answer that
/// leaves open whether there is more is an error, as is a next page without a token: both would end a walk too
/// early, or never.
Expected<S3Listing> parse_listing(std::string_view xml);

/// What a store says about a request that it refused. For logs: lengths bounded, control characters replaced.
struct S3Error {
  std::string code;  ///< "NoSuchKey"; never empty
  std::string message;
  std::string region;    ///< the right one, where the store says so
  std::string endpoint;  ///< likewise
};

/// Of an <Error> document of S3, or the <ErrorResponse> of STS; nullopt of anything else.
std::optional<S3Error> parse_s3_error(std::string_view xml);

/// The most keys that one DeleteObjects request may name.
inline constexpr std::size_t kDeleteKeysMax = 1000;

/// The body of a DeleteObjects request that answers failures alone. At most kDeleteKeysMax keys, none empty.
/// A key with a control character other than tab and line ends cannot be said in XML 1.0: Ceph's gateway answers
/// the whole request with 400. Such a key is deleted alone.
std::string delete_request(std::span<const std::string> keys);

/// Key and error code of each object that a DeleteObjects request did not delete.
Expected<std::vector<std::pair<std::string, std::string>>> parse_delete_errors(
    std::string_view xml);

/// The temporary credentials of an AssumeRoleWithWebIdentity answer; they always expire. Errors never contain
/// a value.
Expected<AwsCredentials> parse_web_identity(std::string_view xml);

}  // namespace kv_offload
