#include "kv_offload/bench/object_server/http_request.hpp"

#include <charconv>

namespace kv_offload::bench {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

/// Up to `end`, which goes, too; all of it where there is none.
std::string_view take_until(std::string_view& text, std::string_view end) {
  const auto at = text.find(end);
  const auto taken = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + end.size());
  return taken;
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::string_view HttpRequest::header(std::string_view name) const {
  for (const auto& [each, value] : headers)
    if (each == name) return value;
  return {};
}

bool parse_head(std::string& head, HttpRequest& request) {
  std::string_view rest = head;
  std::string_view line = take_until(rest, "\r\n");
  request.method = take_until(line, " ");
  request.target = take_until(line, " ");
  if (line != "HTTP/1.1" && line != "HTTP/1.0") return false;
  request.http_1_0 = line == "HTTP/1.0";
  std::string_view target = request.target;
  if (target.starts_with("http://")) {  // as to a proxy
    const auto slash = target.find('/', 7);
    target = slash == std::string_view::npos ? "/" : target.substr(slash);
  }
  if (request.method.empty() || !target.starts_with('/')) return false;
  request.path = take_until(target, "?");
  request.query = target;
  request.headers.clear();
  while (!rest.empty()) {
    line = take_until(rest, "\r\n");
    const auto colon = line.find(':');
    if (colon == 0 || colon == std::string_view::npos) return false;
    char* name = head.data() + (line.data() - head.data());
    for (std::size_t i = 0; i < colon; ++i)
      if (name[i] >= 'A' && name[i] <= 'Z') name[i] = static_cast<char>(name[i] - 'A' + 'a');
    request.headers.emplace_back(line.substr(0, colon), trimmed(line.substr(colon + 1)));
  }
  return true;
}

std::optional<std::string> percent_decoded(std::string_view text, bool plus_is_space) {
  std::string decoded;
  decoded.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = hex_value(text[i + 1]), low = hex_value(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      decoded += static_cast<char>(high * 16 + low);
      i += 2;
    } else {
      decoded += plus_is_space && text[i] == '+' ? ' ' : text[i];
    }
  }
  return decoded;
}

std::string percent_encoded(std::string_view text) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    if (kPlain.find(c) != std::string_view::npos) {
      encoded += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      encoded += {'%', kDigits[byte / 16], kDigits[byte % 16]};
    }
  }
  return encoded;
}

std::optional<std::map<std::string, std::string>> query_values(std::string_view query) {
  std::map<std::string, std::string> values;
  while (!query.empty()) {
    std::string_view part = take_until(query, "&");
    const auto name = percent_decoded(take_until(part, "="), true);
    const auto value = percent_decoded(part, true);
    if (!name || !value) return std::nullopt;
    if (!name->empty()) values[*name] = *value;
  }
  return values;
}

std::optional<std::uint64_t> whole_number(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace kv_offload::bench
