#include "kv_offload/tiers/obj/uri_encoding.hpp"

#include "kv_offload/tiers/hex_digit.hpp"

namespace kv_offload {

namespace {

/// Whatever the locale says.
constexpr bool is_unreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

constexpr int hex_of_any_case(char c) {
  return hex_digit(c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c);
}

}  // namespace

std::string uri_encode(std::string_view text, bool keep_slash) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  encoded.reserve(text.size() + 16);
  for (const char c : text) {
    if (is_unreserved(c) || (keep_slash && c == '/')) {
      encoded += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      encoded += '%';
      encoded += kDigits[byte >> 4];
      encoded += kDigits[byte & 15U];
    }
  }
  return encoded;
}

std::string url_decode(std::string_view text) {
  std::string decoded;
  decoded.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const int high = text[i] == '%' && i + 2 < text.size() ? hex_of_any_case(text[i + 1]) : -1;
    const int low = high >= 0 ? hex_of_any_case(text[i + 2]) : -1;
    if (low >= 0) {
      decoded += static_cast<char>(static_cast<unsigned char>(high * 16 + low));
      i += 2;
    } else {
      decoded += text[i] == '+' ? ' ' : text[i];
    }
  }
  return decoded;
}

}  // namespace kv_offload
