#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace kv_offload {

static_assert(std::endian::native == std::endian::little,
              "numbers are written as they lie in memory");

/// Appends numbers and texts to a buffer, without padding. Texts have their length in front, in two bytes.
class ByteWriter {
 public:
  template <class T>
  requires std::is_integral_v<T>
  void number(T value) {
    const auto at = bytes_.size();
    bytes_.resize(at + sizeof(T));
    std::memcpy(bytes_.data() + at, &value, sizeof(T));
  }
  void flag(bool value) { number<std::uint8_t>(value ? 1 : 0); }
  /// Cut to `bytes_max`, which is below 65536.
  void text(std::string_view value, std::size_t bytes_max) {
    value = value.substr(0, bytes_max);
    number(static_cast<std::uint16_t>(value.size()));
    const auto at = bytes_.size();
    bytes_.resize(at + value.size());
    if (!value.empty()) std::memcpy(bytes_.data() + at, value.data(), value.size());
  }
  template <class T>
  requires std::is_integral_v<T>
  void numbers(const std::vector<T>& values) {
    number(static_cast<std::uint32_t>(values.size()));
    const auto at = bytes_.size();
    bytes_.resize(at + values.size() * sizeof(T));
    if (!values.empty()) std::memcpy(bytes_.data() + at, values.data(), values.size() * sizeof(T));
  }
  [[nodiscard]] const std::vector<std::byte>& bytes() const { return bytes_; }
  [[nodiscard]] std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

/// Reads what ByteWriter wrote. The first thing that is not there, or is more than allowed, makes it fail for good:
/// everything read from then on is zero or empty, and done() is false.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : left_(bytes) {}

  template <class T>
  requires std::is_integral_v<T> T number() {
    T value{};
    if (take(sizeof(T))) std::memcpy(&value, taken_.data(), sizeof(T));
    return value;
  }
  /// A byte that is 0 or 1.
  bool flag() {
    const auto value = number<std::uint8_t>();
    if (value > 1) fail();
    return value == 1;
  }
  std::string text(std::size_t bytes_max) {
    const auto size = number<std::uint16_t>();
    if (size > bytes_max) fail();
    if (!take(size)) return {};
    return {reinterpret_cast<const char*>(taken_.data()), size};
  }
  /// How many elements of at least `bytes_each` follow; no more than can be there.
  std::uint32_t count(std::size_t bytes_each) {
    const auto value = number<std::uint32_t>();
    if (value > left_.size() / bytes_each) fail();
    return ok_ ? value : 0;
  }
  template <class T>
  requires std::is_integral_v<T> std::vector<T> numbers() {
    std::vector<T> values(count(sizeof(T)));
    if (take(values.size() * sizeof(T)) && !values.empty())
      std::memcpy(values.data(), taken_.data(), values.size() * sizeof(T));
    return ok_ ? values : std::vector<T>{};
  }
  void fail() {
    ok_ = false;
    left_ = {};
  }
  [[nodiscard]] bool ok() const { return ok_; }
  /// Everything was there, and nothing more.
  [[nodiscard]] bool done() const { return ok_ && left_.empty(); }

 private:
  bool take(std::size_t bytes) {
    if (!ok_ || bytes > left_.size()) {
      fail();
      return false;
    }
    taken_ = left_.first(bytes);
    left_ = left_.subspan(bytes);
    return true;
  }

  std::span<const std::byte> left_;
  std::span<const std::byte> taken_;
  bool ok_ = true;
};

}  // namespace kv_offload
