#include "kv_offload/tiers/obj/shared_credentials.hpp"

#include "kv_offload/tiers/obj/log_text.hpp"
#include "kv_offload/tiers/obj/trimmed.hpp"

#include <cstddef>
#include <optional>
#include <utility>

namespace kv_offload {

namespace {

constexpr bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/// A '#' or ';' begins a comment at the start of a line and after a space; in a word it is part of it.
std::string_view without_comment(std::string_view line) {
  for (std::size_t i = 0; i < line.size(); ++i)
    if ((line[i] == '#' || line[i] == ';') && (i == 0 || is_space(line[i - 1])))
      return line.substr(0, i);
  return line;
}

/// What of the file the profile is made of.
class Parser {
 public:
  Parser(const std::string& profile, const std::string& file_name)
      : profile_(profile), file_name_(file_name) {}

  std::optional<OffloadError> add_line(std::string_view raw) {
    ++line_number_;
    const std::string_view line = trimmed(without_comment(raw));
    if (line.empty()) return std::nullopt;
    const bool is_indented = is_space(raw.front());
    if (line.front() == '[') return begin_section(line);
    if (section_ == Section::none) return at_line("stands before the first [profile]");
    if (section_ == Section::other) return std::nullopt;
    // `s3 =` and lines that go in from there are settings of settings, none of which is read here.
    if (is_indented && in_nested_) return std::nullopt;
    return add_setting(line);
  }

  Expected<AwsCredentials> finish() && {
    const std::string where = file_name_ + ": profile \"" + log_text(profile_, 128) + "\"";
    if (!is_found_) return {OffloadErrc::invalid_config, where + " is not there"};
    const bool has_key = !found_.access_key.empty();
    const bool has_secret = !found_.secret_key.empty();
    if (!has_key && !has_secret)
      return {OffloadErrc::invalid_config,
              where + " has no aws_access_key_id and no aws_secret_access_key"};
    if (!has_key) return {OffloadErrc::invalid_config, where + ": aws_access_key_id is missing"};
    if (!has_secret)
      return {OffloadErrc::invalid_config, where + ": aws_secret_access_key is missing"};
    if (const auto problem = unusable_field(found_))
      return {OffloadErrc::invalid_config, where + ": " + *problem};
    return Expected<AwsCredentials>(std::move(found_));
  }

 private:
  enum class Section { none, ours, other };

  [[nodiscard]] OffloadError at_line(const std::string& what) const {
    return {OffloadErrc::invalid_config,
            file_name_ + ": line " + std::to_string(line_number_) + " " + what};
  }

  std::optional<OffloadError> begin_section(std::string_view line) {
    const auto end = line.find(']');
    if (end == std::string_view::npos) return at_line("begins with '[' and has no ']'");
    if (end + 1 != line.size()) return at_line("goes on after its ']'");
    const bool is_ours = trimmed(line.substr(1, end - 1)) == profile_;
    section_ = is_ours ? Section::ours : Section::other;
    is_found_ = is_found_ || is_ours;
    in_nested_ = false;
    return std::nullopt;
  }

  std::optional<OffloadError> add_setting(std::string_view line) {
    const auto equals = line.find('=');
    if (equals == std::string_view::npos) return at_line("has no '='; expected name = value");
    const std::string_view name = trimmed(line.substr(0, equals));
    const std::string_view value = trimmed(line.substr(equals + 1));
    in_nested_ = value.empty();
    if (name == "aws_access_key_id") found_.access_key = value;
    if (name == "aws_secret_access_key") found_.secret_key = value;
    if (name == "aws_session_token") found_.session_token = value;
    return std::nullopt;
  }

  const std::string& profile_;
  const std::string& file_name_;
  std::size_t line_number_ = 0;
  Section section_ = Section::none;
  bool is_found_ = false;
  bool in_nested_ = false;
  AwsCredentials found_;
};

}  // namespace

Expected<AwsCredentials> parse_shared_credentials(std::string_view text, const std::string& profile,
                                                  const std::string& file_name) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  Parser parser(profile, file_name);
  while (!text.empty()) {
    const auto end = text.find('\n');
    if (auto error = parser.add_line(text.substr(0, end))) return *std::move(error);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return std::move(parser).finish();
}

}  // namespace kv_offload
