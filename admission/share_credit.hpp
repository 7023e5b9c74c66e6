#pragma once

namespace kv_offload {

/// Admits a share of candidates without dice: each earns its share of one admission, and is
/// admitted when a whole one has been earned. Over any run of candidates the admitted differ from
/// the sum of their shares by less than one. Value type.
class ShareCredit {
 public:
  /// Would the next candidate be admitted at this share? Pure.
  [[nodiscard]] bool admits(double share) const { return credit_ + share >= 1 - kRounding; }
  void admitted(double share) { credit_ += share - 1; }
  void refused(double share) { credit_ += share; }
  [[nodiscard]] double credit() const { return credit_; }

 private:
  // Ten times a share of 0.1 must earn an admission although 0.1 has no exact binary form. What is
  // granted too early stays owed: the credit may be this little below 0.
  static constexpr double kRounding = 1e-9;

  double credit_ = 0;
};

}  // namespace kv_offload
