#pragma once

#include <algorithm>

namespace kv_offload {

/// How long a tier takes to load so many chunks, those queued before them included: a line through what loads took of
/// late, from admission to the last chunk's landing (the queue for slots included). Without an intercept below 0;
/// through the origin while all loads were of one length. Value type.
class LoadTimes {
 public:
  void add(double chunks, double seconds) {
    ++loads_;
    for (double* sum : {&n_, &x_, &xx_, &y_, &xy_}) *sum *= 1 - kFades;
    n_ += 1;
    x_ += chunks;
    xx_ += chunks * chunks;
    y_ += seconds;
    xy_ += chunks * seconds;
  }
  [[nodiscard]] bool knows() const { return loads_ > 0; }
  [[nodiscard]] unsigned long long loads() const { return loads_; }
  /// 0 before the first.
  [[nodiscard]] double seconds(double chunks) const {
    if (loads_ == 0 || xx_ <= 0) return 0;
    const double spread = n_ * xx_ - x_ * x_;
    const double slope =
        spread > kSpread * x_ * x_ ? std::max(0.0, (n_ * xy_ - x_ * y_) / spread) : xy_ / xx_;
    const double start = (y_ - slope * x_) / n_;
    return start >= 0 ? start + slope * chunks : xy_ / xx_ * chunks;
  }

 private:
  static constexpr double kFades = 1.0 / 16;  // of the weight of all before, per load
  static constexpr double kSpread = 0.01;     // of the squared mean: less is one length
  unsigned long long loads_ = 0;
  double n_ = 0, x_ = 0, xx_ = 0, y_ = 0, xy_ = 0;
};

}  // namespace kv_offload
