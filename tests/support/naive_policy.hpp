#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace kv_offload::test {

/// Straight-line model of eviction orders over key numbers: vectors and linear scans, no shared code with
/// the policies. Front of a vector = oldest.
class NaivePolicy {
 public:
  using Names = std::vector<int>;
  virtual ~NaivePolicy() = default;
  virtual void insert(int key) = 0;
  virtual void remove(int key) = 0;
  virtual void became_ready(int) {}
  virtual void became_evictable(int) {}
  virtual void became_kept(int) {}
  virtual void touch_one(int key) = 0;
  /// `may_go`: evictable and not named in the call.
  virtual std::optional<Names> evict(std::size_t n, const std::set<int>& may_go) = 0;
  virtual void clear() = 0;
  void touch(const Names& keys) {
    std::for_each(keys.rbegin(), keys.rend(), [this](int k) { touch_one(k); });
  }

 protected:
  static bool has(const Names& v, int k) { return std::find(v.begin(), v.end(), k) != v.end(); }
  static bool drop(Names& v, int k) { return std::erase(v, k) > 0; }
};

class NaiveLru final : public NaivePolicy {
 public:
  void insert(int) override {}
  void remove(int key) override { drop(order_, key); }
  void became_evictable(int key) override { order_.push_back(key); }
  void became_kept(int key) override { drop(order_, key); }
  void touch_one(int key) override {
    if (drop(order_, key)) order_.push_back(key);
  }
  std::optional<Names> evict(std::size_t n, const std::set<int>& may_go) override {
    Names out;
    for (const int k : order_)
      if (out.size() < n && may_go.contains(k)) out.push_back(k);
    if (out.size() < n) return std::nullopt;
    for (const int k : out) drop(order_, k);
    return out;
  }
  void clear() override { order_.clear(); }

 private:
  Names order_;
};

class NaiveArc final : public NaivePolicy {
 public:
  explicit NaiveArc(std::size_t capacity) : capacity_(capacity) {}
  void insert(int key) override {
    drop(b1_, key);
    drop(b2_, key);
    t1_.push_back(key);
  }
  void remove(int key) override {
    if (!drop(t1_, key)) drop(t2_, key);
    ready_.erase(key);
  }
  void became_ready(int key) override { ready_.insert(key); }
  void touch_one(int key) override {
    if (has(t1_, key)) {
      drop(t1_, key);
      (ready_.contains(key) ? t2_ : t1_).push_back(key);
    } else if (drop(t2_, key)) {
      t2_.push_back(key);
    } else if (has(b1_, key)) {
      target_ += std::max(1.0, ratio(b2_, b1_));
      if (target_ > static_cast<double>(capacity_)) target_ = static_cast<double>(capacity_);
      drop(b1_, key);
      b1_.push_back(key);
    } else if (has(b2_, key)) {
      target_ -= std::max(1.0, ratio(b1_, b2_));
      if (target_ < 0) target_ = 0;
      drop(b2_, key);
      b2_.push_back(key);
    }
  }
  std::optional<Names> evict(std::size_t n, const std::set<int>& may_go) override {
    Names from1, from2, out;
    for (const int k : t1_)
      if (may_go.contains(k)) from1.push_back(k);
    for (const int k : t2_)
      if (may_go.contains(k)) from2.push_back(k);
    if (from1.size() + from2.size() < n) return std::nullopt;
    auto left = static_cast<double>(t1_.size());
    while (out.size() < n) {
      const bool wants_t1 = left >= static_cast<double>(static_cast<long>(target_));
      Names& list = (wants_t1 && !from1.empty()) || from2.empty() ? from1 : from2;
      if (&list == &from1) --left;
      out.push_back(list.front());
      list.erase(list.begin());
    }
    for (const int k : out) (has(t1_, k) ? b1_ : b2_).push_back(k);
    for (const int k : out) remove(k);
    for (Names* b : {&b1_, &b2_})
      while (b->size() > capacity_) b->erase(b->begin());
    return out;
  }
  void clear() override { *this = NaiveArc(capacity_); }

 private:
  static double ratio(const Names& a, const Names& b) {
    return static_cast<double>(a.size()) / static_cast<double>(b.size());
  }
  std::size_t capacity_;
  Names t1_, t2_, b1_, b2_;
  std::set<int> ready_;
  double target_ = 0;
};

class NaiveS3Fifo final : public NaivePolicy {
 public:
  explicit NaiveS3Fifo(std::size_t capacity) : capacity_(capacity) {}
  void insert(int key) override {
    (drop(ghosts_, key) ? main_ : small_).push_back(key);
    touches_[key] = 0;
  }
  void remove(int key) override {
    drop(small_, key);
    drop(main_, key);
    touches_.erase(key);
  }
  void touch_one(int key) override {
    const auto it = touches_.find(key);
    if (it != touches_.end()) it->second = std::min(3, it->second + 1);
  }
  std::optional<Names> evict(std::size_t n, const std::set<int>& may_go) override {
    const NaiveS3Fifo before = *this;
    Names out;
    while (out.size() < n) {
      const auto in_small = std::find_if(small_.begin(), small_.end(),
                                         [&](int k) { return may_go.contains(k) && !has(out, k); });
      const auto in_main = std::find_if(main_.begin(), main_.end(),
                                        [&](int k) { return may_go.contains(k) && !has(out, k); });
      const bool wants_small = small_.size() >= std::max<std::size_t>(1, capacity_ / 10);
      if (in_small == small_.end() && in_main == main_.end()) {
        *this = before;
        return std::nullopt;
      }
      const bool small = in_main == main_.end() || (wants_small && in_small != small_.end());
      const int k = small ? *in_small : *in_main;
      if (small && touches_[k] > 1) {
        drop(small_, k);
        touches_[k] = 0;
        main_.push_back(k);
      } else if (!small && touches_[k] > 0) {
        --touches_[k];
        drop(main_, k);
        main_.push_back(k);
      } else {
        remove(k);
        out.push_back(k);
        if (small) ghosts_.push_back(k);
        if (ghosts_.size() > capacity_ - capacity_ / 10) ghosts_.erase(ghosts_.begin());
      }
    }
    return out;
  }
  void clear() override { *this = NaiveS3Fifo(capacity_); }

 private:
  std::size_t capacity_;
  Names small_, main_, ghosts_;
  std::map<int, int> touches_;
};

inline std::unique_ptr<NaivePolicy> naive_policy(const std::string& name, std::size_t capacity) {
  if (name == "arc") return std::make_unique<NaiveArc>(capacity);
  if (name == "s3fifo") return std::make_unique<NaiveS3Fifo>(capacity);
  return std::make_unique<NaiveLru>();
}

}  // namespace kv_offload::test
