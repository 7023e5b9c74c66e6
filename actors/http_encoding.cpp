#include "kv_offload/actors/http_encoding.hpp"

#include <zlib.h>

#include <algorithm>
#include <cctype>
#include <limits>

namespace kv_offload {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

/// Takes what lies before the next `stop`, or all that is left.
std::string_view take_part(std::string_view& text, char stop) {
  const auto at = std::min(text.find(stop), text.size());
  const auto part = text.substr(0, at);
  text.remove_prefix(std::min(at + 1, text.size()));
  return trimmed(part);
}

bool is_same(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

/// "q=0", "q=0.0", …
bool is_refusal(std::string_view parameter) {
  if (parameter.size() < 3 || std::tolower(static_cast<unsigned char>(parameter[0])) != 'q' ||
      parameter[1] != '=')
    return false;
  return parameter.substr(2).find_first_not_of("0.") == std::string_view::npos;
}

}  // namespace

bool accepts(std::string_view header, std::string_view name) {
  while (!header.empty()) {
    std::string_view choice = take_part(header, ',');
    if (!is_same(take_part(choice, ';'), name)) continue;
    bool is_refused = false;
    while (!choice.empty()) is_refused = is_refusal(take_part(choice, ';')) || is_refused;
    return !is_refused;
  }
  return false;
}

std::string gzip(std::string_view body) {
  constexpr int kGzipWindow = 15 + 16;  // the largest window; 16 asks for gzip's header
  constexpr int kMemoryLevel = 9;
  z_stream stream{};
  if (body.size() > std::numeric_limits<uInt>::max() / 2 ||
      deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, kGzipWindow, kMemoryLevel,
                   Z_DEFAULT_STRATEGY) != Z_OK)
    return {};
  std::string input(body);  // zlib's interface knows no const
  std::string packed(deflateBound(&stream, static_cast<uLong>(input.size())), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(input.data());
  stream.avail_in = static_cast<uInt>(input.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const bool is_done = deflate(&stream, Z_FINISH) == Z_STREAM_END;
  packed.resize(is_done ? stream.total_out : 0);
  deflateEnd(&stream);
  return packed;
}

}  // namespace kv_offload
