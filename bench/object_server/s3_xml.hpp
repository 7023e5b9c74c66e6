#pragma once

#include "kv_offload/bench/object_server/object_map.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kv_offload::bench {

std::string error_xml(std::string_view code, std::string_view message, std::string_view bucket,
                      std::string_view key);
/// What PermanentRedirect says besides.
std::string redirect_xml(std::string_view bucket, std::string_view endpoint);

struct ListPage {
  std::string bucket, prefix;
  std::size_t keys_max = 0;
  bool url_encoded = false;
  std::optional<std::string> token;  ///< of this page
  std::optional<std::string> next_token;
  std::vector<std::pair<std::string, ObjectPtr>> objects;
};
std::string list_xml(const ListPage& page);

struct DeleteOrder {
  std::vector<std::string> keys;
  bool quiet = false;
};
/// Nullopt: no such document, or over 1000 keys.
std::optional<DeleteOrder> parse_delete_xml(std::string_view text);
std::string deleted_xml(const DeleteOrder& order);

/// "2026-01-31T12:00:00.000Z"
std::string iso_time(std::time_t at);

}  // namespace kv_offload::bench
