#!/usr/bin/env bash
# Certificates that do not hold: wrong name, signed by itself, expired. The start refuses each and says so; with the right
# one it works. tls_test.sh KV_OFFLOAD_BENCH
source "$(dirname "${BASH_SOURCE[0]}")/common.sh" "$@"
source "$(dirname "${BASH_SOURCE[0]}")/with_store.sh"
"$bench" serve-objects > "$work/served" &
server=$!
trap 'kill "$server"; rm -rf "$work"' EXIT
for _ in $(seq 100); do [[ -s $work/served ]] && break; sleep 0.1; done
endpoint=$(sed -n 's/ .*//p;q' "$work/served")
[[ -n $endpoint ]] || fail 'serve-objects did not start'
status=0
"$support/tls_proxy.sh" start --dir "$work/tls" --backend "${endpoint#http://}" > "$work/env" 2> "$work/err" || status=$?
if ((status != 0)); then
  if grep -q 'is missing' "$work/err"; then skip "$(tail -1 "$work/err")"; fi
  fail "$(cat "$work/err")"
fi
trap 'kill "$server"; "$support/tls_proxy.sh" stop --dir "$work/tls"; rm -rf "$work"' EXIT
# shellcheck disable=SC1091
source "$work/env"
export AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=thing

try() { # ENDPOINT MORE_KEYS_OF_STORE_CONFIG -> status, text in $work/out
  cat > "$work/config.json" << JSON
{"chunk_bytes": "64KiB", "cpu_bytes_to_use": "8MiB", "identity": {"model_name": "test"},
 "secondary_tiers": [{"type": "obj", "store_config": {"bucket": "kv-cache", "endpoint_override": "$1"$2}}]}
JSON
  "$bench" replay --synthetic multi-turn --requests 4 --config "$work/config.json" --quiet > "$work/out" 2>&1
}
ca=", \"ca_bundle\": \"$KV_OFFLOAD_TEST_TLS_CA_FILE\""
try "$KV_OFFLOAD_TEST_TLS_GOOD" "$ca" || fail "a good certificate: $(cat "$work/out")"
for kind in WRONG_NAME SELF_SIGNED EXPIRED; do
  url=KV_OFFLOAD_TEST_TLS_$kind
  if try "${!url}" "$ca"; then fail "$kind was accepted"; fi
  grep -q 'no secure connection' "$work/out" || fail "$kind: $(cat "$work/out")"
  try "${!url}" "$ca, \"insecure_skip_verify\": true" || fail "$kind, said aloud: $(cat "$work/out")"
  grep -q 'insecure_skip_verify' "$work/out" || fail 'insecure_skip_verify is not in the log'
done
if try "$KV_OFFLOAD_TEST_TLS_GOOD" ''; then fail 'a certificate of an unknown authority was accepted'; fi
