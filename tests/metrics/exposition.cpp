#include "kv_offload/tests/metrics/exposition.hpp"

#include <cstdlib>
#include <optional>
#include <set>
#include <stdexcept>

namespace kv_offload::test {
namespace {

using Labels = std::vector<std::pair<std::string, std::string>>;

struct Sample {
  std::string name;
  Labels labels;
  double value = 0;
};

[[noreturn]] void fail(const std::string& why) { throw std::runtime_error(why); }

bool is_name_char(char c, bool colon) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         (colon && c == ':');
}

std::string take_name(std::string_view& text, bool colon) {
  std::size_t n = 0;
  while (n < text.size() && is_name_char(text[n], colon)) ++n;
  if (n == 0 || (text[0] >= '0' && text[0] <= '9')) fail("a name is missing");
  std::string name(text.substr(0, n));
  text.remove_prefix(n);
  return name;
}

void take(std::string_view& text, std::string_view what) {
  if (!text.starts_with(what)) fail("expected '" + std::string(what) + "'");
  text.remove_prefix(what.size());
}

std::string take_quoted(std::string_view& text) {
  std::string value;
  take(text, "\"");
  for (;;) {
    if (text.empty()) fail("a label value does not end");
    const char c = text.front();
    text.remove_prefix(1);
    if (c == '"') return value;
    if (c != '\\') {
      value += c;
      continue;
    }
    const char escaped = text.empty() ? ' ' : text.front();
    if (escaped != 'n' && escaped != '\\' && escaped != '"') fail("unknown escape");
    value += escaped == 'n' ? '\n' : escaped;
    text.remove_prefix(1);
  }
}

double number(const std::string& text) {
  if (text == "+Inf") return std::strtod("inf", nullptr);
  if (text == "-Inf") return std::strtod("-inf", nullptr);
  if (text == "Nan" || text == "NaN") return std::strtod("nan", nullptr);
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || text.find_first_of("infx") != std::string::npos)
    fail("'" + text + "' is no number");
  return value;
}

Sample parse_sample(std::string_view text) {
  Sample sample;
  sample.name = take_name(text, true);
  if (text.starts_with("{")) {
    text.remove_prefix(1);
    while (!text.starts_with("}")) {
      if (!sample.labels.empty()) take(text, ",");
      std::string label = take_name(text, false);
      take(text, "=");
      for (const auto& [name, value] : sample.labels)
        if (name == label) fail("label " + label + " twice");
      sample.labels.emplace_back(std::move(label), take_quoted(text));
    }
    text.remove_prefix(1);
  }
  take(text, " ");
  sample.value = number(std::string(text));
  return sample;
}

std::string id_of(const Sample& sample, std::string_view without = {}) {
  std::string labels;
  for (const auto& [name, value] : sample.labels)
    if (name != without) labels += (labels.empty() ? "" : ",") + name + "=\"" + value + '"';
  return sample.name + (labels.empty() ? "" : "{" + labels + "}");
}

/// The buckets of one histogram so far: `le` rises to +Inf, counts never fall, _count is the last.
struct Buckets {
  std::string of;
  double bound = 0, count = 0;
  bool is_open = false;
};

class Parser {
 public:
  Exposition parse(std::string_view text) {
    if (!text.empty() && text.back() != '\n') fail("the last line does not end");
    for (std::size_t line = 1; !text.empty(); ++line) {
      const auto end = text.find('\n');
      try {
        parse_line(text.substr(0, end));
      } catch (const std::runtime_error& error) {
        fail("line " + std::to_string(line) + ": " + error.what());
      }
      text.remove_prefix(end + 1);
    }
    if (buckets_.is_open) fail("at the end: a histogram ends without +Inf");
    return std::move(page_);
  }

 private:
  void parse_line(std::string_view line) {
    if (line.empty()) return;
    if (line.starts_with("# HELP ")) return begin_help(line.substr(7));
    if (line.starts_with("# TYPE ")) return begin_type(line.substr(7));
    if (line.starts_with("#")) return;
    add(parse_sample(line));
  }

  void begin_help(std::string_view line) {
    const std::string name = take_name(line, true);
    take(line, " ");
    if (page_.families.count(name) != 0) fail("family " + name + " twice");
    page_.families[name].help = std::string(line);
    helped_ = name;
  }

  void begin_type(std::string_view line) {
    const std::string name = take_name(line, true);
    take(line, " ");
    if (name != helped_) fail("TYPE of " + name + " without its HELP");
    const std::string type(line);
    if (type != "counter" && type != "gauge" && type != "histogram" && type != "summary")
      fail("type '" + type + "'");
    page_.families[name].type = type;
    family_ = name;
  }

  void add(const Sample& sample) {
    const std::string id = id_of(sample);
    if (family_.empty() || !sample.name.starts_with(family_)) fail(id + " is outside its family");
    Exposition::Family& family = page_.families[family_];
    const std::string suffix = sample.name.substr(family_.size());
    if (family.type == "histogram") {
      add_histogram(sample, suffix);
    } else if (!suffix.empty() && family.type != "summary") {
      fail(id + " is outside its family");
    }
    if (family.type == "counter" && !(sample.value >= 0)) fail(id + " is negative");
    if (!page_.values.emplace(id, sample.value).second) fail(id + " twice");
    family.samples.push_back(id);
  }

  void add_histogram(const Sample& sample, const std::string& suffix) {
    if (suffix == "_bucket") return add_bucket(sample);
    if (buckets_.is_open) fail("a histogram ends without +Inf");
    if (suffix != "_sum" && suffix != "_count") fail(sample.name + " in a histogram");
    if (suffix == "_count") counts_[family_ + labels_of(sample)] = sample.value;
    const auto last = infinite_.find(family_ + labels_of(sample));
    if (suffix == "_count" && last != infinite_.end() && last->second != sample.value)
      fail("_count is not the +Inf bucket");
  }

  void add_bucket(const Sample& sample) {
    const std::string of = labels_of(sample);
    std::optional<double> bound;
    for (const auto& [name, value] : sample.labels)
      if (name == "le") bound = number(value);
    if (!bound) fail("a bucket without le");
    if (buckets_.is_open &&
        (of != buckets_.of || *bound <= buckets_.bound || sample.value < buckets_.count))
      fail("buckets do not rise");
    const bool is_last = *bound > 1e308;
    buckets_ = {of, *bound, sample.value, !is_last};
    if (!is_last) return;
    infinite_[family_ + of] = sample.value;
    const auto count = counts_.find(family_ + of);
    if (count != counts_.end() && count->second != sample.value)
      fail("_count is not the +Inf bucket");
  }

  static std::string labels_of(const Sample& sample) {
    return id_of(Sample{"", sample.labels, 0}, "le");
  }

  Exposition page_;
  std::string helped_, family_;
  Buckets buckets_;
  std::map<std::string, double> counts_, infinite_;
};

}  // namespace

Exposition Exposition::parse(std::string_view text) { return Parser().parse(text); }

}  // namespace kv_offload::test
