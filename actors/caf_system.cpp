#include "kv_offload/actors/caf_system.hpp"

#include "kv_offload/messages/protocol/type_ids.hpp"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/atom.hpp>

namespace kv_offload {
namespace {

struct Config : caf::actor_system_config {
  explicit Config(std::uint32_t worker_threads) {
    // 0.17 names; later releases prefix them with "caf." and take the policy as a string.
    set("scheduler.policy", caf::atom("sharing"));
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
