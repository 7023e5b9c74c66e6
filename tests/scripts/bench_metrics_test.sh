#!/usr/bin/env bash
# After a replay through an fs tier every series of the reference is on /metrics, at 0 or above, and those that such a
# run must move have moved.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh" "$@"

readonly prefix=vllm:kv_offload_tiering_
# series{tier} that a replay with promotions and cascades must move
moved=(
  'chunk_queries_total{tier="0:primary"}' 'chunk_queries_total{tier="1:fs"}'
  'chunk_hits_total{tier="0:primary"}' 'chunk_hits_total{tier="1:fs"}'
  'lookup_sync_delay_seconds_count{tier="0:primary"}' 'lookup_sync_delay_seconds_count{tier="1:fs"}'
  'lookup_async_delay_seconds_count{tier="1:fs"}'
  'read_bytes_total{tier="1:fs"}' 'write_bytes_total{tier="1:fs"}'
  'read_time_total{tier="1:fs"}' 'write_time_total{tier="1:fs"}'
)
# series that are there all the same
present=(
  'lookup_sync_delay_seconds_bucket{tier="1:fs",le="0.001"}' 'lookup_async_delay_seconds_bucket{tier="1:fs",le="0.001"}'
  'promotion_job_failures_total{tier="1:fs"}' 'cascade_job_failures_total{tier="1:fs"}'
  'promotion_allocation_failures_total'
  'primary_write_usage_perc{tier="1:fs"}' 'primary_read_usage_perc{tier="1:fs"}'
  'active_promotion_jobs{tier="1:fs"}' 'active_cascade_jobs{tier="1:fs"}'
  'cascades_dropped_total{tier="1:fs"}' 'promotions_dropped_total{tier="1:fs"}'
)

"$bench" replay --synthetic multi-turn --requests 80 --chunk-bytes 64KiB --primary-chunks 128 --tier fs \
  --dir "$work" --metrics-port 0 --metrics-hold-seconds 300 > "$work/out" 2> "$work/err" &
replay=$!
trap 'kill "$replay" 2> /dev/null || true; rm -rf "$work"' EXIT
for ((i = 0; i < 600; ++i)); do
  grep -q '^metrics stay at port' "$work/out" && break
  kill -0 "$replay" 2> /dev/null || fail "the replay ended early: $(cat "$work/out" "$work/err")"
  sleep 0.1
done
port=$(sed -n 's/^metrics stay at port \([0-9]*\) .*/\1/p' "$work/out")
[[ -n $port ]] || fail "the replay did not end in time: $(cat "$work/out" "$work/err")"
grep -q '0 mismatches' "$work/out" || fail "mismatches: $(cat "$work/out")"
curl -sS --max-time 20 "http://127.0.0.1:$port/metrics" > "$work/metrics"

failures=0
value_of() { awk -v name="$prefix$1" '$1 == name { print $2 }' "$work/metrics"; }
for series in "${moved[@]}" "${present[@]}"; do
  [[ -n $(value_of "$series") ]] && continue
  echo "$prefix$series is missing"
  failures=$((failures + 1))
done
for series in "${moved[@]}"; do
  awk -v v="$(value_of "$series")" 'BEGIN { exit !(v + 0 > 0) }' && continue
  echo "$prefix$series did not move"
  failures=$((failures + 1))
done
((failures == 0)) || fail "$failures series; the page was: $(cat "$work/metrics")"
kill -TERM "$replay" # ends the hold early; the directory is still cleaned up
wait "$replay" || true
