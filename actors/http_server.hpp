#pragma once

#include "kv_offload/messages/expected.hpp"

#include <functional>
#include <map>
#include <memory>
#include <string>

// A small HTTP server for pages that are made when they are asked for. No files, no request bodies.
namespace kv_offload {

/// What a page may ask about its request.
struct PageRequest {
  std::string query;   ///< behind the '?', as sent
  std::string accept;  ///< header, empty if absent

  /// Is `name=value` one of the parts of the query?
  [[nodiscard]] bool has(const std::string& name, const std::string& value) const;
};

struct HttpAnswer {
  int status = 200;
  std::string content_type;
  std::string body;
};

/// Makes one page; called on the server's threads, possibly two at a time; must not throw.
using HttpPage = std::function<HttpAnswer(const PageRequest&)>;

/// Answers GET and HEAD of its pages; other paths are 404, other methods 405. Every answer ends its
/// connection; a body is sent compressed (gzip) to whoever accepts that. Bounded: two threads, 20
/// connections that wait for one, 8 KiB of request line and headers, 2 s for a client to send its
/// request, 10 s to take its answer.
class HttpServer {
 public:
  /// Listens at `address` on `port`, 0 takes any free one. The error is what the system or the
  /// server's library says, not yet for people.
  /// @param pages  by path, such as "/metrics"
  static Expected<std::unique_ptr<HttpServer>> start(const std::string& address, int port,
                                                     std::map<std::string, HttpPage> pages);
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  /// Ends the answers that run and closes the port.
  ~HttpServer();

  /// The port it listens on, never 0.
  [[nodiscard]] int port() const;

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace kv_offload
