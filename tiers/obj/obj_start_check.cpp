#include "kv_offload/tiers/obj/obj_start_check.hpp"

#include <span>
#include <string_view>
#include <utility>

namespace kv_offload {

namespace {

constexpr std::string_view kContent = "kv_offload was here; this object may be removed\n";

}  // namespace

S3Call ObjStartCheck::call(S3Op op) const {
  S3Call c;
  c.op = op;
  c.key = (core_.config.prefix.empty() ? "" : core_.config.prefix + "/") + "__kv_offload_probe__/connectivity_test";
  c.attempt_timeout = core_.config.request_timeout;
  c.deadline = deadline_;
  return c;
}

void ObjStartCheck::run(Done done) {
  done_ = std::move(done);
  deadline_ = core_.now() + core_.config.request_timeout;
  read();
}

void ObjStartCheck::read() {
  core_.client.start(call(S3Op::get), [this](S3Reply&& reply) {
    if (reply.failure != S3Failure::none && reply.failure != S3Failure::not_found) return end(reply, "read");
    write();
  });
}

void ObjStartCheck::write() {
  S3Call put = call(S3Op::put);
  put.upload = std::as_bytes(std::span(kContent));
  core_.client.start(std::move(put), [this](S3Reply&& reply) {
    if (reply.failure != S3Failure::none) return end(reply, "write");
    read_back();
  });
}

/// Much says "200" to everything, and is no store.
void ObjStartCheck::read_back() {
  core_.client.start(call(S3Op::get), [this](S3Reply&& reply) {
    if (reply.failure == S3Failure::none && reply.body != kContent) {
      reply.failure = S3Failure::malformed;
      reply.detail = "it gave back other bytes than were written";
    }
    if (reply.failure != S3Failure::none) return end(reply, "read");
    remove();
  });
}

void ObjStartCheck::remove() {
  core_.client.start(call(S3Op::remove), [this](S3Reply&& reply) {
    // Only a capacity needs to remove; else the object stays, for the next start to overwrite.
    if (reply.failure != S3Failure::none && core_.config.capacity_bytes) return end(reply, "remove");
    if (reply.failure != S3Failure::none)
      core_.warn("objects cannot be removed here, so nothing can be forgotten: " + reply.detail);
    const Done done = std::move(done_);
    done(Ok{}, false);
  });
}

void ObjStartCheck::end(const S3Reply& reply, const char* doing) {
  const Done done = std::move(done_);
  done(explain(core_.config, reply, doing, origin_), is_transient(reply.failure));
}

OffloadError ObjStartCheck::explain(const ObjConfig& config, const S3Reply& reply, const char* doing,
                                    const std::string& origin) {
  const S3Place& place = config.place;
  std::string line = to_string(place) + ": ";
  auto code = OffloadErrc::io_error;
  const auto say = [&](const std::string& what, const std::string& help) {
    line += what + (reply.detail.empty() ? "" : " (" + reply.detail + ")") + "; " + help;
  };
  switch (reply.failure) {
    case S3Failure::unreachable:
      say("not reachable", "check store_config.endpoint_override, the network and proxies");
      break;
    case S3Failure::timed_out:
      say("did not answer in time", "check store_config.endpoint_override, or raise request_timeout_ms");
      break;
    case S3Failure::tls:
      say("no secure connection", place.scheme == "https"
                                      ? "check store_config.scheme, and that store_config.ca_bundle vouches for the "
                                        "store's certificate and its name"
                                      : "check store_config.scheme");
      break;
    case S3Failure::bad_credentials:
      code = OffloadErrc::invalid_config;
      say("the store does not accept the credentials of " + origin, "check access key, secret key, session token and region");
      break;
    case S3Failure::no_bucket:
      code = OffloadErrc::invalid_config;
      say("there is no bucket \"" + place.bucket + "\"", "create it, or check store_config.bucket");
      break;
    case S3Failure::denied:
      code = OffloadErrc::invalid_config;
      say(std::string("the credentials of ") + origin + " may not " + doing + " objects in bucket \"" + place.bucket + "\"",
          "the tier needs s3:GetObject, s3:PutObject, s3:ListBucket and, to evict and to forget, s3:DeleteObject");
      break;
    case S3Failure::clock_skew: {
      const auto seconds = reply.skew.count();
      say(seconds == 0 ? std::string("this machine's clock and the store's differ too much")
                       : "this machine's clock is " + std::to_string(seconds < 0 ? -seconds : seconds) + " s " +
                             (seconds < 0 ? "ahead of" : "behind") + " the store's",
          "expected at most 900 s");
      break;
    }
    case S3Failure::redirected:
      code = OffloadErrc::invalid_config;
      say("the bucket lives elsewhere", "check store_config.region and store_config.endpoint_override");
      break;
    case S3Failure::broken:
    case S3Failure::malformed:
    case S3Failure::refused:
      say("this is no answer of an S3 store", "check store_config.endpoint_override, and store_config.scheme: it may "
                                              "speak HTTPS where HTTP was asked, or the other way");
      break;
    default:
      say(std::string("cannot ") + doing + " there: " + std::string(to_string(reply.failure)), "look at the store");
      break;
  }
  return {code, std::move(line)};
}

}  // namespace kv_offload
