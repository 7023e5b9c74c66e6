#!/usr/bin/env bash
# The test cases of tests/store on a second store, OpenStack Swift with s3api, which knows no conditional PUT.
# swift_test.sh KV_OFFLOAD_BENCH GATEWAY_TESTS
source "$(dirname "${BASH_SOURCE[0]}")/common.sh" "$@"
source "$(dirname "${BASH_SOURCE[0]}")/with_store.sh"
with_store swift_store
unset KV_OFFLOAD_TEST_S3_OTHER_ACCESS_KEY # here a bucket belongs to an account: another user simply does not see it
"$2" '~*If-None-Match*' || fail 'tests/store on Swift'
