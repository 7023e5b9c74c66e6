#include "kv_offload/tiers/obj/sigv4.hpp"

#include "kv_offload/messages/offload_key.hpp"
#include "kv_offload/tiers/obj/time_text.hpp"
#include "kv_offload/tiers/obj/uri_encoding.hpp"
#include "kv_offload/tiers/sha256.hpp"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <cassert>
#include <span>

namespace kv_offload {

namespace {

constexpr std::string_view kAlgorithm = "AWS4-HMAC-SHA256";

std::array<std::byte, 32> hmac_sha256(std::span<const std::byte> key, std::string_view text) {
  std::array<std::byte, 32> code{};
  [[maybe_unused]] const auto* done =
      ::HMAC(::EVP_sha256(), key.data(), static_cast<int>(key.size()),
             reinterpret_cast<const unsigned char*>(text.data()), text.size(),
             reinterpret_cast<unsigned char*>(code.data()), nullptr);
  assert(done != nullptr);
  return code;
}

/// Spaces at the ends are not part of a value, and a run of them counts as one.
void append_trimmed(std::string& out, std::string_view value) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t'; };
  bool has_gap = false;
  bool is_first = true;
  for (const char c : value) {
    if (is_space(c)) {
      has_gap = !is_first;
      continue;
    }
    if (has_gap) out += ' ';
    out += c;
    has_gap = is_first = false;
  }
}

struct CanonicalHeaders {
  std::string lines;  ///< `name:value\n` each
  std::string names;  ///< `a;b;c`
};

CanonicalHeaders canonical_headers(HeaderList headers) {
  // Headers of one name are one, with the values in the order given.
  std::stable_sort(headers.begin(), headers.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  CanonicalHeaders canonical;
  for (std::size_t i = 0; i < headers.size(); ++i) {
    if (i > 0 && headers[i].first == headers[i - 1].first) {
      canonical.lines.back() = ',';
    } else {
      if (i > 0) canonical.names += ';';
      canonical.names += headers[i].first;
      canonical.lines += headers[i].first;
      canonical.lines += ':';
    }
    append_trimmed(canonical.lines, headers[i].second);
    canonical.lines += '\n';
  }
  return canonical;
}

}  // namespace

std::string canonical_query(const std::vector<std::pair<std::string, std::string>>& query) {
  std::vector<std::pair<std::string, std::string>> encoded;
  encoded.reserve(query.size());
  for (const auto& [name, value] : query)
    encoded.emplace_back(uri_encode(name, false), uri_encode(value, false));
  std::sort(encoded.begin(), encoded.end());
  std::string text;
  for (const auto& [name, value] : encoded) {
    if (!text.empty()) text += '&';
    text += name;
    text += '=';
    text += value;
  }
  return text;
}

SigV4Signer::SigV4Signer(std::string region, std::string service)
    : region_(std::move(region)), service_(std::move(service)) {}

HeaderList SigV4Signer::sign(const SigV4Request& request, const AwsCredentials& credentials,
                             std::chrono::sys_seconds now) {
  assert(request.canonical_path.starts_with('/'));
  const std::string time = basic_iso_time(now);
  const std::string day = time.substr(0, 8);

  HeaderList added = {{"x-amz-date", time}};
  if (service_ == "s3") added.emplace_back("x-amz-content-sha256", request.payload_hash);
  if (!credentials.session_token.empty())
    added.emplace_back("x-amz-security-token", credentials.session_token);

  HeaderList signed_headers = request.headers;
  signed_headers.insert(signed_headers.end(), added.begin(), added.end());
  const CanonicalHeaders headers = canonical_headers(std::move(signed_headers));

  std::string canonical(request.method);
  canonical += '\n';
  canonical += request.canonical_path;
  canonical += '\n' + canonical_query(request.query) + '\n' + headers.lines + '\n' + headers.names +
               '\n' + request.payload_hash;

  const std::string scope = day + '/' + region_ + '/' + service_ + "/aws4_request";
  std::string to_sign(kAlgorithm);
  to_sign += '\n' + time + '\n' + scope + '\n' + sha256_hex(canonical);

  std::string authorization(kAlgorithm);
  authorization +=
      " Credential=" + credentials.access_key + '/' + scope + ", SignedHeaders=" + headers.names +
      ", Signature=" + to_hex(hmac_sha256(key_of(day, credentials.secret_key), to_sign));
  added.emplace_back("authorization", std::move(authorization));
  return added;
}

const SigV4Signer::Key& SigV4Signer::key_of(std::string_view day, const std::string& secret_key) {
  if (day == day_ && secret_key == secret_key_) return key_;
  const std::string start = "AWS4" + secret_key;
  Key key = hmac_sha256(std::as_bytes(std::span(start)), day);
  for (const std::string_view part :
       {std::string_view(region_), std::string_view(service_), std::string_view("aws4_request")})
    key = hmac_sha256(key, part);
  day_ = day;
  secret_key_ = secret_key;
  key_ = key;
  return key_;
}

}  // namespace kv_offload
