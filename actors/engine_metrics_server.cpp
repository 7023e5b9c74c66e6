#include "kv_offload/actors/admission_page.hpp"
#include "kv_offload/actors/engine_metrics.hpp"
#include "kv_offload/actors/engine_metrics_page.hpp"
#include "kv_offload/actors/engine_metrics_socket.hpp"
#include "kv_offload/actors/http_encoding.hpp"
#include "kv_offload/actors/http_server.hpp"

#include <prometheus/counter.h>
#include <prometheus/registry.h>
#include <prometheus/summary.h>
#include <prometheus/text_serializer.h>

#include <cassert>
#include <cerrno>
#include <chrono>
#include <sstream>
#include <system_error>
#include <utility>

namespace kv_offload {
namespace {

using Clock = std::chrono::steady_clock;

/// What the server counts of itself, under the names that scrapers of prometheus-cpp know.
class ScrapeSeries {
 public:
  /// `/metrics` with the scrapes before this one.
  std::string append_to(std::vector<prometheus::MetricFamily> families) {
    for (auto& family : registry_.Collect()) families.push_back(std::move(family));
    std::ostringstream text;
    prometheus::TextSerializer().Serialize(text, families);
    return text.str();
  }
  void count(std::size_t bytes, Clock::duration took) {
    bytes_.Increment(static_cast<double>(bytes));
    scrapes_.Increment();
    latencies_.Observe(std::chrono::duration<double, std::micro>(took).count());
  }

 private:
  prometheus::Registry registry_;
  prometheus::Counter& bytes_ = prometheus::BuildCounter()
                                    .Name("exposer_transferred_bytes_total")
                                    .Help("Transferred bytes to metrics services")
                                    .Register(registry_)
                                    .Add({});
  prometheus::Counter& scrapes_ = prometheus::BuildCounter()
                                      .Name("exposer_scrapes_total")
                                      .Help("Number of times metrics were scraped")
                                      .Register(registry_)
                                      .Add({});
  prometheus::Summary& latencies_ =
      prometheus::BuildSummary()
          .Name("exposer_request_latencies")
          .Help("Latencies of serving scrape requests, in microseconds")
          .Register(registry_)
          .Add({}, prometheus::Summary::Quantiles{{0.5, 0.05}, {0.9, 0.01}, {0.99, 0.001}});
};

OffloadError cannot_listen(const std::string& address, int port, const std::string& cause) {
  const int error = listen_error(address, port);
  const std::string number = std::to_string(port);
  std::string line;
  if (error == EADDRINUSE) {
    line = "metrics.port: " + number + " is in use on " + address +
           "; choose another port, 0 for any free one, or leave it out for no metrics page";
  } else if (error == EACCES) {
    line = "metrics.port: " + number + " needs privileges on " + address +
           "; choose a port above 1023, or 0 for any free one";
  } else if (error == 0 && address.find(':') != std::string::npos) {
    line = "metrics.address: cannot listen at " + address +
           ": this build's HTTP server has no IP version 6; use 127.0.0.1 or another address of "
           "this machine";
  } else {
    line = "metrics.address: cannot listen at " + address + " port " + number + " (" +
           (error != 0 ? std::generic_category().message(error) : cause) +
           "); use 127.0.0.1 or another address of this machine";
  }
  return {OffloadErrc::invalid_config, line};
}

}  // namespace

struct MetricsServer::Impl {
  std::function<EngineStats()> stats;
  std::function<EngineHealth()> health;
  std::vector<MetricDefinition> definitions;
  ScrapeSeries scrapes;
  std::unique_ptr<HttpServer> server;  // last: its threads use all of the above

  HttpAnswer metrics() {
    const auto start = Clock::now();
    MetricsPage page = collect_metrics(stats(), definitions);
    assert(page.left_out.empty() && "an undeclared metric was emitted, see undeclared_metrics()");
    HttpAnswer answer{200, "text/plain; version=0.0.4; charset=utf-8",
                      scrapes.append_to(std::move(page.families))};
    scrapes.count(answer.body.size(), Clock::now() - start);
    return answer;
  }
  HttpAnswer admission(const PageRequest& request) const {
    const bool is_text = request.has("format", "text") ||
                         (!request.has("format", "json") && accepts(request.accept, "text/plain"));
    if (is_text)
      return {200, "text/plain; charset=utf-8", admission_page_text(stats(), Clock::now())};
    return {200, "application/json", admission_page_json(stats(), Clock::now())};
  }
  HttpAnswer healthz() const {
    const EngineHealth now = health ? health() : health_of(stats());
    return {serves(now.status) ? 200 : 503, "application/json", health_json(now)};
  }
};

MetricsServer::MetricsServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
MetricsServer::~MetricsServer() = default;

Expected<std::unique_ptr<MetricsServer>> MetricsServer::start(
    const std::string& address, int port, std::function<EngineStats()> stats,
    std::vector<MetricDefinition> definitions, std::function<EngineHealth()> health) {
  if (port < 0 || port > 65535)
    return {OffloadErrc::invalid_config, "metrics.port: " + std::to_string(port) +
                                             " is not allowed; expected an integer in [0, 65535]"};
  if (!is_listen_address(address))
    return {OffloadErrc::invalid_config, "metrics.address: \"" + address.substr(0, 80) +
                                             "\" is not allowed; expected " +
                                             std::string(kListenAddressForms)};
  auto impl = std::make_unique<Impl>();
  impl->stats = std::move(stats);
  impl->health = std::move(health);
  impl->definitions = std::move(definitions);
  Impl* const i = impl.get();
  auto server = HttpServer::start(
      address, port,
      {{"/metrics", [i](const PageRequest&) { return i->metrics(); }},
       {"/admission", [i](const PageRequest& request) { return i->admission(request); }},
       {"/healthz", [i](const PageRequest&) { return i->healthz(); }}});
  if (!server) return cannot_listen(address, port, server.error().detail);
  impl->server = std::move(*server);
  return std::unique_ptr<MetricsServer>(new MetricsServer(std::move(impl)));
}

int MetricsServer::port() const { return impl_->server->port(); }

}  // namespace kv_offload
