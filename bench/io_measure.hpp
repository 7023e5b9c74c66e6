#pragma once

#include "kv_offload/bench/latency.hpp"
#include "kv_offload/messages/expected.hpp"
#include "kv_offload/messages/offload_key.hpp"
#include "kv_offload/tiers/obj/credential_sources.hpp"
#include "kv_offload/tiers/obj/s3_place.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace kv_offload::bench {

/// The object store of a measurement.
struct IoStore {
  std::string endpoint;
  std::string bucket;
  std::string region = "us-east-1";
  std::string ca_bundle;
  CredentialSources credentials;  ///< empty: as the environment says
  [[nodiscard]] S3Place place() const;
};

/// What is moved, the same for everybody who is compared.
struct IoShape {
  std::string tier = "fs";  ///< "fs", "extent" or "obj"
  std::uint64_t chunk_bytes = std::uint64_t{2} << 20;
  std::uint64_t set_bytes = std::uint64_t{1} << 30;  ///< stored, then loaded, in one measurement
  std::uint64_t spare_bytes = 0;                     ///< that an extent tier has room for besides
  std::uint32_t depth = 4;  ///< requests in flight of those compared; the tier chooses its own
  bool checksum = true;     ///< of the tier; the others have none
  std::optional<std::string> io;  ///< the tier's backend by name, as in the configuration
  std::optional<IoStore> store;   ///< of an obj tier
  [[nodiscard]] std::uint64_t chunks() const { return set_bytes / chunk_bytes; }
};

/// One measurement: how fast, and what it cost this process.
struct IoFigure {
  double mib_per_s = 0;
  double cpu_us_per_chunk = 0;  ///< user and system time of all threads; 0 of another process
  LatencyRecorder latency;      ///< of chunks, where it was taken
};

/// One way to store a set of chunks and to load it again, in random order. Each store begins with
/// nothing; each load reads what the last store left.
class IoContestant {
 public:
  virtual ~IoContestant() = default;
  [[nodiscard]] virtual std::string name() const = 0;
  virtual Expected<IoFigure> store() = 0;
  virtual Expected<IoFigure> load() = 0;
};

/// Wall and CPU time between its making and stop().
class IoStopwatch {
 public:
  IoStopwatch();
  [[nodiscard]] IoFigure stop(const IoShape& shape) const;

 private:
  double wall_s_, cpu_s_;
};

/// Key of chunk `number` of the bench: 32 hash bytes, spread over 256 directories of the fs layout only,
/// which exist after a warm-up of that many chunks: what is measured is a directory in use, not the
/// making of a million directories.
OffloadKey io_key(std::uint64_t number);
inline constexpr std::uint64_t kIoDirectories = 256;

/// The chunk numbers 0 … count-1 in a random order, the same at every call.
std::vector<std::uint32_t> io_order(std::uint64_t count);

}  // namespace kv_offload::bench
