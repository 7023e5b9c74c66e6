#pragma once

#include "kv_offload/messages/expected.hpp"
#include "kv_offload/messages/namespace_identity.hpp"
#include "kv_offload/messages/offload_key.hpp"

#include <string>

namespace kv_offload {

/// Where the chunks of one namespace lie below a root directory: the public vLLM layout.
///
///   <root>/<model>_<d>/config.json                                 the identity fields, for people
///   <root>/<model>_<d>_r<rank>/<hhh>/<hh>_g<group>/<hash hex>.bin   one chunk: one primary row
///
/// <model> is the model's name with '/' replaced by '_'; d is the first 12 hex digits of the SHA-256 of
/// the identity fields as JSON with sorted keys, without spaces, escaped to ASCII. Immutable after
/// construction, any thread.
class FileMapper {
 public:
  /// Fails if the identity cannot be written down (text that is not UTF-8, a name with a NUL).
  static Expected<FileMapper> make(std::string root_dir, const NamespaceIdentity& identity);

  /// Of a directory of chunks that is there: the identity as its config.json says, which the directory's name
  /// must agree with. Reads that file; changes nothing.
  /// @param chunk_dir  "<root>/<model>_<d>_r<rank>"
  static Expected<FileMapper> of_directory(std::string chunk_dir);

  [[nodiscard]] const std::string& root_dir() const { return root_dir_; }
  /// Holds config.json.
  [[nodiscard]] const std::string& base_dir() const { return base_dir_; }
  /// Holds the chunks.
  [[nodiscard]] const std::string& chunk_dir() const { return chunk_dir_; }
  [[nodiscard]] std::string config_path() const { return base_dir_ + "/config.json"; }

  /// Writes the chunk's path into `path`, reusing its memory.
  void path_of(const OffloadKey& key, std::string& path) const;
  [[nodiscard]] std::string path_of(const OffloadKey& key) const {
    std::string path;
    path_of(key, path);
    return path;
  }

  /// The identity fields as hashed.
  [[nodiscard]] const std::string& identity_json() const { return identity_json_; }
  /// The same, as config.json holds them.
  [[nodiscard]] const std::string& config_text() const { return config_text_; }
  /// What digests are computed for: identity and rank.
  [[nodiscard]] std::string digest_namespace() const;

 private:
  FileMapper() = default;

  std::string root_dir_;
  std::string base_dir_;
  std::string chunk_dir_;
  std::string identity_json_;
  std::string config_text_;
  std::uint32_t rank_ = 0;
};

}  // namespace kv_offload
