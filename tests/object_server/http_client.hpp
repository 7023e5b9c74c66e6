#pragma once

#include <arpa/inet.h>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <netinet/in.h>
#include <stdexcept>
#include <string>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace kv_offload::test {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct HttpAnswer {
  int status = 0;                              ///< 0: no HTTP came
  std::map<std::string, std::string> headers;  ///< names in lower case
  std::string body;
  bool complete = false;  ///< as long as announced
  std::string raw;        ///< where no HTTP came: what did

  [[nodiscard]] std::string header(const std::string& name) const {
    const auto at = headers.find(name);
    return at == headers.end() ? "" : at->second;
  }
};

/// One connection to a server of this machine, kept alive. Gives up where nothing comes for 20 s.
class HttpClient {
 public:
  explicit HttpClient(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval patience{20, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_port = htons(port);
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd_, reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0)
      throw std::runtime_error("connection refused");
  }
  ~HttpClient() { ::close(fd_); }
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// What every signed request carries; the server looks at no signature.
  static Headers signed_headers() {
    return {{"Authorization", "AWS4-HMAC-SHA256 Credential=test"},
            {"x-amz-content-sha256", "UNSIGNED-PAYLOAD"}};
  }

  HttpAnswer signed_request(const std::string& method, const std::string& target,
                            const std::string& body = {}, const Headers& more = {}) {
    Headers headers = signed_headers();
    headers.insert(headers.end(), more.begin(), more.end());
    return request(method, target, body, headers);
  }
  HttpAnswer request(const std::string& method, const std::string& target, const std::string& body,
                     const Headers& headers) {
    send_head(method, target, body.size(), headers);
    send(body);
    return receive(method);
  }
  void send_head(const std::string& method, const std::string& target, std::size_t body_bytes,
                 const Headers& headers) {
    std::string head = method + ' ' + target + " HTTP/1.1\r\n";
    bool has_host = false;
    for (const auto& [name, value] : headers) {
      head.append(name).append(": ").append(value).append("\r\n");
      has_host = has_host || name == "Host";
    }
    if (!has_host) head += "Host: 127.0.0.1\r\n";
    if (body_bytes > 0 || method == "PUT")
      head += "Content-Length: " + std::to_string(body_bytes) + "\r\n";
    send(head + "\r\n");
  }
  /// False: the server has closed.
  bool send(const std::string& text) const {
    for (std::size_t done = 0; done < text.size();) {
      const ssize_t n = ::send(fd_, text.data() + done, text.size() - done, MSG_NOSIGNAL);
      if (n <= 0) return false;
      done += static_cast<std::size_t>(n);
    }
    return true;
  }
  /// A 100 Continue is an answer of its own.
  HttpAnswer receive(const std::string& method) {
    HttpAnswer answer;
    std::size_t end = 0;
    while ((end = pending_.find("\r\n\r\n")) == std::string::npos)
      if (!more()) break;
    if (end == std::string::npos || !pending_.starts_with("HTTP/1.1 ")) {
      while (more()) {
      }
      answer.raw = std::exchange(pending_, {});
      return answer;
    }
    parse(pending_.substr(0, end + 2), answer);
    pending_.erase(0, end + 4);
    std::size_t announced = 0;
    const std::string length = answer.header("content-length");
    std::from_chars(length.data(), length.data() + length.size(), announced);
    if (method == "HEAD" || answer.status == 100) announced = 0;
    while (pending_.size() < announced)
      if (!more()) break;
    answer.complete = pending_.size() >= announced;
    answer.body = pending_.substr(0, announced);
    pending_.erase(0, announced);
    return answer;
  }
  /// Waits for the server to close; false: it sent something instead, or did nothing for 20 s.
  [[nodiscard]] bool closed() const {
    char byte = 0;
    const ssize_t got = ::recv(fd_, &byte, 1, 0);
    return got == 0 || (got < 0 && errno == ECONNRESET);
  }
  /// Nothing has come within this time.
  [[nodiscard]] bool silent_for_ms(int time) const {
    const timeval patience{0, time * 1000}, usual{20, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    char byte = 0;
    const ssize_t got = ::recv(fd_, &byte, 1, MSG_PEEK);
    const bool silent = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &usual, sizeof usual);
    return silent;
  }

 private:
  bool more() {
    char part[65536];
    const ssize_t got = ::recv(fd_, part, sizeof part, 0);
    if (got > 0) pending_.append(part, static_cast<std::size_t>(got));
    return got > 0;
  }
  static void parse(const std::string& head, HttpAnswer& answer) {
    std::from_chars(head.data() + 9, head.data() + 12, answer.status);
    std::size_t at = head.find("\r\n") + 2;
    while (at < head.size()) {
      const auto end = head.find("\r\n", at);
      const auto colon = head.find(": ", at);
      std::string name = head.substr(at, colon - at);
      for (char& c : name)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
      answer.headers[name] = head.substr(colon + 2, end - colon - 2);
      at = end + 2;
    }
  }

  int fd_;
  std::string pending_;
};

}  // namespace kv_offload::test
