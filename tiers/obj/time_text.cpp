#include "kv_offload/tiers/obj/time_text.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

namespace kv_offload {

namespace {

using std::chrono::sys_seconds;

constexpr std::array<std::string_view, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
constexpr std::array<std::string_view, 7> kDays = {"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"};

/// Reads a text from left to right; the first thing that is not as expected spoils the whole.
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  void literal(std::string_view expected) {
    if (rest_.starts_with(expected))
      rest_.remove_prefix(expected.size());
    else
      is_good_ = false;
  }
  unsigned digits(std::size_t count) {
    unsigned value = 0;
    for (; count > 0; --count) value = value * 10 + digit();
    return value;
  }
  /// Index of the word that stands here.
  template <std::size_t N>
  unsigned word(const std::array<std::string_view, N>& words) {
    const auto found =
        std::find_if(words.begin(), words.end(), [&](auto w) { return rest_.starts_with(w); });
    if (found == words.end()) return is_good_ = false, 0;
    rest_.remove_prefix(found->size());
    return static_cast<unsigned>(found - words.begin());
  }
  void skip_fraction() {
    if (!rest_.starts_with('.')) return;
    rest_.remove_prefix(1);
    digits(1);
    while (!rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9') rest_.remove_prefix(1);
  }
  [[nodiscard]] bool is_good() const { return is_good_ && rest_.empty(); }

 private:
  unsigned digit() {
    if (rest_.empty() || rest_.front() < '0' || rest_.front() > '9') return is_good_ = false, 0;
    const auto value = static_cast<unsigned>(rest_.front() - '0');
    rest_.remove_prefix(1);
    return value;
  }

  std::string_view rest_;
  bool is_good_ = true;
};

struct Fields {
  unsigned year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
};

std::optional<sys_seconds> time_of(const Fields& f, const Reader& reader) {
  using namespace std::chrono;
  const year_month_day date{year(static_cast<int>(f.year)), month(f.month), day(f.day)};
  if (f.year < 1900 || f.year > 2200) return std::nullopt;
  // A leap second is written as second 60.
  if (!reader.is_good() || !date.ok() || f.hour > 23 || f.minute > 59 || f.second > 60)
    return std::nullopt;
  return sys_days(date) + hours(f.hour) + minutes(f.minute) + seconds(f.second);
}

}  // namespace

std::optional<sys_seconds> parse_http_date(std::string_view text) {
  Reader reader(text);
  Fields f;
  reader.word(kDays);
  reader.literal(", ");
  f.day = reader.digits(2);
  reader.literal(" ");
  f.month = reader.word(kMonths) + 1;
  reader.literal(" ");
  f.year = reader.digits(4);
  reader.literal(" ");
  f.hour = reader.digits(2);
  reader.literal(":");
  f.minute = reader.digits(2);
  reader.literal(":");
  f.second = reader.digits(2);
  reader.literal(" GMT");
  return time_of(f, reader);
}

std::optional<sys_seconds> parse_iso_time(std::string_view text) {
  Reader reader(text);
  Fields f;
  f.year = reader.digits(4);
  reader.literal("-");
  f.month = reader.digits(2);
  reader.literal("-");
  f.day = reader.digits(2);
  reader.literal("T");
  f.hour = reader.digits(2);
  reader.literal(":");
  f.minute = reader.digits(2);
  reader.literal(":");
  f.second = reader.digits(2);
  reader.skip_fraction();
  reader.literal("Z");
  return time_of(f, reader);
}

std::string basic_iso_time(sys_seconds time) {
  using namespace std::chrono;
  const auto midnight = floor<days>(time);
  const year_month_day date(midnight);
  const hh_mm_ss clock(time - midnight);
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%04d%02u%02uT%02u%02u%02uZ",
                static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                static_cast<unsigned>(date.day()), static_cast<unsigned>(clock.hours().count()),
                static_cast<unsigned>(clock.minutes().count()),
                static_cast<unsigned>(clock.seconds().count()));
  return text.data();
}

}  // namespace kv_offload
