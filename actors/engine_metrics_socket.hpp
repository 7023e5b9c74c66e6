#pragma once

#include <atomic>
#include <string>
#include <string_view>
#include <thread>

// What the HTTP server behind /metrics does not do by itself. Inside engine_metrics only.
namespace kv_offload {

inline constexpr std::string_view kListenAddressForms =
    "an IP address or a host name of this machine, such as 127.0.0.1";
/// Is it spelled like one? The HTTP server would take more in its place: lists of ports, options.
/// Asks no name service.
[[nodiscard]] bool is_listen_address(const std::string& address);

/// errno of an attempt to listen there as the server does; 0 if it works (now). The server does not
/// say why it failed.
[[nodiscard]] int listen_error(const std::string& address, int port);

/// Connects to a port again and again while it lives, and says nothing. The server notices that it
/// is to end only between two connections and waits 2 s for one (civetweb 1.15): with this its end
/// takes milliseconds.
class ServerWaker {
 public:
  ServerWaker(std::string address, int port);
  ServerWaker(const ServerWaker&) = delete;
  ServerWaker& operator=(const ServerWaker&) = delete;
  ~ServerWaker();

 private:
  void run(const std::string& address, int port) const;

  std::atomic<bool> is_done_ = false;
  std::thread thread_;  // none if the system has none to give: then the end takes its 2 s
};

}  // namespace kv_offload
