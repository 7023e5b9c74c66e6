#include "kv_offload/actors/engine_log.hpp"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

namespace kv_offload {
namespace {

int rank_of(std::string_view level) {
  if (level == "debug") return 0;
  if (level == "info") return 1;
  if (level == "warn") return 2;
  if (level == "error") return 3;
  return 4;
}

}  // namespace

LogFunction make_log(const std::string& min_level,
                     std::function<void(const std::string&, const std::string&)> host) {
  const int min_rank = rank_of(min_level);
  if (host)
    return [min_rank, host = std::move(host)](std::string_view level, const std::string& line) {
      if (rank_of(level) >= min_rank) host(std::string(level), line);
    };
  auto logger = std::make_shared<spdlog::logger>("kv_offload",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern("%H:%M:%S.%e %n %l: %v");
  logger->set_level(spdlog::level::trace);
  return [min_rank, logger](std::string_view level, const std::string& line) {
    const int rank = rank_of(level);
    if (rank < min_rank) return;
    logger->log(rank == 0   ? spdlog::level::debug
                : rank == 1 ? spdlog::level::info
                : rank == 2 ? spdlog::level::warn
                            : spdlog::level::err,
                line);
  };
}

}  // namespace kv_offload
