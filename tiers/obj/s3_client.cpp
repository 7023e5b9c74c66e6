#include "kv_offload/tiers/obj/s3_client.hpp"

#include "kv_offload/tiers/obj/s3_answer.hpp"
#include "kv_offload/tiers/obj/uri_encoding.hpp"
#include "kv_offload/tiers/sha256.hpp"

#include <absl/container/flat_hash_map.h>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

#include <algorithm>
#include <optional>

namespace kv_offload {

namespace {

constexpr const char* kUnsigned = "UNSIGNED-PAYLOAD";

HttpMethod method_of(S3Op op) {
  switch (op) {
    case S3Op::get:
    case S3Op::list: return HttpMethod::get;
    case S3Op::head: return HttpMethod::head;
    case S3Op::put: return HttpMethod::put;
    case S3Op::remove: return HttpMethod::remove;
    case S3Op::remove_many: return HttpMethod::post;
  }
  return HttpMethod::get;
}

std::string_view name_of(HttpMethod method) {
  switch (method) {
    case HttpMethod::get: return "GET";
    case HttpMethod::head: return "HEAD";
    case HttpMethod::put: return "PUT";
    case HttpMethod::post: return "POST";
    case HttpMethod::remove: return "DELETE";
  }
  return "GET";
}

}  // namespace

struct S3Client::Running {
  CallId id = 0;
  S3Call call;
  Done done;
  std::uint32_t attempts = 0;
  CurlLoop::ExchangeId exchange = 0;  // 0: waits for its next attempt, or for the loop
  std::optional<asio::steady_timer> timer;
};

struct S3Client::Calls {
  absl::flat_hash_map<CallId, std::unique_ptr<Running>> by_id;
  Running* find(CallId id) {
    const auto it = by_id.find(id);
    return it == by_id.end() ? nullptr : it->second.get();
  }
};

S3Client::S3Client(asio::io_context& loop, S3ClientOptions options, std::shared_ptr<S3Counters> counters)
    : loop_(loop),
      options_(std::move(options)),
      counters_(std::move(counters)),
      curl_(loop, options_.curl),
      signer_(options_.place.region, "s3"),
      retry_(options_.retry, options_.seed),
      breaker_(options_.breaker),
      calls_(std::make_unique<Calls>()),
      alive_(std::make_shared<bool>(true)) {}

S3Client::~S3Client() { *alive_ = false; }

S3Client::CallId S3Client::start(S3Call call, Done done) {
  const CallId id = next_id_++;
  auto running = std::make_unique<Running>();
  running->id = id;
  running->call = std::move(call);
  running->done = std::move(done);
  Running& r = *running;
  calls_->by_id.emplace(id, std::move(running));
  counters_->in_flight.store(calls_->by_id.size(), std::memory_order_relaxed);
  send(r);
  return id;
}

void S3Client::cancel(CallId id) {
  Running* const running = calls_->find(id);
  if (running == nullptr) return;
  if (running->exchange != 0) {
    curl_.cancel(running->exchange);
    breaker_.abandoned();
  }
  calls_->by_id.erase(id);
  counters_->in_flight.store(calls_->by_id.size(), std::memory_order_relaxed);
}

/// One attempt. What ends it without the network ends it in the loop, too: start() calls nobody.
void S3Client::send(Running& running) {
  const MonotonicTime now = options_.now();
  std::optional<S3Failure> failure;
  if (running.call.deadline <= now)
    failure = S3Failure::timed_out;
  else if (!breaker_.may_call(now))
    failure = S3Failure::breaker_open;
  if (failure) {
    asio::post(loop_, [this, id = running.id, why = *failure, living = alive_] {
      if (!*living) return;
      static const ResponseHeaders kNone;
      S3Reply reply;
      reply.failure = why;
      if (why == S3Failure::breaker_open) reply.cause = last_outage_;
      reply.headers = &kNone;
      reply.is_late = why == S3Failure::timed_out;
      reply.detail = why == S3Failure::timed_out ? "no time was left for an attempt"
                                                 : "the store has failed too often lately to be asked";
      note(reply);
      end(id, std::move(reply));
    });
    return;
  }
  ++running.attempts;
  counters_->requests[static_cast<std::size_t>(running.call.op)].fetch_add(1, std::memory_order_relaxed);
  const Duration timeout = std::min<Duration>(running.call.attempt_timeout, running.call.deadline - now);
  running.exchange = curl_.start(request_of(running, timeout),
                                 [this, id = running.id](HttpResponse&& response) {
                                   answered(id, std::move(response));
                                 });
}

HttpRequest S3Client::request_of(const Running& running, Duration timeout) {
  const S3Call& call = running.call;
  const S3Place& place = options_.place;
  HttpRequest request;
  request.method = method_of(call.op);
  request.upload = call.upload;
  request.sink = call.sink;
  request.timeout = timeout;

  std::string host = place.host;
  std::string path;
  if (place.virtual_host)
    host.insert(0, place.bucket + ".");
  else
    path = "/" + uri_encode(place.bucket, false);
  path += '/';
  path += uri_encode(call.key, true);

  SigV4Request to_sign;
  to_sign.method = name_of(request.method);
  to_sign.canonical_path = path;
  to_sign.query = call.query;
  to_sign.headers = call.headers;
  to_sign.headers.emplace_back("host", host);
  // The digest in the metadata finds accidents, and TLS the rest; hashing would double the CPU time of a PUT.
  // What removes is short, and no accident on the way may change it.
  to_sign.payload_hash =
      call.op == S3Op::remove_many ? sha256_hex(std::span<const std::byte>(call.upload)) : kUnsigned;
  const HeaderList added = signer_.sign(to_sign, credentials_, options_.wall_clock());

  request.url = place.scheme + "://" + host + path;
  if (!call.query.empty()) request.url += "?" + canonical_query(call.query);
  request.headers = call.headers;
  request.headers.insert(request.headers.end(), added.begin(), added.end());
  return request;
}

void S3Client::answered(CallId id, HttpResponse&& response) {
  Running* const running = calls_->find(id);
  if (running == nullptr) return;
  running->exchange = 0;
  counters_->connections.store(curl_.connections(), std::memory_order_relaxed);
  const Duration retry_after = response.headers->retry_after().value_or(std::chrono::milliseconds(0));
  S3Reply reply = reply_of(*running, std::move(response));
  judge(reply);
  note(reply);
  if (!is_transient(reply.failure)) retry_.succeeded();
  if (try_again(*running, reply, retry_after)) return;
  end(id, std::move(reply));
}

/// What an answer says of the store, and the line in the log when that changes.
void S3Client::judge(const S3Reply& reply) {
  const bool was_open = breaker_.is_open();
  if (is_outage(reply.failure)) {
    last_outage_ = reply.failure;
    if (breaker_.failed(options_.now()))
      counters_->breaker_opened.fetch_add(1, std::memory_order_relaxed);
  } else {
    breaker_.answered();
  }
  counters_->breaker_open.store(breaker_.is_open(), std::memory_order_relaxed);
  if (breaker_.is_open() == was_open || !options_.log) return;
  options_.log(to_string(options_.place) +
               (was_open ? " works again"
                         : ": the store does not work: " + std::string(to_string(reply.failure)) +
                               ", " + reply.detail + "; from now on it is asked once in a while"));
}

/// A store may repeat in its errors what it was given.
std::string S3Client::without_secrets(std::string text) const {
  for (const std::string* secret :
       {&credentials_.secret_key, &credentials_.session_token, &credentials_.access_key}) {
    if (secret->size() < 4) continue;
    for (auto at = text.find(*secret); at != std::string::npos; at = text.find(*secret, at))
      text.replace(at, secret->size(), "***");
  }
  return text;
}

S3Reply S3Client::reply_of(const Running& running, HttpResponse&& response) const {
  S3Reply reply;
  reply.headers = response.headers;
  reply.bytes_in = response.bytes_in;
  const S3Answer answer = classify(running.call.op, response, options_.wall_clock());
  reply.failure = answer.failure;
  reply.detail = without_secrets(answer.detail);
  reply.skew = answer.skew;
  reply.body = std::move(response.body);
  if (reply.failure == S3Failure::none && running.call.object_bytes) {
    const auto bytes = running.call.op == S3Op::head ? reply.headers->content_length() : reply.bytes_in;
    if (!bytes) {
      reply.failure = S3Failure::malformed;
      reply.detail = "no length in the answer";
    } else if (*bytes != *running.call.object_bytes) {
      reply.failure = S3Failure::wrong_length;
      reply.detail = "an object of " + std::to_string(*bytes) + " bytes";
    }
  }
  return reply;
}

bool S3Client::try_again(Running& running, S3Reply& reply, Duration retry_after) {
  if (!is_transient(reply.failure) || breaker_.is_open() || !retry_.has_attempt(running.attempts))
    return false;
  const Duration wait = std::max(retry_.wait_after(running.attempts), retry_after);
  if (options_.now() + wait >= running.call.deadline) {
    reply.is_late = true;
    return false;
  }
  if (!retry_.take()) {
    counters_->retries_denied.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  counters_->retries.fetch_add(1, std::memory_order_relaxed);
  running.timer.emplace(loop_, wait);
  running.timer->async_wait([this, id = running.id, living = alive_](const std::error_code& error) {
    if (error || !*living) return;
    if (Running* const again = calls_->find(id)) send(*again);
  });
  return true;
}

void S3Client::note(const S3Reply& reply) {
  counters_->failures[static_cast<std::size_t>(reply.failure)].fetch_add(1, std::memory_order_relaxed);
}

void S3Client::end(CallId id, S3Reply&& reply) {
  Running* const running = calls_->find(id);
  if (running == nullptr) return;
  const Done done = std::move(running->done);
  calls_->by_id.erase(id);
  counters_->in_flight.store(calls_->by_id.size(), std::memory_order_relaxed);
  done(std::move(reply));
}

}  // namespace kv_offload
