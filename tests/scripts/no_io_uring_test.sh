#!/usr/bin/env bash
# Where io_uring is forbidden, as in many containers, threads do the I/O: said once per tier, every byte right. A
# configuration that insists on io_uring does not start.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh" "$@"

strace -o /dev/null true 2> /dev/null || skip 'this machine does not allow strace'

mkdir "$work/dir" "$work/plain"
# refused_calls CALL ARGUMENT...: the program, with CALL answering what seccomp profiles answer.
refused_calls() {
  strace -f -qq --seccomp-bpf -e trace="$1" -e inject="$1:error=EPERM" -o "$work/calls" "$bench" "${@:2}"
}
replay=(replay --synthetic multi-turn --requests 40 --chunk-bytes 64KiB --primary-chunks 64 --verify all)
config() { # IO
  echo "{\"io\": \"$1\", \"cpu_bytes_to_use\": \"4MiB\", \"chunk_bytes\": \"64KiB\"}" > "$work/$1.json"
}
config auto
config uring
config threads

# auto: both kinds of file tiers go on with threads, and so does the next run on what the first one stored.
for run in first second; do
  refused_calls io_uring_setup "${replay[@]}" --dir "$work/dir" --config "$work/auto.json" --tier fs --tier extent \
    --json "$work/$run.json" > "$work/out" 2> "$work/err" || fail "the $run run: $(cat "$work/err")"
  grep -q 'io_uring_setup.*INJECTED' "$work/calls" || fail 'nothing was refused'
  equal mismatches "$(number "$work/$run.json" .mismatches)" 0
  for tier in 1:fs 2:extent; do
    said=$(grep -c "$tier: 16 I/O threads in place of io_uring: .*io_uring_setup: Operation not permitted.*seccomp" \
      "$work/err" || true)
    equal "what $tier said of it" "$said" 1
  done
  equal 'failed chunks' "$(number "$work/$run.json" '[.tiers[].failed] | add')" 0
done
moved=$(number "$work/second.json" '.tiers["1:fs"].read_bytes')
((moved > 0)) || fail 'the second run read nothing from the first tier'

# A profile that allows a ring to be made and not to be used is the same.
refused_calls io_uring_enter "${replay[@]}" --dir "$work/dir" --config "$work/auto.json" --tier fs --json "$work/enter.json" \
  > "$work/out" 2> "$work/err" || fail "without io_uring_enter: $(cat "$work/err")"
grep -q '1:fs: 16 I/O threads in place of io_uring: .*io_uring_enter: Operation not permitted' "$work/err" ||
  fail "not said: $(cat "$work/err")"
equal mismatches "$(number "$work/enter.json" .mismatches)" 0

# threads: no ring is asked for.
refused_calls io_uring_setup "${replay[@]}" --dir "$work/dir" --config "$work/threads.json" --tier fs --json "$work/threads_run.json" \
  > "$work/out" 2> "$work/err" || fail "with threads: $(cat "$work/err")"
[[ ! -s $work/calls ]] || fail "a ring was asked for: $(cat "$work/calls")"
grep -q 'io_uring' "$work/err" && fail "io_uring was spoken of: $(cat "$work/err")"
grep -q '1:fs: .* I/O, 16 I/O threads, ' "$work/err" || fail "the start does not say what is used: $(cat "$work/err")"
equal mismatches "$(number "$work/threads_run.json" .mismatches)" 0

# uring: no start, one line, nothing created.
status=0
refused_calls io_uring_setup "${replay[@]}" --dir "$work/plain" --config "$work/uring.json" --tier fs \
  > "$work/out" 2> "$work/err" || status=$?
equal status "$status" 2
grep '^kv-offload-bench: ' "$work/err" > "$work/said" || true
equal "lines of the refusal ($(cat "$work/said"))" "$(wc -l < "$work/said")" 1
grep -q '1:fs: io_uring is not available.*allow io_uring_setup.*"io": "threads" does without' "$work/said" ||
  fail "the refusal says: $(cat "$work/said")"
[[ -z $(find "$work/plain" -name 'config.json') ]] || fail "something was created: $(find "$work/plain")"
