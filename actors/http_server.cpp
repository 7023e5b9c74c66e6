#include "kv_offload/actors/http_server.hpp"

#include "kv_offload/actors/engine_metrics_socket.hpp"
#include "kv_offload/actors/http_encoding.hpp"

#include <civetweb.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <future>
#include <mutex>
#include <string_view>
#include <utility>

namespace kv_offload {
namespace {

/// A Prometheus server, probes, a person with curl, and clients that say nothing until they are timed out.
constexpr const char* kThreads = "8";
constexpr const char* kRequestMs = "2000";
constexpr const char* kRequestBytes = "8192";
constexpr auto kAnswerTime = std::chrono::seconds(10);
constexpr std::size_t kPieceBytes = 16384;
/// What the library's handler answers for "done"; below 0 it also leaves the request's body unread.
constexpr int kDone = 1, kDoneUnread = -1;

std::string header_of(const mg_connection* connection, const char* name) {
  const char* value = mg_get_header(connection, name);
  return value != nullptr ? value : "";
}

const char* reason_of(const mg_connection* connection, int status) {
  return mg_get_response_code_text(connection, status);
}

/// The library bounds each of its writes, not their sum.
void write_all(mg_connection* connection, std::string_view text) {
  const auto end = std::chrono::steady_clock::now() + kAnswerTime;
  while (!text.empty() && std::chrono::steady_clock::now() < end) {
    const int n = mg_write(connection, text.data(), std::min(text.size(), kPieceBytes));
    if (n <= 0) return;  // the client went away
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

}  // namespace

bool PageRequest::has(const std::string& name, const std::string& value) const {
  const std::string part = "&" + name + "=" + value + "&";
  return ("&" + query + "&").find(part) != std::string::npos;
}

struct HttpServer::Impl {
  std::string address;
  int port = 0;
  std::map<std::string, HttpPage> pages;
  mg_context* context = nullptr;
  std::mutex mutex;
  std::string start_problem;  // guarded by mutex; the first one

  ~Impl() {
    if (context == nullptr) return;
    const ServerWaker waker(address, port);
    mg_stop(context);
  }

  HttpAnswer answer(const mg_connection* connection, const mg_request_info& request) const {
    const std::string_view method = request.request_method;
    const auto page = pages.find(request.local_uri != nullptr ? request.local_uri : "");
    if (page == pages.end()) {
      std::string body = "not found; served here:";
      for (const auto& [path, make] : pages) body += " " + path;
      return {404, "text/plain; charset=utf-8", body + "\n"};
    }
    if (method != "GET" && method != "HEAD")
      return {405, "text/plain; charset=utf-8", "only GET and HEAD\n"};
    const PageRequest asked{request.query_string != nullptr ? request.query_string : "",
                            header_of(connection, "Accept")};
    try {
      // On a thread of its own: the library's have 100 KiB of stack, less than the statistics of a
      // page may want (sanitizers pad every frame). At most kThreads at once, as ever.
      return std::async(std::launch::async, page->second, asked).get();
    } catch (const std::exception& error) {  // the library is C; memory or threads can run out
      return {500, "text/plain; charset=utf-8", std::string(error.what()) + "\n"};
    }
  }

  int serve(mg_connection* connection) const {
    const mg_request_info& request = *mg_get_request_info(connection);
    HttpAnswer answer = this->answer(connection, request);
    std::string head = "HTTP/1.1 " + std::to_string(answer.status) + " " +
                       reason_of(connection, answer.status) + "\r\n";
    head += "Content-Type: " + answer.content_type + "\r\n";
    head += "Cache-Control: no-store\r\nConnection: close\r\n";
    if (answer.status == 405) head += "Allow: GET, HEAD\r\n";
    if (answer.status == 200 && accepts(header_of(connection, "Accept-Encoding"), "gzip")) {
      if (std::string packed = gzip(answer.body); !packed.empty()) {
        answer.body = std::move(packed);
        head += "Content-Encoding: gzip\r\n";
      }
    }
    head += "Content-Length: " + std::to_string(answer.body.size()) + "\r\n\r\n";
    const bool is_head = std::string_view(request.request_method) == "HEAD";
    write_all(connection, is_head ? head : head + answer.body);
    const bool has_body =
        request.content_length > 0 || mg_get_header(connection, "Transfer-Encoding") != nullptr;
    return has_body ? kDoneUnread : kDone;
  }
};

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;

Expected<std::unique_ptr<HttpServer>> HttpServer::start(const std::string& address, int port,
                                                        std::map<std::string, HttpPage> pages) {
  static std::once_flag once;
  std::call_once(once, [] { mg_init_library(0); });
  auto impl = std::make_unique<Impl>();
  impl->address = address;
  impl->pages = std::move(pages);
  const bool is_ip6 = address.find(':') != std::string::npos;
  const std::string at = (is_ip6 ? "[" + address + "]" : address) + ":" + std::to_string(port);
  // No document_root: the library serves no file, whatever the path.
  std::array<const char*, 13> options{"listening_ports",
                                      at.c_str(),
                                      "num_threads",
                                      kThreads,
                                      "request_timeout_ms",
                                      kRequestMs,
                                      "max_request_size",
                                      kRequestBytes,
                                      "enable_keep_alive",
                                      "no",
                                      "enable_directory_listing",
                                      "no",
                                      nullptr};
  mg_callbacks callbacks{};
  callbacks.begin_request = [](mg_connection* connection) {
    return static_cast<const Impl*>(mg_get_user_context_data(connection))->serve(connection);
  };
  // What comes first is why it does not start; the rest is what clients did wrong: no log needs it.
  callbacks.log_message = [](const mg_connection* connection, const char* message) {
    if (auto* server = static_cast<Impl*>(mg_get_user_context_data(connection))) {
      const std::scoped_lock lock(server->mutex);
      if (server->start_problem.empty()) server->start_problem = message;
    }
    return 1;
  };
  impl->context = mg_start(&callbacks, impl.get(), options.data());
  if (impl->context == nullptr) {
    const std::scoped_lock lock(impl->mutex);
    return {OffloadErrc::io_error,
            impl->start_problem.empty() ? "the HTTP server did not start" : impl->start_problem};
  }
  mg_server_port bound{};
  if (mg_get_server_ports(impl->context, 1, &bound) < 1)
    return {OffloadErrc::io_error, "the HTTP server has no port"};
  impl->port = bound.port;
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

int HttpServer::port() const { return impl_->port; }

}  // namespace kv_offload
