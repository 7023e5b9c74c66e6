#!/usr/bin/env bash
# The tier of object stores on a real one: Ceph's RADOS gateway. gateway_test.sh KV_OFFLOAD_BENCH GATEWAY_TESTS
# 1. the test cases of tests/store
# 2. two engines on one bucket find what the other stored: as many hits as one engine alone has
# 3. the gateway is killed in the middle of a replay, and comes back: nothing wrong is served, every job ends
source "$(dirname "${BASH_SOURCE[0]}")/common.sh" "$@"
source "$(dirname "${BASH_SOURCE[0]}")/with_store.sh"
with_store s3_store

"$2" || fail 'tests/store'

trace=(--synthetic multi-turn --requests 160)
if [[ -n ${KV_OFFLOAD_TRACES:-} && -e $KV_OFFLOAD_TRACES/conversation_trace.jsonl ]]; then
  trace=(--trace "$KV_OFFLOAD_TRACES/conversation_trace.jsonl" --requests "${KV_OFFLOAD_TRACE_REQUESTS:-300}")
fi
obj_config "$work/one.json" one
obj_config "$work/two.json" two
"$bench" replay "${trace[@]}" --config "$work/one.json" --engines 1 --json "$work/one" --quiet || fail 'one engine'
"$bench" replay "${trace[@]}" --config "$work/two.json" --engines 2 --json "$work/two" --quiet || fail 'two engines'
one=$(number "$work/one" .hit_share) two=$(number "$work/two" .hit_share)
echo "hit share: one engine $one, two engines $two"
jq -en "($one - $two) | fabs <= 0.002" > /dev/null || fail "two engines find $two of the chunks, one finds $one"
served=$(number "$work/two" '.engines[1].tiers["1:obj"].hit_chunks')
((served > 0)) || fail 'the second engine found nothing of the first in the bucket'
equal mismatches "$(number "$work/two" .mismatches)" 0

obj_config "$work/killed.json" killed ', "request_timeout_ms": 2000, "breaker": {"open_ms": 200, "open_max_ms": 500}'
gateway=$(cat "$work/store/run/client.rgw.pid")
"$bench" replay "${trace[@]}" --config "$work/killed.json" --json "$work/killed" --quiet > "$work/out" 2>&1 &
replay=$!
sleep 1
kill -9 "$gateway"
sleep 1
radosgw -c "$work/store/ceph.conf" -n client.rgw >> "$work/store/log/start.log" 2>&1
wait "$replay" || fail "a replay whose store was killed: $(cat "$work/out")"
equal mismatches "$(number "$work/killed" .mismatches)" 0
