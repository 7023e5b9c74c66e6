#include "kv_offload/bench/object_server/s3_service.hpp"

#include "kv_offload/bench/object_server/s3_xml.hpp"

#include <openssl/evp.h>

#include <algorithm>
#include <array>

namespace kv_offload::bench {
namespace {

using Kind = S3Request::Kind;
constexpr std::uint64_t kPutBytesMax = std::uint64_t{5} << 30;  // one PUT of S3
constexpr std::uint64_t kDeleteBytesMax = std::uint64_t{2} << 20;
constexpr std::size_t kKeyBytesMax = 1024;       // of S3
constexpr std::size_t kMetadataBytesMax = 2048;  // names and values, of S3
constexpr std::size_t kListKeysMax = 1000;       // of S3
constexpr std::string_view kMetadata = "x-amz-meta-";

std::string digest(const EVP_MD* kind, const S3Body& body) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> value{};
  unsigned size = 0;
  EVP_Digest(body.bytes.get(), body.size, value.data(), &size, kind, nullptr);
  return {value.begin(), value.begin() + size};
}

std::string in_hex(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += {kDigits[byte / 16], kDigits[byte % 16]};
  }
  return text;
}

std::string in_base64(const std::string& bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');
  const auto* in = reinterpret_cast<const unsigned char*>(bytes.data());
  auto* out = reinterpret_cast<unsigned char*>(text.data());
  text.resize(static_cast<std::size_t>(EVP_EncodeBlock(out, in, static_cast<int>(bytes.size()))));
  return text;
}

Kind kind_of(const S3Request& request) {
  const std::string_view method = request.http->method;
  if (request.key.empty()) {
    if (method == "GET" && request.query.contains("list-type")) return Kind::list;
    if (method == "POST" && request.query.contains("delete")) return Kind::multi_delete;
    return method == "HEAD" ? Kind::head_bucket : Kind::other;
  }
  if (method == "GET") return Kind::get;
  if (method == "PUT") return Kind::put;
  if (method == "HEAD") return Kind::head;
  return method == "DELETE" ? Kind::remove : Kind::other;
}

/// First and last byte, of `bytes=a-b`, `a-` or `-n`. Of several ranges the first, as real stores do.
/// Nullopt: none of these, which S3 takes for no range. An empty range: not within `size`.
std::optional<std::pair<std::uint64_t, std::uint64_t>> range_of(std::string_view header,
                                                                std::uint64_t size) {
  if (!header.starts_with("bytes=")) return std::nullopt;
  header = header.substr(6, header.find(',') - 6);
  const auto dash = header.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto from = whole_number(header.substr(0, dash));
  const auto to = whole_number(header.substr(dash + 1));
  if (dash == 0) {
    if (!to) return std::nullopt;
    const auto length = std::min(*to, size);
    return length == 0 ? std::pair(size, size) : std::pair(size - length, size - 1);
  }
  if (!from || (!to && dash + 1 < header.size()) || (to && *to < *from)) return std::nullopt;
  return std::pair(*from, size == 0 ? 0 : std::min(to.value_or(size - 1), size - 1));
}

}  // namespace

S3Request S3Service::understood(const HttpRequest& http) const {
  S3Request request;
  request.http = &http;
  std::string_view path = http.path.substr(1);
  if (http.header("host").starts_with(bucket_ + '.')) {
    request.bucket = bucket_;
  } else {
    const auto slash = path.find('/');
    request.bucket = percent_decoded(path.substr(0, slash)).value_or("");
    path = slash == std::string_view::npos ? std::string_view() : path.substr(slash + 1);
  }
  auto key = percent_decoded(path);
  auto query = query_values(http.query);
  const auto length = http.header("content-length");
  const auto body_bytes = length.empty() ? std::uint64_t{0} : whole_number(length);
  request.well_formed = key && query && body_bytes;
  if (key) request.key = std::move(*key);
  if (query) request.query = std::move(*query);
  request.body_bytes = body_bytes.value_or(0);
  request.kind = kind_of(request);
  return request;
}

std::optional<S3Answer> S3Service::refusal(const S3Request& request) const {
  const HttpRequest& http = *request.http;
  const auto error_of = [&](int status, std::string_view code, std::string_view message) {
    return std::optional(error(request, status, code, message));
  };
  if (!request.well_formed)
    return error_of(400, "InvalidURI", "Could not parse the specified URI.");
  if (!http.header("authorization").starts_with("AWS4-HMAC-SHA256") ||
      http.header("x-amz-content-sha256").empty())
    return error_of(403, "AccessDenied", "Access Denied");
  if (request.bucket != bucket_)
    return error_of(404, "NoSuchBucket", "The specified bucket does not exist");
  if (request.key.size() > kKeyBytesMax)
    return error_of(400, "KeyTooLongError", "Your key is too long");
  if (request.kind == Kind::other || !http.header("transfer-encoding").empty())
    return error_of(501, "NotImplemented", "A header or method you provided is not implemented.");
  if (request.kind == Kind::put) {
    if (http.header("content-length").empty())
      return error_of(411, "MissingContentLength", "You must provide the Content-Length header.");
    if (request.body_bytes > kPutBytesMax)
      return error_of(400, "EntityTooLarge", "Your proposed upload exceeds the maximum size.");
    std::size_t metadata = 0;
    for (const auto& [name, value] : http.headers)
      if (name.starts_with(kMetadata)) metadata += name.size() - kMetadata.size() + value.size();
    if (metadata > kMetadataBytesMax)
      return error_of(400, "MetadataTooLarge", "Your metadata headers exceed the maximum size.");
    if (const auto condition = http.header("if-none-match"); !condition.empty() && condition != "*")
      return error_of(501, "NotImplemented", "If-None-Match takes * alone.");
  } else if (request.kind == Kind::multi_delete) {
    if (request.body_bytes > kDeleteBytesMax)
      return error_of(400, "MalformedXML", "The XML you provided was not well-formed.");
    const bool summed = std::any_of(http.headers.begin(), http.headers.end(), [](const auto& each) {
      return each.first == "content-md5" || each.first.starts_with("x-amz-checksum-");
    });
    if (!summed)
      return error_of(400, "InvalidRequest",
                      "Missing required header for this request: Content-MD5");
  }
  return std::nullopt;
}

S3Answer S3Service::answer(const S3Request& request, S3Body body) {
  if (body.bytes) {  // whoever discards bodies cannot check them
    const auto md5 = request.http->header("content-md5");
    if (!md5.empty() && in_base64(digest(EVP_md5(), body)) != md5)
      return error(request, 400, "BadDigest", "The Content-MD5 you specified did not match.");
    const auto sha256 = request.http->header("x-amz-content-sha256");
    if (sha256.size() == 64 && in_hex(digest(EVP_sha256(), body)) != sha256)
      return error(request, 400, "XAmzContentSHA256Mismatch",
                   "The provided 'x-amz-content-sha256' header does not match what was computed.");
  }
  switch (request.kind) {
    case Kind::get:
    case Kind::head: return get(request);
    case Kind::put: return put(request, std::move(body));
    case Kind::remove: objects_.remove(request.key); return {.status = 204};
    case Kind::list: return list(request);
    case Kind::multi_delete: return multi_delete(request, body);
    case Kind::head_bucket: return {.status = 200};
    case Kind::other: break;
  }
  return error(request, 501, "NotImplemented", "Not implemented");
}

S3Answer S3Service::put(const S3Request& request, S3Body body) {
  StoredObject object;
  object.bytes = std::move(body.bytes);
  object.size = body.size;
  for (const auto& [name, value] : request.http->headers)
    if ((body.metadata && name.starts_with(kMetadata)) || name == "content-type")
      object.headers.emplace(name, value);
  const bool only_new = !request.http->header("if-none-match").empty();
  const ObjectPtr stored = objects_.put(request.key, std::move(object), only_new);
  if (!stored)
    return error(request, 412, "PreconditionFailed",
                 "At least one of the pre-conditions you specified did not hold");
  return {.headers = "ETag: " + stored->etag + "\r\n"};
}

S3Answer S3Service::get(const S3Request& request) const {
  S3Answer answer;
  answer.object = objects_.find(request.key);
  if (!answer.object) return error(request, 404, "NoSuchKey", "The specified key does not exist.");
  const std::uint64_t size = answer.object->size;
  answer.length = size;
  if (const auto range = range_of(request.http->header("range"), size)) {
    if (range->first >= size) {
      answer = error(request, 416, "InvalidRange", "The requested range is not satisfiable");
      answer.headers += "Content-Range: bytes */" + std::to_string(size) + "\r\n";
      return answer;
    }
    answer.status = 206;
    answer.offset = range->first;
    answer.length = range->second - range->first + 1;
    answer.headers += "Content-Range: bytes " + std::to_string(range->first) + '-' +
                      std::to_string(range->second) + '/' + std::to_string(size) + "\r\n";
  }
  return answer;
}

S3Answer S3Service::list(const S3Request& request) const {
  const auto value = [&](const char* name) {
    const auto at = request.query.find(name);
    return at == request.query.end() ? std::optional<std::string>() : std::optional(at->second);
  };
  if (value("list-type") != "2" || value("delimiter"))
    return error(request, 501, "NotImplemented", "list-type=2 without delimiter alone");
  const auto wanted = whole_number(value("max-keys").value_or("1000"));
  if (!wanted) return error(request, 400, "InvalidArgument", "max-keys is not an integer");
  ListPage page;
  page.bucket = bucket_;
  page.prefix = value("prefix").value_or("");
  page.url_encoded = value("encoding-type") == "url";
  page.keys_max = static_cast<std::size_t>(std::min<std::uint64_t>(*wanted, kListKeysMax));
  page.token = value("continuation-token");
  auto after = value("start-after");
  if (page.token) {
    // The last key of the page before, percent-encoded. Whoever makes sense of it has it coming.
    after = percent_decoded(*page.token);
    if (!after || after->empty())
      return error(request, 400, "InvalidArgument", "The continuation token provided is incorrect");
  }
  page.objects = objects_.list(page.prefix, after, page.keys_max + 1);
  if (page.objects.size() > page.keys_max) {
    page.objects.resize(page.keys_max);
    if (!page.objects.empty()) page.next_token = percent_encoded(page.objects.back().first);
  }
  return {.headers = "Content-Type: application/xml\r\n", .text = list_xml(page)};
}

S3Answer S3Service::multi_delete(const S3Request& request, const S3Body& body) {
  const auto* text = reinterpret_cast<const char*>(body.bytes.get());
  const auto order = parse_delete_xml({text, static_cast<std::size_t>(body.size)});
  if (!order)
    return error(request, 400, "MalformedXML", "The XML you provided was not well-formed.");
  for (const auto& key : order->keys) objects_.remove(key);
  return {.headers = "Content-Type: application/xml\r\n", .text = deleted_xml(*order)};
}

S3Answer S3Service::error(const S3Request& request, int status, std::string_view code,
                          std::string_view message) {
  return {.status = status,
          .headers = "Content-Type: application/xml\r\n",
          .text = error_xml(code, message, request.bucket, request.key)};
}

std::string_view S3Service::code_of(int status) {
  switch (status) {
    case 400: return "InvalidRequest";
    case 401:
    case 403: return "AccessDenied";
    case 404: return "NoSuchKey";
    case 408: return "RequestTimeout";
    case 409: return "OperationAborted";
    case 412: return "PreconditionFailed";
    case 416: return "InvalidRange";
    case 429: return "TooManyRequests";
    case 501: return "NotImplemented";
    case 503: return "SlowDown";
    case 507: return "InsufficientStorage";
    default: return "InternalError";
  }
}

}  // namespace kv_offload::bench
