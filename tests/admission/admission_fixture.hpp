#pragma once

#include "kv_offload/admission/admission_policy.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace kv_offload::test {

/// Injected time: seconds after an arbitrary start (not 0, so that a forgotten time shows).
inline MonotonicTime at(double seconds) {
  return MonotonicTime(std::chrono::hours(1)) + from_seconds(seconds);
}

inline OffloadKey key(std::uint32_t n) {
  std::array<std::byte, 32> hash{};
  std::memcpy(hash.data(), &n, sizeof n);
  return *OffloadKey::make(hash, 0);
}
inline KeyList keys(std::uint32_t count, std::uint32_t first = 0) {
  KeyList list;
  for (std::uint32_t i = 0; i < count; ++i) list.push_back(key(first + i));
  return list;
}

inline JobMetadata cascade(AdmissionTicket ticket, std::uint32_t chunks = 1, TierIndex tier = 0) {
  JobMetadata job;
  job.ticket = ticket;
  job.tier = tier;
  job.num_chunks = chunks;
  job.bytes = std::uint64_t{chunks} << 20;
  return job;
}
inline JobMetadata promotion(AdmissionTicket ticket, std::uint32_t chunks = 1, TierIndex tier = 0) {
  JobMetadata job = cascade(ticket, chunks, tier);
  job.is_promotion = true;
  return job;
}

inline CompletedTransfer ended(double from, double to, std::uint64_t bytes = 1 << 20) {
  return {true, bytes, at(from), at(to)};
}
inline CompletedTransfer failed(double from, double to) { return {false, 0, at(from), at(to)}; }

/// One local fs tier, one object store.
inline AdmissionEnvironment two_tiers() {
  TierTraits fs{"fs", Medium::storage, Locality::local};
  TierTraits obj{"obj", Medium::storage, std::nullopt};
  return {{fs, obj}, {"1:fs", "2:obj"}};
}

inline ConfigNode from_json(const nlohmann::json& json) {
  if (json.is_null()) return ConfigNode(nullptr);
  if (json.is_boolean()) return ConfigNode(json.get<bool>());
  if (json.is_number_integer()) return ConfigNode(json.get<std::int64_t>());
  if (json.is_number()) return ConfigNode(json.get<double>());
  if (json.is_string()) return ConfigNode(json.get<std::string>());
  if (json.is_array()) {
    ConfigNode::List list;
    for (const auto& item : json) list.push_back(from_json(item));
    return ConfigNode(list);
  }
  ConfigNode::Object object;
  for (const auto& [name, value] : json.items()) object.emplace(name, from_json(value));
  return ConfigNode(object);
}
inline ConfigNode parse(const std::string& text) { return from_json(nlohmann::json::parse(text)); }

/// The bytes of an object, to prove that a call changed none of them.
template <class T>
std::vector<unsigned char> bytes_of(const T& object) {
  std::vector<unsigned char> bytes(sizeof object);
  std::memcpy(bytes.data(), static_cast<const void*>(&object), sizeof object);
  return bytes;
}

inline double sample_of(const std::vector<MetricSample>& samples, const std::string& name,
                        const std::string& tier) {
  for (const auto& s : samples)
    if (s.name == name && s.labels == decltype(s.labels){{"tier", tier}}) return s.value;
  return -1;
}

/// A policy with a switch: refuses what it is told to and records what it hears.
class ScriptedPolicy final : public AdmissionPolicy {
 public:
  explicit ScriptedPolicy(std::string name, RefusalReason reason = RefusalReason::none)
      : reason_(reason), name_(std::move(name)) {}

  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] RefusalReason should_admit(const JobMetadata& job,
                                           MonotonicTime /*now*/) const override {
    ++asked_;
    last_keys_ = job.keys.size();
    return reason_;
  }
  void on_admitted(const JobMetadata& job, MonotonicTime /*now*/) override {
    ++admitted_;
    in_flight_ += job.num_chunks;
  }
  void on_refused(const JobMetadata& /*job*/, const AdmissionPolicy* refuser,
                  MonotonicTime /*now*/) override {
    ++refused_;
    if (refuser == this) ++refused_by_me_;
  }
  void on_completed(const JobMetadata& job, const CompletedTransfer& /*result*/,
                    MonotonicTime /*now*/) override {
    ++completed_;
    in_flight_ -= job.num_chunks;
  }
  void on_withdrawn(const JobMetadata& job, MonotonicTime /*now*/) override {
    ++withdrawn_;
    in_flight_ -= job.num_chunks;
  }
  void reset() override {
    ++resets_;
    in_flight_ = 0;
  }
  [[nodiscard]] std::int64_t in_flight_chunks() const override { return in_flight_; }
  [[nodiscard]] std::vector<MetricSample> stats(MonotonicTime /*now*/) const override {
    return {{"scripted_refused_total", {{"tier", "1:fs"}}, static_cast<double>(refused_by_me_)},
            {"scripted_level", {{"tier", "1:fs"}}, level_}};
  }

  RefusalReason reason_;
  double level_ = 0;
  mutable int asked_ = 0;
  mutable std::size_t last_keys_ = 0;
  int admitted_ = 0, refused_ = 0, refused_by_me_ = 0, completed_ = 0, withdrawn_ = 0, resets_ = 0;
  std::int64_t in_flight_ = 0;

 private:
  std::string name_;
};

}  // namespace kv_offload::test
