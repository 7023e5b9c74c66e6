#pragma once

#include "kv_offload/messages/expected.hpp"
#include "kv_offload/tiers/obj/http_exchange.hpp"

#include <asio/io_context.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace kv_offload {

/// Of every connection.
struct CurlOptions {
  std::string ca_bundle;              ///< PEM file; empty: the system's
  bool insecure_skip_verify = false;  ///< accept any certificate
  std::string proxy;                  ///< empty: as the environment says
  Duration connect_timeout = std::chrono::seconds(2);
  std::uint32_t connections_max = 64;  ///< kept open for reuse
};

/// HTTP exchanges over libcurl's multi interface, whose sockets and timers an Asio loop serves. One thread,
/// the one that runs the loop, calls everything, the constructor and destructor excepted.
class CurlLoop {
 public:
  using ExchangeId = std::uint64_t;
  /// Called once per exchange from the loop, never from inside start(). May start and cancel others.
  using Done = std::function<void(HttpResponse&&)>;

  CurlLoop(asio::io_context& loop, CurlOptions options);
  /// Ends every exchange without a word; the loop does not run (any more).
  ~CurlLoop();
  CurlLoop(const CurlLoop&) = delete;
  CurlLoop& operator=(const CurlLoop&) = delete;

  ExchangeId start(HttpRequest request, Done done);
  /// Ends it at once: from the return on nothing of it is touched, and `done` is not called. An id that has
  /// ended is ignored.
  void cancel(ExchangeId id);

  /// Connections opened so far.
  [[nodiscard]] std::uint64_t connections() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kv_offload
