#include "kv_offload/tiers/obj/obj_credentials.hpp"

#include "kv_offload/tiers/fs/small_file.hpp"
#include "kv_offload/tiers/obj/s3_xml.hpp"

#include <algorithm>
#include <utility>
#include <variant>

namespace kv_offload {

namespace {

/// Temporary credentials are renewed so long before they end, or at half of what they have left.
constexpr auto kRenewBefore = std::chrono::minutes(5);
constexpr auto kRenewAgain = std::chrono::seconds(30);
/// A refused signature makes the sources be read again, at most so often.
constexpr auto kLookPause = std::chrono::seconds(30);

}  // namespace

ObjCredentials::ObjCredentials(ObjCore& core, Environment environment)
    : core_(core), environment_(std::move(environment)), timer_(core.loop) {}

void ObjCredentials::stop() {
  stopped_ = true;
  timer_.cancel();
}

void ObjCredentials::acquire(Done done) {
  exchanging_ = false;
  looked_at_ = core_.now();
  auto resolved = resolve_credentials(core_.config.credentials, environment_);
  if (!resolved) return done(resolved.error());
  origin_ = resolved->origin;
  if (auto* fixed = std::get_if<AwsCredentials>(&resolved->value)) {
    core_.client.set_credentials(std::move(*fixed));
    return done(Ok{});
  }
  exchange(std::get<WebIdentity>(resolved->value), std::move(done));
}

void ObjCredentials::exchange(const WebIdentity& identity, Done done) {
  const auto token = read_small_file(identity.token_file);
  if (!token || !*token)
    return done(OffloadError{OffloadErrc::io_error, "the web identity token " + identity.token_file + ": " +
                                                        (token ? "not there" : token.error().detail)});
  form_ = web_identity_form(identity, **token);
  HttpRequest request;
  request.method = HttpMethod::post;
  const std::string& given = core_.config.sts_endpoint;
  request.url = !given.empty() ? given : "https://sts." + core_.config.place.region + ".amazonaws.com/";
  request.headers = {{"content-type", "application/x-www-form-urlencoded"}, {"accept", "text/xml"}};
  request.upload = std::as_bytes(std::span(form_));
  request.timeout = core_.config.request_timeout;
  exchanging_ = true;
  core_.client.http().start(std::move(request), [this,
                                                 done = std::move(done)](HttpResponse&& response) {
    std::fill(form_.begin(), form_.end(), '\0');  // the token is a secret
    auto credentials = of_response(response);
    const bool may_help = response.end != HttpEnd::answered || response.status >= 500 || response.status == 429;
    if (!credentials && may_help && !stopped_ && ++attempts_ < core_.config.retry.attempts) {
      const Duration wait = core_.config.retry.base * (1 << std::min(attempts_, 20U));
      timer_.expires_after(std::min<Duration>(core_.config.retry.max, wait));
      // Still exchanging: whoever wants credentials meanwhile must not take the timer, and `done` with it.
      timer_.async_wait([this, done](const std::error_code& error) {
        if (!error) acquire(done);
      });
      return;
    }
    exchanging_ = false;
    attempts_ = 0;
    if (!credentials) return done(credentials.error());
    core_.shared.counters.credentials_renewed.fetch_add(1, std::memory_order_relaxed);
    if (credentials->expires) renew_before(*credentials->expires);
    core_.client.set_credentials(std::move(*credentials));
    done(Ok{});
  });
}

Expected<AwsCredentials> ObjCredentials::of_response(const HttpResponse& response) const {
  const std::string what = "the token service does not exchange " + origin_ + ": ";
  if (response.end != HttpEnd::answered) return {OffloadErrc::io_error, what + response.detail};
  if (response.status != 200) {
    const auto error = parse_s3_error(response.body);
    // Its message may repeat what it was given.
    return {OffloadErrc::io_error,
            what + "HTTP " + std::to_string(response.status) + (error ? ", " + error->code : "")};
  }
  auto credentials = parse_web_identity(response.body);
  if (!credentials) return {OffloadErrc::io_error, what + credentials.error().detail};
  return credentials;
}

void ObjCredentials::renew_before(std::chrono::sys_seconds expires) {
  const auto left = std::max<Duration>(expires - core_.wall_clock(), std::chrono::seconds(1));
  renew_after(std::max<Duration>(left / 2, left - kRenewBefore));
}

void ObjCredentials::renew_later() { renew_after(kRenewAgain); }

void ObjCredentials::renew_after(Duration wait) {
  if (stopped_) return;
  timer_.expires_after(wait);
  timer_.async_wait([this](const std::error_code& error) {
    if (error || stopped_ || exchanging_) return;
    acquire([this](const Expected<Ok>& renewed) {
      if (renewed) return;
      core_.warn("credentials could not be renewed: " + renewed.error().detail);
      renew_after(kRenewAgain);
    });
  });
}

void ObjCredentials::refused() {
  if (stopped_ || exchanging_ || core_.now() < looked_at_ + kLookPause) return;
  acquire([this](const Expected<Ok>& again) {
    if (again) return;
    core_.warn("the store does not accept the credentials, and there are no others: " +
               again.error().detail);
    renew_later();  // an exchange took the timer of the renewal
  });
}

}  // namespace kv_offload
