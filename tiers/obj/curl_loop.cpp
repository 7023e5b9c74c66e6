#include "kv_offload/tiers/obj/curl_loop.hpp"

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <optional>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace kv_offload {

namespace {

/// One piece to or from libcurl: larger ones made no difference on loopback, smaller ones cost calls.
constexpr long kPieceBytes = 256 << 10;
/// Idle handles kept: as many as requests that are usually in flight.
constexpr std::size_t kIdleMax = 128;

bool init_curl() {
  static const bool ok = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  return ok;
}

HttpEnd end_of(CURLcode code) {
  switch (code) {
    case CURLE_OK: return HttpEnd::answered;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
    case CURLE_PROXY: return HttpEnd::unreachable;
    case CURLE_OPERATION_TIMEDOUT: return HttpEnd::timed_out;
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_ENGINE_NOTFOUND:
    case CURLE_SSL_INVALIDCERTSTATUS: return HttpEnd::tls;
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_PARTIAL_FILE:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_FAIL_REWIND: return HttpEnd::broken;
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_HTTP2:
    case CURLE_BAD_CONTENT_ENCODING: return HttpEnd::malformed;
    case CURLE_WRITE_ERROR: return HttpEnd::too_long;
    default: return HttpEnd::failed;
  }
}

/// libcurl's own words are one line; what a peer put into them may not be. Of a proxy it quotes all that it was given,
/// the password included.
std::string one_line(const char* text) {
  std::string line(text, ::strnlen(text, 200));
  if (line.find("proxy") != std::string::npos && line.find('\'') != std::string::npos)
    line = line.substr(0, line.find('\'')) + "(not shown)";
  for (char& c : line)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return line;
}

}  // namespace

struct CurlLoop::Impl {
  /// One handle and what belongs to its present exchange.
  struct Exchange {
    CURL* easy = nullptr;
    curl_slist* headers = nullptr;
    ExchangeId id = 0;
    HttpRequest request;
    Done done;
    ResponseHeaders answer;
    std::string body;
    std::size_t uploaded = 0;
    std::uint64_t received = 0;
    long status = 0;
    bool to_sink = false;
    std::array<char, CURL_ERROR_SIZE> error{};
  };
  /// A socket that libcurl waits for. The handlers of its waits hold it, too.
  struct Watched {
    explicit Watched(asio::io_context& loop, curl_socket_t fd) : descriptor(loop, fd) {}
    asio::posix::stream_descriptor descriptor;
    int wanted = 0;  // 0: idle, kept because the next request on the connection will want it
    bool answers = false;  // connected: it was once waited for until there is something to read
    bool reading = false;
    bool writing = false;
    bool gone = false;
  };
  using Clock = asio::steady_timer::clock_type;

  Impl(asio::io_context& io, CurlOptions with)
      : loop(io), options(std::move(with)), timer(io), alive(std::make_shared<bool>(true)) {}

  asio::io_context& loop;
  const CurlOptions options;
  asio::steady_timer timer;
  std::optional<Clock::time_point> wanted_at;  // when libcurl wants to be called, whatever happens
  std::optional<Clock::time_point> armed_at;   // when the timer fires: never later than that
  bool call_posted = false;
  const std::shared_ptr<bool> alive;  // handlers that outlive this find it false
  CURLM* multi = nullptr;
  absl::flat_hash_map<curl_socket_t, std::shared_ptr<Watched>> sockets;
  absl::flat_hash_set<curl_socket_t> ours;  // by on_open; others are of name look-ups
  absl::flat_hash_map<ExchangeId, std::unique_ptr<Exchange>> running;
  std::vector<std::unique_ptr<Exchange>> idle;
  ExchangeId next_id = 1;
  std::uint64_t connections = 0;

  // --- what libcurl calls ---------------------------------------------------------------------------
  static int on_socket(CURL*, curl_socket_t fd, int what, void* self, void*) {
    static_cast<Impl*>(self)->watch(fd, what);
    return 0;
  }
  static int on_timer(CURLM*, long ms, void* self) {
    static_cast<Impl*>(self)->set_timer(ms);
    return 0;
  }
  static std::size_t on_header(char* data, std::size_t size, std::size_t n, void* exchange) {
    auto& x = *static_cast<Exchange*>(exchange);
    const std::string_view line(data, size * n);
    if (line.starts_with("HTTP/")) x.status = 0;  // of an earlier answer, 100 Continue
    x.answer.add_line(line);
    return size * n;
  }
  static std::size_t on_body(char* data, std::size_t size, std::size_t n, void* exchange) {
    auto& x = *static_cast<Exchange*>(exchange);
    const std::size_t bytes = size * n;
    if (x.status == 0) {
      curl_easy_getinfo(x.easy, CURLINFO_RESPONSE_CODE, &x.status);
      x.to_sink = x.request.sink != nullptr && (x.status == 200 || x.status == 206);
    }
    x.received += bytes;
    if (x.to_sink) {
      const std::span piece(reinterpret_cast<const std::byte*>(data), bytes);
      return x.request.sink->take(piece) ? bytes : 0;
    }
    x.body.append(data, std::min(bytes, HttpResponse::kTextMax - x.body.size()));
    return bytes;
  }
  static std::size_t on_upload(char* to, std::size_t size, std::size_t n, void* exchange) {
    auto& x = *static_cast<Exchange*>(exchange);
    const std::size_t bytes = std::min(size * n, x.request.upload.size() - x.uploaded);
    std::memcpy(to, x.request.upload.data() + x.uploaded, bytes);
    x.uploaded += bytes;
    return bytes;
  }
  /// A request on a kept connection that the server had closed meanwhile is sent again.
  static int on_seek(void* exchange, curl_off_t offset, int origin) {
    auto& x = *static_cast<Exchange*>(exchange);
    if (origin != SEEK_SET || offset < 0 || static_cast<std::size_t>(offset) > x.request.upload.size())
      return CURL_SEEKFUNC_FAIL;
    x.uploaded = static_cast<std::size_t>(offset);
    return CURL_SEEKFUNC_OK;
  }

  // --- sockets and time -----------------------------------------------------------------------------
  void watch(curl_socket_t fd, int what) {
    if (!*alive) return;
    const auto it = sockets.find(fd);
    if (what == CURL_POLL_REMOVE) {
      if (it == sockets.end()) return;
      it->second->wanted = 0;
      // Watching a connection anew for every request would cost more system calls than a small chunk. One that is given
      // up while it connects libcurl closes without on_close: its number may be another socket's a moment later.
      if (it->second->answers) return;
      unwatch(fd);
      ours.erase(fd);
      return;
    }
    std::shared_ptr<Watched> watched;
    if (it != sockets.end()) {
      watched = it->second;
    } else {
      watched = std::make_shared<Watched>(loop, fd);
      sockets.emplace(fd, watched);
    }
    watched->wanted = what;
    watched->answers = watched->answers || ((what & CURL_POLL_IN) != 0 && ours.contains(fd));
    arm(fd, watched);
  }

  void unwatch(curl_socket_t fd) {
    const auto it = sockets.find(fd);
    if (it == sockets.end()) return;
    it->second->gone = true;
    it->second->descriptor.release();  // cancels its waits; closes nothing
    sockets.erase(it);
  }

  static curl_socket_t on_open(void* self, curlsocktype, curl_sockaddr* address) {
    const int fd = ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    if (fd < 0) return CURL_SOCKET_BAD;
    static_cast<Impl*>(self)->unwatch(fd);  // whatever had the number is closed
    static_cast<Impl*>(self)->ours.insert(fd);
    return fd;
  }
  static int on_close(void* self, curl_socket_t fd) {
    auto& impl = *static_cast<Impl*>(self);
    impl.unwatch(fd);
    impl.ours.erase(fd);
    return ::close(fd);
  }

  void arm(curl_socket_t fd, const std::shared_ptr<Watched>& watched) {
    if (watched->gone) return;
    if ((watched->wanted & CURL_POLL_IN) != 0 && !watched->reading) {
      watched->reading = true;
      watched->descriptor.async_wait(
          asio::posix::stream_descriptor::wait_read,
          [this, fd, watched, living = alive](const std::error_code& error) {
            watched->reading = false;
            if (*living) ready(fd, watched, CURL_POLL_IN, CURL_CSELECT_IN, error);
          });
    }
    if ((watched->wanted & CURL_POLL_OUT) != 0 && !watched->writing) {
      watched->writing = true;
      watched->descriptor.async_wait(
          asio::posix::stream_descriptor::wait_write,
          [this, fd, watched, living = alive](const std::error_code& error) {
            watched->writing = false;
            if (*living) ready(fd, watched, CURL_POLL_OUT, CURL_CSELECT_OUT, error);
          });
    }
  }

  void ready(curl_socket_t fd, const std::shared_ptr<Watched>& watched, int direction, int event,
             const std::error_code& error) {
    if (watched->gone || error == asio::error::operation_aborted) return;
    // A wait that is not wanted any more costs one wake-up.
    if (error || (watched->wanted & direction) != 0) act(fd, error ? CURL_CSELECT_ERR : event);
    arm(fd, watched);
  }

  /// libcurl sets a time for every request, and takes it back: setting the timer each time would cost 10 us and
  /// more. It stays as it is while it fires early enough, and is set again then.
  void set_timer(long ms) {
    wanted_at.reset();
    if (ms < 0) return;
    if (ms == 0) return call_soon();
    wanted_at = Clock::now() + std::chrono::milliseconds(ms);
    arm_timer();
  }
  void call_soon() {
    if (std::exchange(call_posted, true)) return;
    asio::post(loop, [this, living = alive] {
      if (!*living) return;
      call_posted = false;
      act(CURL_SOCKET_TIMEOUT, 0);
    });
  }
  void arm_timer() {
    if (armed_at && *armed_at <= *wanted_at) return;
    armed_at = wanted_at;
    timer.expires_at(*armed_at);
    timer.async_wait([this, living = alive](const std::error_code& error) {
      if (error || !*living) return;
      armed_at.reset();
      if (!wanted_at) return;
      if (Clock::now() < *wanted_at) return arm_timer();
      wanted_at.reset();
      act(CURL_SOCKET_TIMEOUT, 0);
    });
  }

  void act(curl_socket_t fd, int events) {
    int left = 0;
    curl_multi_socket_action(multi, fd, events, &left);
    reap();
  }

  void reap() {
    int queued = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi, &queued)) {
      if (message->msg != CURLMSG_DONE) continue;
      Exchange* x = nullptr;
      curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &x);
      finish(*x, message->data.result);
    }
  }

  // --- exchanges ------------------------------------------------------------------------------------
  void finish(Exchange& x, CURLcode code) {
    HttpResponse response;
    response.end = end_of(code);
    curl_easy_getinfo(x.easy, CURLINFO_RESPONSE_CODE, &response.status);
    long opened = 0;
    curl_easy_getinfo(x.easy, CURLINFO_NUM_CONNECTS, &opened);
    connections += static_cast<std::uint64_t>(std::max(opened, 0L));
    response.body = std::move(x.body);
    response.bytes_in = x.received;
    if (x.answer.overflowed()) {  // libcurl may have given up on them before we did
      response.end = HttpEnd::malformed;
      response.detail = "more headers than any store sends";
    } else if (response.end == HttpEnd::answered && response.status < 200) {
      response.end = HttpEnd::malformed;
      response.detail = "no final status in the answer";
    } else if (response.end != HttpEnd::answered) {
      response.detail = one_line(x.error[0] != '\0' ? x.error.data() : curl_easy_strerror(code));
    }
    auto owned = take_out(x);
    response.headers = &owned->answer;
    const Done done = std::move(owned->done);
    done(std::move(response));
    retire(std::move(owned));
  }

  /// From here on libcurl knows nothing of it.
  std::unique_ptr<Exchange> take_out(Exchange& x) {
    curl_multi_remove_handle(multi, x.easy);
    const auto it = running.find(x.id);
    auto owned = std::move(it->second);
    running.erase(it);
    curl_slist_free_all(std::exchange(owned->headers, nullptr));
    return owned;
  }

  void retire(std::unique_ptr<Exchange> x) {
    if (idle.size() >= kIdleMax) {
      curl_easy_cleanup(x->easy);
      return;
    }
    x->request = {};
    x->done = {};
    x->body.clear();
    x->answer.clear();
    idle.push_back(std::move(x));
  }

  std::unique_ptr<Exchange> make() {
    auto x = std::make_unique<Exchange>();
    x->easy = curl_easy_init();
    if (x->easy == nullptr) return nullptr;
    CURL* const e = x->easy;
    curl_easy_setopt(e, CURLOPT_PRIVATE, x.get());
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(e, CURLOPT_PATH_AS_IS, 1L);  // keys hold "//" and may hold "/../"
    curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(e, CURLOPT_HTTP09_ALLOWED, 0L);
    curl_easy_setopt(e, CURLOPT_BUFFERSIZE, kPieceBytes);
    curl_easy_setopt(e, CURLOPT_UPLOAD_BUFFERSIZE, kPieceBytes);
    curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(e, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, &on_open);
    curl_easy_setopt(e, CURLOPT_OPENSOCKETDATA, this);
    curl_easy_setopt(e, CURLOPT_CLOSESOCKETFUNCTION, &on_close);
    curl_easy_setopt(e, CURLOPT_CLOSESOCKETDATA, this);
    curl_easy_setopt(e, CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
    curl_easy_setopt(e, CURLOPT_ERRORBUFFER, x->error.data());
    curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, &on_header);
    curl_easy_setopt(e, CURLOPT_HEADERDATA, x.get());
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, &on_body);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, x.get());
    curl_easy_setopt(e, CURLOPT_READFUNCTION, &on_upload);
    curl_easy_setopt(e, CURLOPT_READDATA, x.get());
    curl_easy_setopt(e, CURLOPT_SEEKFUNCTION, &on_seek);
    curl_easy_setopt(e, CURLOPT_SEEKDATA, x.get());
    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, ms_of(options.connect_timeout));
    if (!options.ca_bundle.empty()) curl_easy_setopt(e, CURLOPT_CAINFO, options.ca_bundle.c_str());
    if (!options.proxy.empty()) curl_easy_setopt(e, CURLOPT_PROXY, options.proxy.c_str());
    if (options.insecure_skip_verify) {
      curl_easy_setopt(e, CURLOPT_SSL_VERIFYPEER, 0L);
      curl_easy_setopt(e, CURLOPT_SSL_VERIFYHOST, 0L);
    }
    return x;
  }

  /// Rounded up: what ends a little before a deadline has not reached it.
  static long ms_of(Duration d) {
    return static_cast<long>(std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::milliseconds>(d).count()));
  }

  void set_up(Exchange& x) {
    CURL* const e = x.easy;
    const HttpRequest& r = x.request;
    x.uploaded = 0;
    x.received = 0;
    x.status = 0;
    x.to_sink = false;
    x.error[0] = '\0';
    curl_easy_setopt(e, CURLOPT_URL, r.url.c_str());
    curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, nullptr);
    curl_easy_setopt(e, CURLOPT_NOBODY, 0L);
    curl_easy_setopt(e, CURLOPT_HTTPGET, 1L);
    const auto size = static_cast<curl_off_t>(r.upload.size());
    switch (r.method) {
      case HttpMethod::get: break;
      case HttpMethod::head: curl_easy_setopt(e, CURLOPT_NOBODY, 1L); break;
      case HttpMethod::remove: curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, "DELETE"); break;
      case HttpMethod::put:
        curl_easy_setopt(e, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(e, CURLOPT_INFILESIZE_LARGE, size);
        break;
      case HttpMethod::post:
        curl_easy_setopt(e, CURLOPT_POST, 1L);
        curl_easy_setopt(e, CURLOPT_POSTFIELDS, nullptr);  // from the read callback
        curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, size);
        break;
    }
    // Waiting for "100 Continue" would cost a round trip per chunk.
    x.headers = curl_slist_append(nullptr, "Expect:");
    std::string line;
    for (const auto& [name, value] : r.headers) {
      line.assign(name).append(": ").append(value);
      x.headers = curl_slist_append(x.headers, line.c_str());
    }
    curl_easy_setopt(e, CURLOPT_HTTPHEADER, x.headers);
    curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, ms_of(r.timeout));
    if (r.sink != nullptr) r.sink->begin();
  }
};

CurlLoop::CurlLoop(asio::io_context& loop, CurlOptions options)
    : impl_(std::make_unique<Impl>(loop, std::move(options))) {
  Impl& m = *impl_;
  if (!init_curl()) return;
  m.multi = curl_multi_init();
  if (m.multi == nullptr) return;
  curl_multi_setopt(m.multi, CURLMOPT_SOCKETFUNCTION, &Impl::on_socket);
  curl_multi_setopt(m.multi, CURLMOPT_SOCKETDATA, &m);
  curl_multi_setopt(m.multi, CURLMOPT_TIMERFUNCTION, &Impl::on_timer);
  curl_multi_setopt(m.multi, CURLMOPT_TIMERDATA, &m);
  curl_multi_setopt(m.multi, CURLMOPT_PIPELINING, static_cast<long>(CURLPIPE_NOTHING));
  curl_multi_setopt(m.multi, CURLMOPT_MAXCONNECTS, static_cast<long>(m.options.connections_max));
}

CurlLoop::~CurlLoop() {
  Impl& m = *impl_;
  *m.alive = false;
  // Before libcurl closes them: what is released later may be somebody else's.
  while (!m.sockets.empty()) m.unwatch(m.sockets.begin()->first);
  for (auto& [id, x] : m.running) {
    curl_multi_remove_handle(m.multi, x->easy);
    curl_slist_free_all(x->headers);
    curl_easy_cleanup(x->easy);
  }
  m.running.clear();
  for (auto& x : m.idle) curl_easy_cleanup(x->easy);
  if (m.multi != nullptr) curl_multi_cleanup(m.multi);
}

CurlLoop::ExchangeId CurlLoop::start(HttpRequest request, Done done) {
  Impl& m = *impl_;
  const ExchangeId id = m.next_id++;
  std::unique_ptr<Impl::Exchange> x;
  if (!m.idle.empty()) {
    x = std::move(m.idle.back());
    m.idle.pop_back();
  } else if (m.multi != nullptr) {
    x = m.make();
  }
  if (x == nullptr) {
    asio::post(m.loop, [done = std::move(done), living = m.alive] {
      if (!*living) return;
      static const ResponseHeaders kNone;
      HttpResponse response;
      response.headers = &kNone;
      response.detail = "libcurl has no handle for it";
      done(std::move(response));
    });
    return id;
  }
  x->id = id;
  x->request = std::move(request);
  x->done = std::move(done);
  m.set_up(*x);
  CURL* const easy = x->easy;
  m.running.emplace(id, std::move(x));
  curl_multi_add_handle(m.multi, easy);  // sets a timer of 0 ms: the work begins in the loop
  return id;
}

void CurlLoop::cancel(ExchangeId id) {
  Impl& m = *impl_;
  const auto it = m.running.find(id);
  if (it == m.running.end()) return;
  m.retire(m.take_out(*it->second));
}

std::uint64_t CurlLoop::connections() const { return impl_->connections; }

}  // namespace kv_offload
