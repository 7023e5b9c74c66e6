#include "kv_offload/bench/trace.hpp"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <istream>
#include <optional>

namespace kv_offload::bench {
namespace {

using nlohmann::json;

/// Reads the members of one line; keeps the first thing that is not as expected.
class Line {
 public:
  explicit Line(const json& object) : object_(object) {
    if (!object_.is_object()) expect("one JSON object per line");
  }

  double time(const char* name) {
    const json* member = find(name);
    if (member == nullptr || (member->is_number() && member->get<double>() >= 0))
      return member == nullptr ? 0 : member->get<double>();
    expect(std::string(name) + " to be a number of milliseconds >= 0");
    return 0;
  }
  std::uint64_t tokens(const char* name) {
    const json* member = find(name);
    if (member == nullptr || member->is_number_unsigned())
      return member == nullptr ? 0 : member->get<std::uint64_t>();
    expect(std::string(name) + " to be a whole number of tokens >= 0");
    return 0;
  }
  std::vector<std::uint64_t> ids(const char* name) {
    std::vector<std::uint64_t> ids;
    const json* member = find(name);
    if (member == nullptr) return ids;
    bool good = member->is_array();
    for (const auto& id : good ? *member : json::array()) {
      good = good && id.is_number_unsigned();
      if (good) ids.push_back(id.get<std::uint64_t>());
    }
    if (!good) expect(std::string(name) + " to be a list of whole numbers >= 0");
    return ids;
  }
  [[nodiscard]] const std::optional<std::string>& expected() const { return expected_; }

 private:
  const json* find(const char* name) {
    if (expected_) return nullptr;
    const auto it = object_.find(name);
    if (it != object_.end()) return &*it;
    expect("the member " + std::string(name));
    return nullptr;
  }
  void expect(std::string what) {
    if (!expected_) expected_ = std::move(what);
  }

  const json& object_;
  std::optional<std::string> expected_;
};

OffloadError at_line(const std::string& name, std::size_t line, const std::string& expected) {
  return {OffloadErrc::invalid_argument,
          name + ":" + std::to_string(line) + ": expected " + expected};
}

}  // namespace

Expected<Trace> parse_trace(std::istream& in, const std::string& name, std::size_t requests_max) {
  Trace trace;
  std::string text;
  for (std::size_t number = 1; trace.size() < requests_max && std::getline(in, text); ++number) {
    if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
    const json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (object.is_discarded()) return at_line(name, number, "one JSON object per line");
    Line line(object);
    TraceRequest request;
    request.timestamp_ms = line.time("timestamp");
    request.input_length = line.tokens("input_length");
    request.output_length = line.tokens("output_length");
    request.chunks = line.ids("hash_ids");
    if (line.expected()) return at_line(name, number, *line.expected());
    trace.push_back(std::move(request));
  }
  if (in.bad()) return OffloadError{OffloadErrc::io_error, name + ": cannot be read to its end"};
  if (trace.empty()) return at_line(name, 1, "at least one request");
  return trace;
}

Expected<Trace> read_trace(const std::string& file, std::size_t requests_max) {
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored))
    return OffloadError{OffloadErrc::io_error, file + ": is a directory, expected a trace file"};
  std::ifstream in(file);
  if (!in) return OffloadError{OffloadErrc::io_error, file + ": " + std::strerror(errno)};
  return parse_trace(in, file, requests_max);
}

}  // namespace kv_offload::bench
