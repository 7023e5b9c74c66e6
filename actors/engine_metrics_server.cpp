#include "kv_offload/actors/engine_metrics.hpp"
#include "kv_offload/actors/engine_metrics_page.hpp"
#include "kv_offload/actors/engine_metrics_socket.hpp"

#include <prometheus/collectable.h>
#include <prometheus/exposer.h>

#include <cassert>
#include <cerrno>
#include <exception>
#include <system_error>
#include <utility>

namespace kv_offload {
namespace {

/// Two scrapers at a time: a Prometheus server and a person with curl.
constexpr std::size_t kServerThreads = 2;

class EngineCollectable : public prometheus::Collectable {
 public:
  EngineCollectable(std::function<EngineStats()> stats, std::vector<MetricDefinition> definitions)
      : stats_(std::move(stats)), definitions_(std::move(definitions)) {}

  std::vector<prometheus::MetricFamily> Collect() const override {
    MetricsPage page = collect_metrics(stats_(), definitions_);
    assert(page.left_out.empty() && "an undeclared metric was emitted, see undeclared_metrics()");
    return std::move(page.families);
  }

 private:
  const std::function<EngineStats()> stats_;
  const std::vector<MetricDefinition> definitions_;
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
  std::string address;
  int port = 0;
  std::shared_ptr<EngineCollectable> collectable;  // the exposer keeps a weak reference
  std::unique_ptr<prometheus::Exposer> exposer;

  ~Impl() {
    if (exposer == nullptr) return;
    const ServerWaker waker(address, port);
    exposer.reset();
  }
};

MetricsServer::MetricsServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
MetricsServer::~MetricsServer() = default;

Expected<std::unique_ptr<MetricsServer>> MetricsServer::start(
    const std::string& address, int port, std::function<EngineStats()> stats,
    std::vector<MetricDefinition> definitions) {
  if (port < 0 || port > 65535)
    return {OffloadErrc::invalid_config, "metrics.port: " + std::to_string(port) +
                                             " is not allowed; expected an integer in [0, 65535]"};
  if (!is_listen_address(address))
    return {OffloadErrc::invalid_config, "metrics.address: \"" + address.substr(0, 80) +
                                             "\" is not allowed; expected " +
                                             std::string(kListenAddressForms)};
  auto impl = std::make_unique<Impl>();
  impl->address = address;
  impl->collectable = std::make_shared<EngineCollectable>(std::move(stats), std::move(definitions));
  const bool is_ip6 = address.find(':') != std::string::npos;
  const std::string host = is_ip6 ? "[" + address + "]" : address;
  try {
    impl->exposer =
        std::make_unique<prometheus::Exposer>(host + ":" + std::to_string(port), kServerThreads);
    impl->exposer->RegisterCollectable(impl->collectable);
    impl->port = impl->exposer->GetListeningPorts().at(0);
  } catch (const std::exception& error) {
    return cannot_listen(address, port, error.what());
  }
  return std::unique_ptr<MetricsServer>(new MetricsServer(std::move(impl)));
}

int MetricsServer::port() const { return impl_->port; }

}  // namespace kv_offload
