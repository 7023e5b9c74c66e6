#include "kv_offload/tiers/obj/s3_xml.hpp"

#include "kv_offload/tiers/obj/log_text.hpp"
#include "kv_offload/tiers/obj/time_text.hpp"
#include "kv_offload/tiers/obj/uri_encoding.hpp"
#include "kv_offload/tiers/obj/xml_document.hpp"

#include <cassert>
#include <charconv>
#include <cstring>

namespace kv_offload {

namespace {

// Longer than any code, message or host name that a store is known to send; a line of a log stays a line.
constexpr std::size_t kCodeBytesMax = 128;
constexpr std::size_t kMessageBytesMax = 512;
constexpr std::size_t kHostBytesMax = 256;

OffloadError unexpected(const std::string& what) { return {OffloadErrc::io_error, what}; }

/// The document if its outermost element has that name. A store's own error is told as such.
Expected<XmlDocument> parse_answer(std::string_view xml, const char* root_name) {
  auto parsed = XmlDocument::parse(xml);
  if (!parsed) return unexpected(std::string(root_name) + ": " + parsed.error().detail);
  const char* name = parsed->root().name();
  if (std::strcmp(name, root_name) == 0) return parsed;
  if (const auto error = parse_s3_error(xml))
    return unexpected(std::string(root_name) + ": the answer is an error, " + error->code);
  return unexpected(std::string(root_name) + ": the answer is a <" + log_text(name, 64) + ">");
}

/// The `number`th object of a page.
Expected<S3Object> object_of(pugi::xml_node contents, bool is_encoded, std::size_t number) {
  const auto wrong = [&](const char* what) {
    return unexpected("ListBucketResult: object " + std::to_string(number) + " has " + what);
  };
  S3Object object;
  object.key = child_text(contents, "Key");
  if (object.key.empty()) return wrong("no Key");
  if (is_encoded) object.key = url_decode(object.key);
  const std::string bytes = child_word(contents, "Size");
  const auto [end, error] =
      std::from_chars(bytes.data(), bytes.data() + bytes.size(), object.bytes);
  if (error != std::errc{} || end != bytes.data() + bytes.size()) return wrong("no Size");
  if (const auto modified = parse_iso_time(child_word(contents, "LastModified")))
    object.modified_s = modified->time_since_epoch().count();
  return Expected<S3Object>(std::move(object));
}

/// Every character that XML gives a meaning to, or a reader normalises away.
void append_escaped(std::string& out, std::string_view text) {
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      default:
        if (static_cast<unsigned char>(c) < ' ')
          out += "&#" + std::to_string(static_cast<int>(c)) + ';';
        else
          out += c;
    }
  }
}

}  // namespace

Expected<S3Listing> parse_listing(std::string_view xml) {
  const auto document = parse_answer(xml, "ListBucketResult");
  if (!document) return document.error();
  const pugi::xml_node root = document->root();
  // A store that does not know the parameter answers with keys as they are, and says so by saying nothing.
  const bool is_encoded = child_word(root, "EncodingType") == "url";
  S3Listing listing;
  for (const pugi::xml_node contents : root.children("Contents")) {
    auto object = object_of(contents, is_encoded, listing.objects.size() + 1);
    if (!object) return object.error();
    listing.objects.push_back(*std::move(object));
  }
  const std::string is_truncated = child_word(root, "IsTruncated");
  if (is_truncated != "true" && is_truncated != "false")
    return unexpected("ListBucketResult: IsTruncated is neither true nor false");
  listing.is_truncated = is_truncated == "true";
  if (!listing.is_truncated) return Expected<S3Listing>(std::move(listing));
  listing.continuation = child_text(root, "NextContinuationToken");
  if (listing.continuation.empty())
    return unexpected("ListBucketResult: is truncated, and has no NextContinuationToken");
  return Expected<S3Listing>(std::move(listing));
}

std::optional<S3Error> parse_s3_error(std::string_view xml) {
  const auto document = XmlDocument::parse(xml);
  if (!document) return std::nullopt;
  pugi::xml_node node = document->root();
  if (std::strcmp(node.name(), "ErrorResponse") == 0) node = node.child("Error");
  if (std::strcmp(node.name(), "Error") != 0) return std::nullopt;
  S3Error error;
  error.code = log_text(child_word(node, "Code"), kCodeBytesMax);
  if (error.code.empty()) return std::nullopt;
  error.message = log_text(child_word(node, "Message"), kMessageBytesMax);
  error.region = log_text(child_word(node, "Region"), kHostBytesMax);
  error.endpoint = log_text(child_word(node, "Endpoint"), kHostBytesMax);
  return error;
}

std::string delete_request(std::span<const std::string> keys) {
  assert(keys.size() <= kDeleteKeysMax);
  std::string body =
      R"(<?xml version="1.0" encoding="UTF-8"?><Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Quiet>true</Quiet>)";
  for (const std::string& key : keys) {
    body += "<Object><Key>";
    append_escaped(body, key);
    body += "</Key></Object>";
  }
  body += "</Delete>";
  return body;
}

Expected<std::vector<std::pair<std::string, std::string>>> parse_delete_errors(
    std::string_view xml) {
  const auto document = parse_answer(xml, "DeleteResult");
  if (!document) return document.error();
  std::vector<std::pair<std::string, std::string>> errors;
  for (const pugi::xml_node error : document->root().children("Error")) {
    std::string key = child_text(error, "Key");
    if (key.empty()) return unexpected("DeleteResult: an Error without a Key");
    errors.emplace_back(std::move(key), log_text(child_word(error, "Code"), kCodeBytesMax));
  }
  return Expected(std::move(errors));
}

Expected<AwsCredentials> parse_web_identity(std::string_view xml) {
  constexpr const char* kAnswer = "AssumeRoleWithWebIdentityResponse";
  const auto document = parse_answer(xml, kAnswer);
  if (!document) return document.error();
  const pugi::xml_node node =
      document->root().child("AssumeRoleWithWebIdentityResult").child("Credentials");
  AwsCredentials credentials;
  credentials.access_key = child_word(node, "AccessKeyId");
  credentials.secret_key = child_word(node, "SecretAccessKey");
  credentials.session_token = child_word(node, "SessionToken");
  if (const auto problem = unusable_field(credentials))
    return unexpected(std::string(kAnswer) + ": " + *problem);
  if (credentials.session_token.empty())
    return unexpected(std::string(kAnswer) + ": session_token: is empty");
  credentials.expires = parse_iso_time(child_word(node, "Expiration"));
  if (!credentials.expires)
    return unexpected(std::string(kAnswer) + ": Expiration is missing or not a time");
  return Expected<AwsCredentials>(std::move(credentials));
}

}  // namespace kv_offload
