#pragma once

#include "kv_offload/messages/ids.hpp"

#include <algorithm>
#include <cstdint>
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

/// Straight-line model of a primary tier over key numbers. Recounts where the real one keeps counts.
class NaivePrimary {
 public:
  struct Entry {
    ChunkId chunk = kNoChunk;
    bool ready = false;
    bool promoted_unread = false;
    int pins = 0;
    int holds = 0;
  };
  struct Event {
    bool removed = false;
    std::vector<int> keys;
    std::vector<ChunkId> chunks;
    friend bool operator==(const Event&, const Event&) = default;
  };
  using Names = std::vector<int>;

  NaivePrimary(ChunkId chunks, ChunkId reserve, ChunkId holds, const std::string& name)
      : num_chunks(chunks),
        headroom(reserve),
        hold_max(holds),
        policy(naive_policy(name, chunks)) {}

  std::optional<Names> reserve_store(const Names& call, std::vector<ChunkId>& slots) {
    Names absent;
    for (const int k : call)
      if (!entries.contains(k) && std::find(absent.begin(), absent.end(), k) == absent.end())
        absent.push_back(k);
    if (absent.empty()) return absent;
    samples.push_back(absent.size());
    if (!make_room(absent.size(), call, false)) return std::nullopt;
    for (const int k : absent) slots.push_back(begin_writing(k, false));
    return absent;
  }
  std::size_t reserve_promotion(const Names& call, std::vector<ChunkId>& slots) {
    std::size_t granted = 0;
    while (granted < call.size() && free() + evictable() > headroom + granted) ++granted;
    make_room(granted, call, true);
    for (std::size_t i = 0; i < granted; ++i) slots.push_back(begin_writing(call[i], true));
    for (std::size_t i = 0; i < granted + (granted < call.size() ? 1 : 0); ++i)
      samples.push_back(1);
    return granted;
  }
  void publish(const Names& which) {
    Event e;
    for (const int k : which) {
      Entry& entry = entries.at(k);
      if (entry.ready) continue;
      entry.ready = true;
      policy->became_ready(k);
      if (!kept(k)) policy->became_evictable(k);
      e.keys.push_back(k);
      e.chunks.push_back(entry.chunk);
    }
    if (!e.keys.empty()) events.push_back(e);
  }
  void drop_writing(const Names& which, bool quarantine) {
    for (const int k : which) {
      if (entries.at(k).ready) continue;
      const ChunkId chunk = entries.at(k).chunk;
      policy->remove(k);
      entries.erase(k);
      if (quarantine)
        quarantined.insert(chunk);
      else
        free_list.push_back(chunk);
    }
  }
  void release(ChunkId chunk) {
    if (quarantined.erase(chunk) == 0) return;
    if (chunk < next_unused) free_list.push_back(chunk);
    // else: numbering restarted below it, it counts as never used again
  }
  void pin(int k) {
    if (!kept(k)) policy->became_kept(k);
    ++entries.at(k).pins;
    entries.at(k).promoted_unread = false;
  }
  void unpin(int k) {
    --entries.at(k).pins;
    if (!kept(k)) policy->became_evictable(k);
  }
  bool hold(int k) {
    Entry& e = entries.at(k);
    if (e.holds == 0 && held() >= hold_max) return ++holds_refused, false;
    if (e.ready && !kept(k)) policy->became_kept(k);
    ++e.holds;
    return true;
  }
  void release_hold(int k) {
    --entries.at(k).holds;
    if (entries.at(k).ready && !kept(k)) policy->became_evictable(k);
  }
  bool remove(int k) {
    const auto it = entries.find(k);
    if (it == entries.end() || !it->second.ready || kept(k)) return false;
    events.push_back({true, {k}, {it->second.chunk}});
    free_list.push_back(it->second.chunk);
    policy->remove(k);
    entries.erase(it);
    return true;
  }
  void reset(const std::set<ChunkId>& in_use) {
    quarantined.insert(in_use.begin(), in_use.end());
    entries.clear();
    free_list.clear();
    next_unused = 0;
    policy->clear();
  }

  [[nodiscard]] bool kept(int k) const { return entries.at(k).pins > 0 || entries.at(k).holds > 0; }
  [[nodiscard]] ChunkId count(bool (*what)(const Entry&)) const {
    return static_cast<ChunkId>(std::count_if(entries.begin(), entries.end(),
                                              [&](const auto& e) { return what(e.second); }));
  }
  [[nodiscard]] ChunkId held() const {
    return count([](const Entry& e) { return e.holds > 0; });
  }
  [[nodiscard]] ChunkId pinned() const {
    return count([](const Entry& e) { return e.pins > 0; });
  }
  [[nodiscard]] ChunkId writing() const {
    return count([](const Entry& e) { return !e.ready; });
  }
  [[nodiscard]] ChunkId evictable() const {
    return count([](const Entry& e) { return e.ready && e.pins == 0 && e.holds == 0; });
  }
  [[nodiscard]] ChunkId unused() const {
    ChunkId n = 0;
    for (ChunkId c = next_unused; c < num_chunks; ++c) n += quarantined.contains(c) ? 0 : 1;
    return n;
  }
  [[nodiscard]] ChunkId free() const { return unused() + static_cast<ChunkId>(free_list.size()); }

  ChunkId num_chunks;
  ChunkId headroom;
  ChunkId hold_max;
  std::unique_ptr<NaivePolicy> policy;
  std::map<int, Entry> entries;
  std::vector<ChunkId> free_list;
  std::set<ChunkId> quarantined;
  ChunkId next_unused = 0;
  std::vector<Event> events;
  std::vector<std::uint64_t> samples;
  std::uint64_t holds_refused = 0;
  std::uint64_t evictions = 0;
  std::uint64_t evicted_unread = 0;

 private:
  bool make_room(std::size_t n, const Names& call, bool first_first) {
    if (n <= free()) return true;
    const std::size_t need = n - free();
    std::set<int> may_go;
    for (const auto& [k, e] : entries)
      if (e.ready && !kept(k) && std::find(call.begin(), call.end(), k) == call.end())
        may_go.insert(k);
    const auto victims = policy->evict(need, may_go);
    if (!victims) return false;
    Event e{true, {}, {}};
    for (const int k : *victims) {
      const Entry& entry = entries.at(k);
      e.keys.push_back(k);
      e.chunks.push_back(entry.chunk);
      ++evictions;
      evicted_unread += entry.promoted_unread ? 1 : 0;
      if (first_first)
        free_list.insert(free_list.begin(), entry.chunk);
      else
        free_list.push_back(entry.chunk);
      entries.erase(k);
    }
    events.push_back(e);
    return true;
  }
  ChunkId begin_writing(int k, bool promoted) {
    ChunkId chunk = kNoChunk;
    if (unused() > 0) {
      while (quarantined.contains(next_unused)) ++next_unused;
      chunk = next_unused++;
    } else {
      chunk = free_list.back();
      free_list.pop_back();
    }
    entries[k] = {chunk, false, promoted, 0, 0};
    policy->insert(k);
    return chunk;
  }
};

}  // namespace kv_offload::test
