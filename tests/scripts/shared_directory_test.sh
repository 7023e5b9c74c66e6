#!/usr/bin/env bash
# Two engines, two mounts of one CephFS directory, as on two hosts: what one stores the other finds. One is killed in
# the middle; the other goes on, nothing wrong is served, and the next start sweeps what the dead one left half-written.
# shared_directory_test.sh KV_OFFLOAD_BENCH
source "$(dirname "${BASH_SOURCE[0]}")/common.sh" "$@"
source "$(dirname "${BASH_SOURCE[0]}")/with_store.sh"
with_store s3_store --cephfs

config() { # FILE ROOT
  mkdir -p "$2"
  cat > "$1" << JSON
{"chunk_bytes": "64KiB", "cpu_bytes_to_use": "64MiB", "identity": {"model_name": "test"}, "log_level": "error",
 "secondary_tiers": [{"type": "fs", "root_dir": "$2", "locality": "REMOTE"}]}
JSON
}
config "$work/a.json" "$KV_OFFLOAD_TEST_SHARED_DIR_A/chunks"
config "$work/b.json" "$KV_OFFLOAD_TEST_SHARED_DIR_B/chunks"
replay() { "$bench" replay --synthetic multi-turn --verify all --quiet "$@"; }
temporaries() { find "$KV_OFFLOAD_TEST_SHARED_DIR_A/chunks" -name '*.tmp' | wc -l; }

replay --config "$work/a.json" --requests 40 --json "$work/a" || fail 'the first engine'
replay --config "$work/b.json" --requests 40 --json "$work/b" || fail 'the second engine'
equal 'hit chunks of the second engine, chunk by chunk asked for' "$(number "$work/b" .hit_chunks)" "$(number "$work/b" .chunk_references)"
equal mismatches "$(number "$work/b" .mismatches)" 0

# Both at once; one dies while it stores.
replay --config "$work/a.json" --requests 120 --json "$work/dead" > /dev/null 2>&1 &
victim=$!
replay --config "$work/b.json" --requests 120 --json "$work/lives" > "$work/out" 2>&1 &
other=$!
sleep 1
kill -9 "$victim" 2> /dev/null || fail 'the first engine ended before it could be killed'
wait "$victim" 2> /dev/null || true
wait "$other" || fail "the engine that lives: $(cat "$work/out")"
equal mismatches "$(number "$work/lives" .mismatches)" 0
echo "left half-written: $(temporaries)"

replay --config "$work/a.json" --requests 120 --json "$work/again" || fail 'a start after the death'
equal mismatches "$(number "$work/again" .mismatches)" 0
equal 'hit chunks of a third run' "$(number "$work/again" .hit_chunks)" "$(number "$work/again" .chunk_references)"
equal 'files left half-written' "$(temporaries)" 0
"$bench" inspect "$KV_OFFLOAD_TEST_SHARED_DIR_A/chunks" --verify > "$work/inspect" || fail "inspect: $(cat "$work/inspect")"
