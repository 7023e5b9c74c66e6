#include "kv_offload/actors/scheduler_step_actor.hpp"

#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <algorithm>

// The memo of a waiting request that asks every step for the same keys. Its answer is kept while nothing in it can have
// changed, and is given again without a message and without a look at any key:
//
//   what was present is held for the request, so it cannot be evicted; what ends holds comes by here (prepare_load,
//   other lookups, abort, forget, reset), but the clock of unread promotions, which the primary tier watches
//   what was absent or on its way is watched by the primary tier, which says LookupChanged before anything else that
//   tells of the change, so that nobody can know of it and still get the old answer
//   a tier's miss is the verdict that the tier keeps for the request: only a store of ours turns it, and that begins in
//   the primary tier. Tiers that answer from their own memory keep none, and their misses are asked for each time
namespace kv_offload {

bool SchedulerStepState::answer_from_memo(Request& request, const LookupCall& m) {
  const auto* memo = request.memo.get();
  if (!m.repeats || memo == nullptr || memo->keys != m.keys || memo->options != m.options || memo->epoch != memo_epoch_) {
    drop_memo(request);  // the call that follows may end holds
    return false;
  }
  for (std::size_t t = 0; t < memo->counted.size(); ++t) {
    auto& l = totals_.lookups[t];
    l.looked_up += memo->counted[t].looked_up;
    l.hit += memo->counted[t].hit;
    l.miss += memo->counted[t].miss;
  }
  request.summary.looked_up_chunks += memo->looked_up;
  request.summary.hit_chunks += memo->hits;
  m.reply.deliver(memo->answer);
  return true;
}

void SchedulerStepState::drop_memo(Request& request) {
  request.memo = nullptr;
  ++request.turn;
}

bool SchedulerStepState::may_keep(const LookupOp& op, const Request& request, const LookupAnswer& answer) const {
  if (op.asked_keys == nullptr || !op.watched || op.answered || op.turn != request.turn || op.memo_epoch != memo_epoch_)
    return false;
  // Whatever the answer owes to the moment is asked for again: refusals, full tables, probes that run, loads begun.
  if (answer.promoted + answer.unheld + answer.truncated + answer.refused + answer.gave_up > 0) return false;
  const auto reached = op.reach();
  for (std::size_t i = op.on_device; i < reached; ++i) {
    if (op.state[i] == LookupOp::Key::retry || op.state[i] == LookupOp::Key::refused ||
        op.state[i] == LookupOp::Key::no_space)
      return false;
    if (op.state[i] == LookupOp::Key::miss && op.may_change) return false;
    for (std::size_t t = 0; t <= op.num_tiers; ++t)
      if (op.verdict(i, t) >= LookupOp::kGaveUp) return false;
  }
  return true;
}

void SchedulerStepState::lookup_changed(const LookupChanged& m) {
  homes_.note(m);
  if (const auto it = lookups_.find(m.op); it != lookups_.end()) it->second.watched = false;
  if (auto* request = find_request(m.request); request != nullptr && request->memo && request->memo->op == m.op)
    request->memo = nullptr;
}

}  // namespace kv_offload
