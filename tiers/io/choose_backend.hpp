#pragma once

#include "kv_offload/tiers/io/io_backend.hpp"
#include "kv_offload/tiers/io/lane_options.hpp"
#include "kv_offload/tiers/io_mode.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace kv_offload {

/// The backend of a tier's lane. Nothing is opened yet: what is used is decided when the lane starts.
/// @param queue_depth  requests in flight at most
/// @param log          takes one line, beginning with the lane's name, if `automatic` has to do without io_uring, with the reason; may be empty
std::unique_ptr<IoBackend> choose_backend(IoMode mode, const LaneOptions& lane,
                                          std::uint32_t queue_depth,
                                          std::function<void(std::string)> log);

}  // namespace kv_offload
