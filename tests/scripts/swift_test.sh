#!/usr/bin/env bash
# The test cases of tests/store on a second store, OpenStack Swift with s3api, which knows no conditional PUT.
# swift_test.sh KV_OFFLOAD_BENCH GATEWAY_TESTS
source "$(dirname "${BASH_SOURCE[0]}")/common.sh" "$@"
source "$(dirname "${BASH_SOURCE[0]}")/with_store.sh"
with_store swift_store
"$2" '~*If-None-Match*' || fail 'tests/store on Swift'
