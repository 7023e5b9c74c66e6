#include "kv_offload/actors/scheduler_step_actor.hpp"
#include "kv_offload/actors/tenant_salt.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <algorithm>

// forget removes chunks from the primary tier and every secondary one, in two rounds: what was on its way
// between tiers when the first began (a load that lands, a cascade being decided) is caught by the second.
// A tier waits for the jobs it already has; ForgetKeys travels through the tracker, behind them.
namespace kv_offload {

void SchedulerStepState::forget(const ForgetCall& m) {
  if (refuses_work(m.reply)) return;
  ForgetOp op;
  op.keys = m.keys ? m.keys : std::make_shared<const KeyList>();
  if (m.whole_tenant) {
    op.salt = tenant_salt(m.tenant);
  } else if (!m.tenant.empty()) {
    auto own = std::make_shared<KeyList>();
    for (const auto& key : *op.keys)
      if (const auto salted = key.salted(tenant_salt(m.tenant))) own->push_back(*salted);
    op.keys = std::move(own);
  }
  if (op.keys->empty() && !op.salt) return m.reply.deliver(ForgetSummary{});
  op.reply = m.reply;
  op.deadline = self_->clock().now() + deps_.deadlines.drain;
  const auto id = next_op_++;
  start_forget_round(id, forgets_.emplace(id, std::move(op)).first->second);
}

void SchedulerStepState::start_forget_round(OpId id, ForgetOp& op) {
  ++op.round;
  ++memo_epoch_;
  op.began = next_op_;
  op.waiting = 1 + deps_.tiers.size();
  const ForgetKeys forget{id, caf::actor_cast<caf::strong_actor_ptr>(self_), op.keys, op.salt};
  homes_.send(forget);
  self_->send(deps_.tracker, forget);
}

void SchedulerStepState::keys_forgotten(const KeysForgotten& m) {
  const auto it = forgets_.find(m.op);
  if (it == forgets_.end()) return;
  auto& op = it->second;
  if (m.source == 0) totals_.forgotten_chunks += m.chunks;
  (m.source == 0 ? op.summary.primary_chunks : op.summary.tier_chunks) += m.chunks;
  if (!m.error.empty() && op.round == 1)
    op.summary.not_forgotten.push_back(tier_label(static_cast<TierIndex>(m.source - 1), deps_.traits[m.source - 1].type) +
                                       ": " + m.error);
  if (--op.waiting == 0) push_forgets();
}

void SchedulerStepState::push_forgets() {
  for (auto it = forgets_.begin(); it != forgets_.end();) {
    auto& [id, op] = *it;
    const auto began = op.began;
    const bool undecided =
        std::any_of(cascades_.begin(), cascades_.end(), [&](const auto& c) { return c.first < began && !c.second.submitted; });
    if (op.waiting > 0 || undecided) {
      ++it;
    } else if (op.round == 1) {
      start_forget_round(id, op);
      ++it;
    } else {
      op.reply.deliver(op.summary);
      it = forgets_.erase(it);
    }
  }
}

}  // namespace kv_offload
