#include "kv_offload/bench/object_server/connection.hpp"

#include "kv_offload/bench/object_server/answer_text.hpp"
#include "kv_offload/bench/object_server/s3_xml.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

namespace kv_offload::bench {
namespace {

using Kind = S3Request::Kind;
constexpr std::int64_t kSkewMaxS = 15 * 60;  // of S3

/// Room for a body that is on its way, given back unless it arrived in the map.
class Reservation {
 public:
  Reservation(ObjectMap& objects, std::uint64_t bytes)
      : objects_(objects), bytes_(objects.reserve(bytes) ? std::optional(bytes) : std::nullopt) {}
  ~Reservation() {
    if (bytes_) objects_.unreserve(*bytes_);
  }
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;
  explicit operator bool() const { return bytes_.has_value(); }
  void keep() { bytes_.reset(); }

 private:
  ObjectMap& objects_;
  std::optional<std::uint64_t> bytes_;
};

std::uint64_t bytes_of(const std::vector<BodyPiece>& pieces) {
  std::uint64_t bytes = 0;
  for (const BodyPiece& piece : pieces) bytes += piece.size;
  return bytes;
}

/// The first `size` bytes; zeros where there are not so many.
void resize(std::vector<BodyPiece>& pieces, std::uint64_t size) {
  std::vector<BodyPiece> resized;
  for (BodyPiece piece : pieces) {
    piece.size = std::min(piece.size, size);
    size -= piece.size;
    resized.push_back(piece);
  }
  if (size > 0) resized.push_back({nullptr, size});
  pieces = std::move(resized);
}

/// Puts the flipped byte, which lies in `flipped`, in the place of the byte at `at`.
void flip(std::vector<BodyPiece>& pieces, std::uint64_t at, char& flipped) {
  std::vector<BodyPiece> parts;
  for (const BodyPiece& piece : pieces) {
    if (at >= piece.size) {
      parts.push_back(piece);
      at -= piece.size;
      continue;
    }
    const auto byte = static_cast<unsigned char>(piece.data ? piece.data[at] : 0);
    flipped = static_cast<char>(byte ^ 0xffU);
    parts.push_back({piece.data, at});
    parts.push_back({&flipped, 1});
    parts.push_back({piece.data ? piece.data + at + 1 : nullptr, piece.size - at - 1});
    at = std::uint64_t(-1);
  }
  pieces = std::move(parts);
}

}  // namespace

Connection::Connection(asio::ip::tcp::socket socket, ServerState& state, Set& all)
    : state_(state), all_(all), stream_(std::move(socket)) {
  all_.insert(this);
  ++state_.accepted;
  ++state_.open;
}

Connection::~Connection() {
  all_.erase(this);
  --state_.open;
}

std::uint64_t Connection::argument_or(std::uint64_t usual) const {
  return argument() > 0 ? static_cast<std::uint64_t>(argument()) : usual;
}

asio::awaitable<void> Connection::run() {
  HttpRequest http;
  while (keep_alive_) {
    std::string head = co_await stream_.read_head();
    if (head.empty() || !parse_head(head, http)) {
      const std::string status =
          head.empty() ? "431 Request Header Fields Too Large" : "400 Bad Request";
      co_await stream_.write(
          "HTTP/1.1 " + status + "\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", {});
      co_await stream_.linger();
    }
    const S3Request request = state_.service.understood(http);
    state_.count(request.kind);
    state_.log.add(head, request.key, request.body_bytes);
    const auto wish = http.header("connection");
    keep_alive_ = !http.http_1_0 && wish != "close" && wish != "Close";
    co_await serve(request);
  }
  co_await stream_.linger();
}

asio::awaitable<void> Connection::serve(const S3Request& request) {
  const auto& query = request.http->query;
  drawn_ = state_.faults.draw(
      std::string(request.http->method),
      request.key.empty() ? percent_decoded(query, true).value_or("") : request.key);
  if (has(ServerFaultKind::close_at_once)) throw StreamClosed();
  if (drawn_.fault && drawn_.fault->early) {
    if (has(ServerFaultKind::hang)) co_await hang();
    if (auto answer = fault_answer(request)) co_await refuse(request, std::move(*answer));
  }
  auto said = state_.service.refusal(request);
  const bool expects = request.http->header("expect") == "100-continue" && request.body_bytes > 0;
  // Where a length is not known, neither is where the next request begins.
  if (said &&
      (expects || !request.well_formed || !request.http->header("transfer-encoding").empty()))
    co_await refuse(request, std::move(*said));
  if (expects && !stream_.anything_buffered())
    co_await stream_.write("HTTP/1.1 100 Continue\r\n\r\n", {});
  if (auto answer = fault_answer(request)) said = std::move(answer);

  const bool is_put = request.kind == Kind::put;
  if (has(ServerFaultKind::close_after_bytes) && is_put) {
    co_await stream_.discard(std::min(request.body_bytes, argument_or(0)));
    throw StreamClosed();
  }
  const bool discards = state_.options.discard_bodies;
  const bool keeps =
      !said && !has(ServerFaultKind::garbage) &&
      (request.kind == Kind::multi_delete ||
       (is_put && (!discards || request.body_bytes <= ObjectServerOptions::kKeptAnywayBytes)));
  Reservation room(state_.objects, keeps && is_put ? request.body_bytes : 0);
  S3Body body{.size = request.body_bytes, .metadata = !has(ServerFaultKind::drop_metadata)};
  if (keeps && room) body.bytes.reset(new (std::nothrow) std::byte[body.size]);
  if (keeps && !body.bytes)
    said = S3Service::error(request, 503, "SlowDown", "There is no room for more bodies.");
  co_await take(body);

  if (drawn_.delay_ms > 0) co_await stream_.pause(std::chrono::milliseconds(drawn_.delay_ms));
  if (has(ServerFaultKind::hang)) co_await hang();
  if (has(ServerFaultKind::garbage)) co_await send_garbage();
  if (!said) said = state_.service.answer(request, std::move(body));
  if (is_put && said->status == 200) room.keep();
  co_await send(request, std::move(*said));
}

asio::awaitable<void> Connection::take(S3Body& body) {
  const std::uint64_t rate = has(ServerFaultKind::trickle) ? argument_or(1) : 0;
  const std::uint64_t slice = rate > 0 ? std::max<std::uint64_t>(rate / 20, 1) : body.size;
  for (std::uint64_t done = 0; done < body.size;) {
    const auto size = std::min(slice, body.size - done);
    if (body.bytes)
      co_await stream_.read(body.bytes.get() + done, size);
    else
      co_await stream_.discard(size);
    done += size;
    state_.bytes_in += size;
    if (rate > 0) co_await stream_.pause(std::chrono::microseconds(size * 1'000'000 / rate));
  }
}

asio::awaitable<void> Connection::hang() {
  while (state_.faults.active(drawn_.rule)) co_await stream_.pause(std::chrono::milliseconds(10));
}

asio::awaitable<void> Connection::refuse(const S3Request& request, S3Answer refusal) {
  keep_alive_ = false;
  co_await send(request, std::move(refusal));
  co_await stream_.linger();
}

asio::awaitable<void> Connection::send_garbage() {
  std::string noise(argument_or(64), '\0');
  for (std::size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<char>((i * 37 + 129) % 251);
  co_await stream_.write(std::move(noise), {});
  co_await stream_.linger();
}

std::optional<S3Answer> Connection::fault_answer(const S3Request& request) const {
  const auto& fault = drawn_.fault;
  if (has(ServerFaultKind::status)) {
    const int status = static_cast<int>(fault->argument);
    const std::string code(fault->text.empty() ? S3Service::code_of(status) : fault->text);
    S3Answer answer = S3Service::error(request, status, code, "A rule of the test server says so.");
    if (fault->retry_after_s)
      answer.headers += "Retry-After: " + std::to_string(*fault->retry_after_s) + "\r\n";
    return answer;
  }
  if (has(ServerFaultKind::text))
    return S3Answer{.status = static_cast<int>(argument_or(200)),
                    .headers = "Content-Type: application/xml\r\n",
                    .text = fault->text};
  if (has(ServerFaultKind::redirect)) {
    const std::string region = fault->text.empty() ? "eu-central-1" : fault->text;
    return S3Answer{
        .status = 301,
        .headers = "Content-Type: application/xml\r\nx-amz-bucket-region: " + region + "\r\n",
        .text = redirect_xml(request.bucket, "s3." + region + ".amazonaws.com")};
  }
  if (has(ServerFaultKind::skew)) {
    const auto date = amz_date(request.http->header("x-amz-date"));
    const std::time_t here = std::time(nullptr) + fault->argument;
    if (!date || std::abs(*date - here) > kSkewMaxS)
      return S3Service::error(
          request, 403, "RequestTimeTooSkewed",
          "The difference between the request time and the server's time is too large.");
  }
  return std::nullopt;
}

asio::awaitable<void> Connection::send(const S3Request& request, S3Answer answer) {
  if (has(ServerFaultKind::xml_garbage)) {
    answer = {.status = static_cast<int>(argument_or(200)),
              .headers = "Content-Type: application/xml\r\n",
              .text = "<?xml version=\"1.0\"?><ListBucketResult><Contents><Key>bro"};
  }
  std::vector<BodyPiece> body{{answer.text.data(), answer.text.size()}};
  if (answer.object) {
    const auto* bytes = reinterpret_cast<const char*>(answer.object->bytes.get());
    body = {{bytes ? bytes + answer.offset : nullptr, answer.length}};
    if (has(ServerFaultKind::wrong_length)) {
      const std::int64_t more = argument() == 0 ? -1 : argument();
      const auto fewer = static_cast<std::uint64_t>(more < 0 ? -more : 0);
      resize(body, more > 0 ? answer.length + static_cast<std::uint64_t>(more)
                            : answer.length - std::min(answer.length, fewer));
    }
  }
  const AnswerFraming framing{
      .body_bytes = bytes_of(body),
      .request_id = ++state_.request_ids,
      .keep_alive = keep_alive_,
      .metadata = !has(ServerFaultKind::drop_metadata),
      .clock_ahead_s = has(ServerFaultKind::skew) ? argument() : 0,
      .more_headers_bytes = has(ServerFaultKind::huge_headers) ? argument_or(1 << 20) : 0};
  if (request.http->method == "HEAD") body.clear();

  char flipped = 0;
  if (has(ServerFaultKind::wrong_bytes)) flip(body, argument_or(0), flipped);
  const std::uint64_t whole = bytes_of(body);
  std::uint64_t sent = whole;
  if (has(ServerFaultKind::short_body))
    sent = whole - std::min(whole, argument_or((whole + 1) / 2));
  if (has(ServerFaultKind::close_after_bytes)) sent = std::min(whole, argument_or(0));
  resize(body, sent);
  state_.bytes_out += sent;
  if (has(ServerFaultKind::trickle))
    co_await stream_.write_slowly(head_text(answer, framing), std::move(body), argument_or(1));
  else
    co_await stream_.write(head_text(answer, framing), std::move(body));
  if (has(ServerFaultKind::short_body) || has(ServerFaultKind::close_after_bytes) ||
      has(ServerFaultKind::close_after_answer))
    throw StreamClosed();
}

}  // namespace kv_offload::bench
