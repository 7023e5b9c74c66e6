#include "kv_offload/tiers/io/io_mode_config.hpp"

#include <string>

namespace kv_offload {

std::optional<IoMode> read_io_mode(ConfigReader& reader) {
  if (!reader.has("io")) return std::nullopt;
  return io_mode_of(reader.choice("io", std::string(kIoModeNames.front()),
                                  {kIoModeNames.begin(), kIoModeNames.end()}));
}

}  // namespace kv_offload
