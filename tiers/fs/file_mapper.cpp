#include "kv_offload/tiers/fs/file_mapper.hpp"

#include "kv_offload/tiers/fs/small_file.hpp"
#include "kv_offload/tiers/sha256.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <exception>
#include <string_view>
#include <tuple>
#include <utility>

namespace kv_offload {

namespace {

/// The bytes do not depend on who computed them, so all layouts share one namespace.
bool is_collapsed(const NamespaceIdentity& id) {
  return id.parallelism_agnostic || id.replicated_layout;
}

nlohmann::json identity_fields(const NamespaceIdentity& id) {
  const bool collapsed = is_collapsed(id);
  nlohmann::json groups = nlohmann::json::array();
  for (const auto& group : id.kv_cache_groups)
    groups.push_back(
        {{"tokens_per_block", group.tokens_per_block}, {"layer_names", group.layer_names}});
  nlohmann::json fields = {
      {"model_name", id.model_name},
      {"tokens_per_hash", id.tokens_per_hash},
      {"blocks_per_file", id.blocks_per_file},
      {"tp_size", collapsed ? 1U : id.tp_size},
      {"pp_size", collapsed ? 1U : id.pp_size},
      {"pcp_size", collapsed ? 1U : id.pcp_size},
      {"dcp_size", collapsed ? 1U : id.dcp_size},
      {"dtype", id.dtype},
      {"kv_cache_groups", std::move(groups)},
      {"inference_engine", id.inference_engine},
  };
  if (!collapsed) fields["parallel_agnostic"] = false;
  if (id.replicated_layout) fields["replicated_layout"] = true;
  if (id.canonical_format) fields["canonical_format"] = *id.canonical_format;
  if (!id.revision.empty()) fields["revision"] = id.revision;
  if (!id.tenant.empty()) fields["tenant"] = id.tenant;
  return fields;
}

/// What the digest is made of, and what config.json says. Throws where a string is not UTF-8.
std::pair<std::string, std::string> texts_of(const nlohmann::json& fields) {
  return {fields.dump(-1, ' ', true), fields.dump(2, ' ', true)};
}

}  // namespace

Expected<FileMapper> FileMapper::make(std::string root_dir, const NamespaceIdentity& identity) {
  if (identity.model_name.find('\0') != std::string::npos)
    return {OffloadErrc::invalid_config, "identity.model_name: contains a NUL character"};
  FileMapper mapper;
  try {
    const nlohmann::json fields = identity_fields(identity);
    std::tie(mapper.identity_json_, mapper.config_text_) = texts_of(fields);
  } catch (const std::exception& e) {
    return {OffloadErrc::invalid_config, std::string("identity: not valid UTF-8: ") + e.what()};
  }
  std::string model = identity.model_name;
  std::replace(model.begin(), model.end(), '/', '_');
  while (root_dir.size() > 1 && root_dir.back() == '/') root_dir.pop_back();
  mapper.rank_ = is_collapsed(identity) ? 0 : identity.rank;
  mapper.base_dir_ = root_dir + (root_dir.ends_with('/') ? "" : "/") + model + "_" +
                     sha256_hex(mapper.identity_json_).substr(0, 12);
  mapper.chunk_dir_ = mapper.base_dir_ + "_r" + std::to_string(mapper.rank_);
  mapper.root_dir_ = std::move(root_dir);
  return mapper;
}

Expected<FileMapper> FileMapper::of_directory(std::string chunk_dir) {
  while (chunk_dir.size() > 1 && chunk_dir.back() == '/') chunk_dir.pop_back();
  const auto mark = chunk_dir.rfind("_r");
  const auto slash = chunk_dir.rfind('/');
  FileMapper mapper;
  const auto wrong_name = [&] {
    return OffloadError{OffloadErrc::invalid_argument,
                        chunk_dir + ": is not named as a directory of chunks, <model>_<d>_r<rank>"};
  };
  if (mark == std::string::npos || slash == std::string::npos || mark < slash) return wrong_name();
  const std::string_view digits = std::string_view(chunk_dir).substr(mark + 2);
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), mapper.rank_);
  if (error != std::errc{} || end != digits.data() + digits.size()) return wrong_name();
  mapper.root_dir_ = slash == 0 ? "/" : chunk_dir.substr(0, slash);
  mapper.base_dir_ = chunk_dir.substr(0, mark);
  mapper.chunk_dir_ = std::move(chunk_dir);

  const auto config = read_small_file(mapper.config_path());
  if (!config) return config.error();
  if (!*config) return {OffloadErrc::io_error, mapper.config_path() + ": " + std::strerror(ENOENT)};
  const auto fields = nlohmann::json::parse(**config, nullptr, false);
  if (!fields.is_object())
    return {OffloadErrc::invalid_argument, mapper.config_path() + ": damaged, not a JSON object"};
  try {
    std::tie(mapper.identity_json_, mapper.config_text_) = texts_of(fields);
  } catch (const std::exception& e) {
    return {OffloadErrc::invalid_argument, mapper.config_path() + ": " + e.what()};
  }
  if (!mapper.base_dir_.ends_with("_" + sha256_hex(mapper.identity_json_).substr(0, 12)))
    return {OffloadErrc::invalid_argument,
            mapper.config_path() + ": describes another namespace than the directory's name"};
  return mapper;
}

void FileMapper::path_of(const OffloadKey& key, std::string& path) const {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::array<char, 2 * OffloadKey::kMaxHashBytes> hex_buffer;
  std::size_t length = 0;
  for (const std::byte b : key.content_hash()) {
    hex_buffer[length++] = kDigits[std::to_integer<unsigned>(b) >> 4];
    hex_buffer[length++] = kDigits[std::to_integer<unsigned>(b) & 15U];
  }
  const std::string_view hex(hex_buffer.data(), length);
  std::array<char, 12> group{};
  const auto group_end = std::to_chars(group.begin(), group.end(), key.group_idx()).ptr;

  path.assign(chunk_dir_);
  path += '/';
  path += hex.substr(0, 3);
  path += '/';
  path += hex.substr(std::min<std::size_t>(3, length), 2);
  path += "_g";
  path.append(group.data(), group_end);
  path += '/';
  path += hex;
  path += ".bin";
}

std::string FileMapper::digest_namespace() const {
  return identity_json_ + "/r" + std::to_string(rank_);
}

}  // namespace kv_offload
