#include "kv_offload/actors/caf_system.hpp"

#include "kv_offload/actors/handoff_scheduling.hpp"
#include "kv_offload/messages/protocol/type_ids.hpp"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scheduler/coordinator.hpp>

namespace kv_offload {
namespace {

struct Config : caf::actor_system_config {
  explicit Config(std::uint32_t worker_threads) {
    // In place of CAF's own scheduler, which is made only if there is none.
    module_factories.emplace_back([](caf::actor_system& system) -> caf::actor_system::module* {
      return new caf::scheduler::coordinator<HandoffScheduling>(system);
    });
    // 0.17 names; later releases prefix them with "caf.".
    set("scheduler.max-threads", static_cast<std::size_t>(worker_threads));
    set("scheduler.max-throughput", static_cast<std::size_t>(64));
  }
};

}  // namespace

struct CafSystem::Impl {
  explicit Impl(std::uint32_t worker_threads) : config(worker_threads), system(config) {}
  Config config;
  caf::actor_system system;
};

CafSystem::CafSystem(std::uint32_t worker_threads) : impl_(std::make_unique<Impl>(worker_threads)) {}
CafSystem::~CafSystem() = default;
caf::actor_system& CafSystem::system() { return impl_->system; }

}  // namespace kv_offload
