#include "kv_offload/tiers/obj/obj_worker.hpp"

#include <asio/post.hpp>

#include <utility>

namespace kv_offload {

namespace {

S3ClientOptions client_options(const ObjLaneSetup& setup) {
  const ObjConfig& config = setup.config;
  S3ClientOptions options;
  options.place = config.place;
  options.curl.ca_bundle = config.ca_bundle;
  options.curl.insecure_skip_verify = config.insecure_skip_verify;
  options.curl.proxy = config.proxy;
  options.curl.connect_timeout = config.connect_timeout;
  options.curl.connections_max = 2 * config.max_inflight + config.max_probes;
  options.retry = config.retry;
  options.breaker = config.breaker;
  options.seed = setup.seed;
  options.now = setup.options.now;
  options.wall_clock = setup.wall_clock;
  options.log = setup.warn;
  return options;
}

/// Keys known to be corrupt; beyond it the oldest costs one more failed load.
constexpr std::size_t kRefusedKeysMax = 1U << 16;

}  // namespace

ObjWorker::ObjWorker(const ObjLaneSetup& setup, asio::io_context& loop, LaneInbox& inbox,
                     SinkGate& sink, LaneCounters& counters, ObjShared& shared)
    : core_{loop,
            setup.options,
            setup.config,
            inbox,
            sink,
            counters,
            shared,
            S3Client(loop, client_options(setup), shared.s3),
            setup.name_space,
            0,
            VerdictCache(setup.config.verdicts_max, setup.config.positive_ttl,
                         setup.config.negative_ttl),
            RefusedKeys(kRefusedKeysMax),
            LaneFaults(setup.options.faults),
            setup.log,
            setup.warn,
            setup.wall_clock,
            [this] {
              if (std::exchange(looking_, true)) return;
              asio::post(core_.loop, [this] { look(); });
            },
            [this] { adopt_news(); }},
      keeper_(core_),
      prober_(core_, keeper_),
      transfers_(core_, keeper_),
      credentials_(core_, setup.environment),
      check_(core_, credentials_.origin()),
      work_(loop.get_executor()),
      cut_timer_(loop) {}

ObjWorker::End ObjWorker::run(std::function<void(Expected<std::string>)> started) {
  started_ = std::move(started);
  asio::post(core_.loop, [this] {
    credentials_.acquire([this](const Expected<Ok>& got) {
      if (got) return check_store();
      if (!core_.config.start_unreachable || got.error().code != OffloadErrc::io_error)
        return started_(got.error());
      core_.warn(got.error().detail + "; started all the same (start_unreachable)");
      credentials_.renew_later();
      serve();
    });
  });
  core_.loop.run();
  return killed_ ? End::killed : End::stopped;
}

void ObjWorker::check_store() {
  check_.run([this](const Expected<Ok>& checked, bool is_outage) {
    if (!checked) {
      if (!is_outage || !core_.config.start_unreachable) return started_(checked.error());
      core_.warn(checked.error().detail + "; started all the same (start_unreachable)");
    }
    serve();
  });
}

void ObjWorker::serve() {
  is_started_ = true;
  started_(credentials_.origin());
  keeper_.start();
  core_.pump();
}

void ObjWorker::look() {
  looking_ = false;
  if (core_.faults.kills_lane()) {
    killed_ = true;
    core_.loop.stop();
    return;
  }
  if (!is_started_) return;
  core_.inbox.woke_up();
  const auto refused = core_.shared.s3->failures[static_cast<std::size_t>(S3Failure::bad_credentials)].load();
  if (refused != std::exchange(refused_seen_, refused)) credentials_.refused();
  std::uint8_t wake_for = 0;
  do {
    adopt_news();
    while (prober_.has_room()) {
      auto probe = core_.inbox.pop_probe();
      if (!probe) break;
      adopt_news();
      prober_.take(std::move(*probe));
    }
    prober_.pump();
    transfers_.pump();
    wake_for = 0;
    if (prober_.has_room()) wake_for |= LaneInbox::kProbes;
    if (transfers_.has_room(true)) wake_for |= LaneInbox::kLoads;
    if (transfers_.has_room(false)) wake_for |= LaneInbox::kStores;
  } while (!core_.inbox.may_sleep(wake_for));
  leave_if_done();
}

void ObjWorker::adopt_news() {
  ObjShared& shared = core_.shared;
  if (!shared.has_news.load(std::memory_order_acquire)) return;
  std::deque<ObjForget> forgets;
  std::optional<ObjNamespace> next;
  {
    const std::lock_guard lock(shared.mutex);
    forgets.swap(shared.forgets);
    next.swap(shared.next_namespace);
    shared.has_news = false;
  }
  if (next) {
    core_.name_space = std::move(*next);
    ++core_.generation;
    core_.verdicts.clear();
    core_.refused = RefusedKeys(kRefusedKeysMax);
    keeper_.restart();
  }
  for (ObjForget& forget : forgets) keeper_.forget(std::move(forget));
}

void ObjWorker::stop_within(Duration patience) {
  if (std::exchange(stopping_, true)) return;
  adopt_news();
  prober_.give_up();
  keeper_.stop();
  credentials_.stop();
  // What waited in the inbox is unknown now.
  while (auto probe = core_.inbox.pop_probe())
    core_.sink.probed(probe->id, std::vector<LookupResult>(probe->keys.size(), LookupResult::retry));
  cut_timer_.expires_after(patience);
  cut_timer_.async_wait([this](const std::error_code& error) {
    if (error) return;
    transfers_.cut();
    leave_if_done();
  });
  leave_if_done();
}

void ObjWorker::leave_if_done() {
  if (!stopping_ || !transfers_.is_idle()) return;
  cut_timer_.cancel();
  work_.reset();
  core_.loop.stop();
}

}  // namespace kv_offload
