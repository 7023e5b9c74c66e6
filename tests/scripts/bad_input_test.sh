#!/usr/bin/env bash
# Broken input is refused before anything starts: exit status 2 and one line that says what, where and what is allowed.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh" "$@"

failures=0
# refused EXPECTED_TEXT ARGUMENT...
refused() {
  local expected=$1 status=0 lines
  shift
  "$bench" "$@" > "$work/out" 2> "$work/err" || status=$?
  lines=$(wc -l < "$work/err")
  if [[ $status != 2 ]] || [[ $lines != 1 ]] || ! grep -qF -- "$expected" "$work/err"; then
    echo "kv-offload-bench $*: status $status, expected 2 and one line with '$expected', got:"
    cat "$work/err"
    failures=$((failures + 1))
  fi
}

good='{"timestamp": 0, "input_length": 1024, "output_length": 1, "hash_ids": [1, 2]}'
printf '%s\n' "$good" 'not json' > "$work/broken.jsonl"
printf '%s\n' "$good" '{"timestamp": 1}' > "$work/incomplete.jsonl"
printf '%s\n' "$good" '{"timestamp": 1, "input_length": -5, "output_length": 1, "hash_ids": [1]}' > "$work/negative.jsonl"
echo '{"cpu_bytes_to_use": 1048576, "chunk_bytes": 4096, "evictionpolicy": "lru"}' > "$work/unknown_key.json"
echo '{"cpu_bytes_to_use": -1, "chunk_bytes": 4096}' > "$work/negative.json"
echo '{"cpu_bytes_to_use": 1048576' > "$work/cut.json"
base='"cpu_bytes_to_use": 1048576, "chunk_bytes": 4096'
echo "{$base, \"metrics\": {\"port\": 0, \"address\": \"127.0.0.1:80\"}}" > "$work/address.json"
echo "{$base, \"store_threshold\": 2, \"secondary_tiers\": [{\"type\": \"example\"}]}" > "$work/threshold.json"
echo "{$base, \"spec_name\": \"NoSuchSpec\"}" > "$work/spec.json"
echo "{$base, \"block_size\": 16, \"blocks_per_chunk\": 1}" > "$work/both_sizes.json"
echo "{$base, \"secondary_tiers\": [{\"type\": \"fs\", \"root_dir\": \"/x\", \"locality\": \"NEAR\"}]}" > "$work/locality.json"
echo "{$base, \"secondary_tiers\": [{\"type\": \"example\", \"backpressure\": {\"low_water_s\": 1}}]}" > "$work/marks.json"
echo "{$base, \"$(printf 'k%.0s' {1..300})\": 1}" > "$work/long_key.json"
mkdir "$work/read_only"

refused "$work/nowhere.jsonl" replay --trace "$work/nowhere.jsonl"
refused 'broken.jsonl:2' replay --trace "$work/broken.jsonl"
refused 'incomplete.jsonl:2' replay --trace "$work/incomplete.jsonl"
refused 'negative.jsonl:2' replay --trace "$work/negative.jsonl"
refused 'no-such-trace' replay --synthetic no-such-trace
refused '12furlongs' replay --synthetic multi-turn --chunk-bytes 12furlongs
refused '-4096' replay --synthetic multi-turn --chunk-bytes=-4096
refused 'primary-chunks' replay --synthetic multi-turn --primary-chunks=-1
refused 'evictionpolicy' check-config "$work/unknown_key.json"
refused 'cpu_bytes_to_use' check-config "$work/negative.json"
refused 'cut.json' check-config "$work/cut.json"
refused 'metrics.address: "127.0.0.1:80" is not allowed' check-config "$work/address.json"
refused 'store_threshold: 2 is not allowed; expected an integer in [0, 1]' check-config "$work/threshold.json"
refused 'spec_name: "NoSuchSpec" is not allowed; expected one of: CPUOffloadingSpec' check-config "$work/spec.json"
refused 'block_size: 16 is not allowed' check-config "$work/both_sizes.json"
refused 'secondary_tiers[0].locality: "NEAR" is not allowed; expected one of: LOCAL, REMOTE' check-config "$work/locality.json"
refused 'secondary_tiers[0].backpressure.low_water_s: 1 is not allowed; expected at most high_water_s (0.01)' \
  check-config "$work/marks.json"
refused "$(printf 'k%.0s' {1..60})...: unknown key" check-config "$work/long_key.json"
refused '--chunk-bytes: "12furlongs" is not allowed' copy --chunk-bytes 12furlongs
refused '--chunk-bytes: "4095" is not allowed; expected' copy --chunk-bytes 4095
refused '--fragment-bytes: 24 KiB is not allowed; expected a divisor of --chunk-bytes, which is 2 MiB' \
  copy --fragment-bytes 24KiB
refused '--fragment-bytes: 4 MiB is not allowed' copy --fragment-bytes 4MiB
refused '--chunks: 40000 is not allowed; expected at most 32768' copy --chunks 40000
refused '--fragment-bytes: 64 B is not allowed; expected at most 4194304 fragments' \
  copy --fragment-bytes 64 --chunks 256
refused '--threads' copy --threads 65
refused '--backend' copy --backend rocm
refused '--seconds' copy --seconds=-1
refused 'has no effect with --backend cuda' copy --backend cuda --threads 2
refused '--chunk-bytes: 4100 B is not allowed; expected a multiple of 8: workers x blocks per chunk x 2 tensors' \
  workers --chunk-bytes 4100
refused '--workers' workers --workers 65
refused '--batch' workers --batch 0
refused '--window' workers --window x
refused 'is required' check-config
refused "$work/no/such/place" replay --synthetic multi-turn --tier fs --dir "$work/no/such/place"
refused 'no_such_tier' replay --synthetic multi-turn --tier no_such_tier
mkdir "$work/nothing"
echo 'no extent file' > "$work/text"
refused "$work/missing: No such file or directory" inspect "$work/missing"
refused "$work/nothing: holds no chunks" inspect "$work/nothing"
refused "$work/text: is not an extent file" inspect "$work/text" --verify
refused '--purge-quarantined is for' inspect "$work/text" --purge-quarantined
refused '--config is for an extent file' inspect "$work/nothing" --config "$work/cut.json"
refused 'limit' inspect "$work/nothing" --limit=-1
refused 'path is required' inspect

((failures == 0)) || fail "$failures inputs"
