// What a store may answer. Every parser sees every text; what a listing accepts survives being asked to be deleted.
#include "kv_offload/tests/fuzz/one_line.hpp"
#include "kv_offload/tests/fuzz/promise.hpp"
#include "kv_offload/tiers/obj/s3_xml.hpp"
#include "kv_offload/tiers/obj/uri_encoding.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace kv_offload::fuzz {
namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

/// The keys of a deletion as a reader sees them. No key has a '<', so the tags are ours.
std::vector<std::string> read_back(std::string body) {
  replace_all(body, "<Delete xmlns", "<DeleteResult xmlns");
  replace_all(body, "</Delete>", "</DeleteResult>");
  replace_all(body, "Object>", "Error>");
  const auto parsed = parse_delete_errors(body);
  promise(parsed.has_value(), "a deletion is well-formed");
  std::vector<std::string> keys;
  for (const auto& [key, code] : *parsed) keys.push_back(key);
  return keys;
}

/// One page that says what `listing` says.
std::string page_of(const S3Listing& listing) {
  std::string xml = "<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>";
  xml += listing.is_truncated ? "true" : "false";
  xml += "</IsTruncated><NextContinuationToken>token</NextContinuationToken>";
  for (const S3Object& object : listing.objects)
    xml += "<Contents><Size>" + std::to_string(object.bytes) + "</Size><Key>" +
           uri_encode(object.key, true) + "</Key></Contents>";
  return xml + "</ListBucketResult>";
}

void check_listing(std::string_view xml) {
  const auto listing = parse_listing(xml);
  if (!listing) return promise(is_one_line(listing.error().detail, 400), "an error is one line");
  promise(listing->is_truncated != listing->continuation.empty(),
          "there is a token exactly where there is more");
  promise(!parse_s3_error(xml), "a listing is no error");

  const auto again = parse_listing(page_of(*listing));
  promise(again && again->objects.size() == listing->objects.size(), "a listing stays one");
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < listing->objects.size(); ++i) {
    const S3Object& object = listing->objects[i];
    promise(!object.key.empty(), "every object has a key");
    promise(object.key == again->objects[i].key && object.bytes == again->objects[i].bytes,
            "an object stays the same");
    // A NUL cannot be said in XML; a store refuses such a deletion.
    if (object.key.find('\0') == std::string::npos && keys.size() < kDeleteKeysMax)
      keys.push_back(object.key);
  }
  if (listing->is_truncated) keys.push_back(listing->continuation);
  if (keys.size() > kDeleteKeysMax) keys.pop_back();
  promise(read_back(delete_request(keys)) == keys, "a deletion names the keys it was given");
}

void check_error(std::string_view xml) {
  const auto error = parse_s3_error(xml);
  if (!error) return;
  promise(!error->code.empty() && is_one_line(error->code, 128), "a code is a short line");
  promise(is_one_line(error->message, 512), "a message is a line");
  promise(is_one_line(error->region, 256) && is_one_line(error->endpoint, 256),
          "region and endpoint are short lines");
}

void check_delete_errors(std::string_view xml) {
  const auto errors = parse_delete_errors(xml);
  if (!errors) return promise(is_one_line(errors.error().detail, 400), "an error is one line");
  for (const auto& [key, code] : *errors)
    promise(!key.empty() && is_one_line(code, 128), "a failed deletion has a key and a short code");
}

void check_web_identity(std::string_view xml) {
  const auto credentials = parse_web_identity(xml);
  if (!credentials)
    return promise(is_one_line(credentials.error().detail, 400), "an error is one line");
  promise(!unusable_field(*credentials), "accepted credentials can be used");
  promise(!credentials->session_token.empty() && credentials->expires.has_value(),
          "they are temporary");
}

}  // namespace
}  // namespace kv_offload::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view xml(reinterpret_cast<const char*>(data), size);
  kv_offload::fuzz::check_listing(xml);
  kv_offload::fuzz::check_error(xml);
  kv_offload::fuzz::check_delete_errors(xml);
  kv_offload::fuzz::check_web_identity(xml);
  return 0;
}
