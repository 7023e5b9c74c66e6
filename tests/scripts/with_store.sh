# Starts a real store for a script test and stops it at the end. Sourced after common.sh, never run:
#   with_store NAME [ARGUMENTS of its start]      NAME: s3_store or swift_store (tests/support)
support="$(cd "$(dirname "${BASH_SOURCE[0]}")/../support" && pwd)"
with_store() {
  local script="$support/$1.sh" status=0
  shift
  "$script" start --dir "$work/store" "$@" > "$work/store.env" 2> "$work/store.err" || status=$?
  if ((status != 0)); then
    if grep -q 'is missing' "$work/store.err"; then skip "$(tail -1 "$work/store.err")"; fi
    fail "$script: $(cat "$work/store.err")"
  fi
  # shellcheck disable=SC2064
  trap "'$script' stop --dir '$work/store' || true; rm -rf '$work'" EXIT
  # shellcheck disable=SC1091
  source "$work/store.env"
  export AWS_ACCESS_KEY_ID=$KV_OFFLOAD_TEST_S3_ACCESS_KEY AWS_SECRET_ACCESS_KEY=$KV_OFFLOAD_TEST_S3_SECRET_KEY
}
# obj_config FILE PREFIX [MORE_KEYS of the tier]: an engine on that store.
obj_config() {
  cat > "$1" << JSON
{"chunk_bytes": "16KiB", "cpu_bytes_to_use": "${primary:-8MiB}", "tokens_per_chunk": 512,
 "identity": {"model_name": "test"}, "log_level": "error",
 "secondary_tiers": [{"type": "obj", "prefix": "$2", "locality": "REMOTE", "max_inflight": 32${3:-},
   "store_config": {"bucket": "$KV_OFFLOAD_TEST_S3_BUCKET", "endpoint_override": "$KV_OFFLOAD_TEST_S3_ENDPOINT",
                    "region": "$KV_OFFLOAD_TEST_S3_REGION"}}]}
JSON
}
