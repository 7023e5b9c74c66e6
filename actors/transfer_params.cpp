#include "kv_offload/actors/transfer_params.hpp"

#include "kv_offload/actors/json_config.hpp"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kv_offload {
namespace {

/// Parameters are kept as long as their request; routing takes a few hundred bytes.
constexpr std::size_t kParamBytesMax = std::size_t{64} << 10;

bool same_word(const std::string& text, std::string_view word) {
  return std::equal(text.begin(), text.end(), word.begin(), word.end(),
                    [](unsigned char a, unsigned char b) { return std::toupper(a) == b; });
}

/// Sets the side that the word names; false if it names none.
bool read_word(const std::string& word, TierMatcher& matcher) {
  for (const auto m : {Medium::cpu, Medium::storage})
    if (same_word(word, to_string(m))) return matcher.medium = m, true;
  for (const auto l : {Locality::local, Locality::remote})
    if (same_word(word, to_string(l))) return matcher.locality = l, true;
  return false;
}

std::optional<TierMatcher> read_matcher(const ConfigNode& node) {
  TierMatcher matcher;
  if (const auto* word = std::get_if<std::string>(&node.value()))
    return read_word(*word, matcher) ? std::optional(matcher) : std::nullopt;
  if (node.object() == nullptr) return std::nullopt;
  for (const auto& [name, value] : *node.object()) {
    if (value.is_null()) continue;
    TierMatcher one;
    const auto* word = std::get_if<std::string>(&value.value());
    if (word == nullptr || !read_word(*word, one)) return std::nullopt;
    if (name == "medium" && one.medium) matcher.medium = one.medium;
    else if (name == "locality" && one.locality) matcher.locality = one.locality;
    else return std::nullopt;
  }
  return matcher;
}

void read_load_tiers(const ConfigNode& node, NewRequest& request) {
  if (node.list() == nullptr) {
    request.param_faults.push_back(TransferParamFault::kv_load_tiers);
    return;
  }
  std::vector<TierMatcher> matchers;
  for (const auto& entry : *node.list())
    if (const auto matcher = read_matcher(entry)) matchers.push_back(*matcher);
  if (matchers.size() < node.list()->size()) request.param_faults.push_back(TransferParamFault::kv_load_tiers);
  const bool all_invalid = matchers.empty() && !node.list()->empty();
  request.load_tiers = all_invalid ? TierFilter() : TierFilter::only(std::move(matchers));
}

void read_tokens(const ConfigNode& node, TransferParamFault fault, std::optional<std::uint64_t>& tokens,
                 NewRequest& request) {
  const auto* n = std::get_if<std::int64_t>(&node.value());
  if (n != nullptr && *n >= 0) tokens = static_cast<std::uint64_t>(*n);
  else request.param_faults.push_back(fault);
}

}  // namespace

void read_transfer_params(NewRequest& request) {
  if (request.kv_transfer_params.empty()) return;
  if (request.kv_transfer_params.size() > kParamBytesMax) {
    request.kv_transfer_params = {};
    request.param_faults.push_back(TransferParamFault::not_an_object);
    return;
  }
  const auto document = parse_json_config(request.kv_transfer_params, "kv_transfer_params");
  if (!document || document->object() == nullptr) {
    const bool is_null = document && document->is_null();
    if (!is_null) request.param_faults.push_back(TransferParamFault::not_an_object);
    return;
  }
  if (const auto* node = document->find("kv_load_tiers"); node != nullptr && !node->is_null())
    read_load_tiers(*node, request);
  if (const auto* node = document->find("max_offload_tokens"); node != nullptr && !node->is_null())
    read_tokens(*node, TransferParamFault::max_offload_tokens, request.max_offload_tokens, request);
  if (const auto* node = document->find("max_load_tokens"); node != nullptr && !node->is_null())
    read_tokens(*node, TransferParamFault::max_load_tokens, request.max_load_tokens, request);
}

}  // namespace kv_offload
