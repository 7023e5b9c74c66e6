#!/usr/bin/env bash
# Another real S3 store for tests: OpenStack Swift with its s3api, on 127.0.0.1. It differs from others in what it
# leaves out (conditional PUTs) and how it names users (account:user).
#
# Usage: swift_store.sh start | stop | status | env | install
#   start    starts what does not run and prints its environment, as in: eval "$(tests/support/swift_store.sh start)"
#   stop     ends it and removes its directory
#   --dir D  where it lives; default $KV_OFFLOAD_SWIFT_DIR, which `start` sets, or a new temporary directory. On a file
#            system with user attributes: ext4 and xfs have them
#
# The variables are those of s3_store.sh, but for TLS: the same tests run on both.
NAME=swift_store VARIABLE=KV_OFFLOAD_SWIFT_DIR SESSION=1 # its servers have workers
PACKAGES='swift-proxy swift-account swift-container swift-object memcached curl openssl'
source "$(dirname "${BASH_SOURCE[0]}")/store_common.sh"
((${#ARGS[@]} == 0)) || fail "unknown option ${ARGS[0]}"
readonly kBucket=kv-test kServers='account container object proxy'

stop() {
  end "$DIR"/run/{proxy,object,container,account,memcached,log_sink}.pid
  remove_dir
}
runs() {
  local each
  for each in $kServers memcached log_sink; do pid_of "$DIR/run/$each.pid" > /dev/null || return 1; done
}

case $COMMAND in
  stop) stop; exit ;;
  status) if runs; then echo running; exit; else echo stopped; exit 1; fi ;;
  env) [[ -e $DIR/env ]] || fail "nothing runs in $DIR"; cat "$DIR/env"; exit ;;
esac

if runs; then
  cat "$DIR/env"
  exit
fi
for server in $kServers; do need "swift-$server-server" "swift-$server"; done
need swift-ring-builder swift
need memcached memcached
need curl curl
need openssl openssl
need python3 python3
((${#DIR} < 90)) || fail "$DIR is too long for the socket in it"
[[ -e $DIR/.kv_offload_store || -z $(ls -A "$DIR") ]] || fail "$DIR is neither empty nor ours"
stop # what is left of an earlier one
port=$(free_ports 5)
mkdir -p "$DIR"/{srv/d1,etc,run,log}
chmod 700 "$DIR"
touch "$DIR/.kv_offload_store"
trap 'ends_cleanly stop "$DIR"/log/*' EXIT
umask 077
cd "$DIR"

cat > etc/swift.conf << CONF
[swift-hash]
swift_hash_path_prefix = $(random_text a-z 8)
swift_hash_path_suffix = $(random_text a-z 8)
[storage-policy:0]
name = gold
default = yes
CONF
common="bind_ip = 127.0.0.1
user = $(id -un)
swift_dir = $DIR/etc
workers = 1
log_name = swift
log_address = $DIR/run/log"
n=0
for server in account container object; do
  n=$((n + 1))
  cat > "etc/$server-server.conf" << CONF
[DEFAULT]
$common
bind_port = $((port + n))
devices = $DIR/srv
mount_check = false
[pipeline:main]
pipeline = $server-server
[app:$server-server]
use = egg:swift#$server
[$server-replicator]
[$server-auditor]
CONF
  {
    swift-ring-builder "etc/$server.builder" create 6 1 1
    swift-ring-builder "etc/$server.builder" add "r1z1-127.0.0.1:$((port + n))/d1" 100
    swift-ring-builder "etc/$server.builder" rebalance
  } > log/rings 2>&1 || [[ -e etc/$server.ring.gz ]] || fail "the ring of $server cannot be built"
done
secret=$(random_text A-Za-z0-9 40) other_secret=$(random_text A-Za-z0-9 40)
# users of two accounts: the second has no right on the bucket of the first
cat > etc/proxy-server.conf << CONF
[DEFAULT]
$common
bind_port = $port
[pipeline:main]
pipeline = catch_errors gatekeeper healthcheck cache listing_formats bulk s3api tempauth slo dlo proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
[filter:s3api]
use = egg:swift#s3api
location = us-east-1
[filter:tempauth]
use = egg:swift#tempauth
user_kv_tester = $secret .admin
user_other_tester = $other_secret .admin
[filter:cache]
use = egg:swift#memcache
memcache_servers = 127.0.0.1:$((port + 4))
CONF
for filter in catch_errors gatekeeper healthcheck listing_formats bulk slo dlo; do
  printf '[filter:%s]\nuse = egg:swift#%s\n' "$filter" "$filter" >> etc/proxy-server.conf
done

as_user=()
[[ $(id -u) != 0 ]] || as_user=(-u nobody)
launch() { # NAME COMMAND...
  local name=$1
  shift
  setsid "$@" > "log/$name" 2>&1 < /dev/null &
  echo $! > "run/$name.pid"
}
# Whoever finds no socket for its log sends it to a port of the whole network.
launch log_sink python3 -c "
import socket, sys
sink = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
sink.bind(sys.argv[1])
with open(sys.argv[2], 'ab', 0) as log:
    while True:
        log.write(sink.recv(65536) + b'\\n')" "$DIR/run/log" "$DIR/log/swift"
wait_for 20 'the sink of the log' test -S "$DIR/run/log"
launch memcached memcached "${as_user[@]}" -l 127.0.0.1 -p $((port + 4)) -m 64 -P "$DIR/run/memcached"
for server in $kServers; do launch "$server" "swift-$server-server" "$DIR/etc/$server-server.conf"; done
for ((i = 1; i < 4; ++i)); do wait_for 60 "port $((port + i))" port_is_taken $((port + i)); done
wait_for 60 'the proxy' curl -sf --max-time 2 "http://127.0.0.1:$port/healthcheck"

# Signed by hand: curl --user ends a name at its first colon, and these have one.
sign() { # HEX_KEY TEXT -> hex
  printf '%s' "$2" | openssl dgst -sha256 -mac HMAC -macopt "hexkey:$1" | sed 's/.* //'
}
make_bucket() {
  local now day scope hashed request text key part
  now=$(date -u +%Y%m%dT%H%M%SZ) day=${now%T*} scope=${now%T*}/us-east-1/s3/aws4_request
  request="PUT"$'\n'"/$kBucket"$'\n\n'"host:127.0.0.1:$port"$'\n'"x-amz-content-sha256:UNSIGNED-PAYLOAD"$'\n'"x-amz-date:$now"
  request+=$'\n\n'"host;x-amz-content-sha256;x-amz-date"$'\n'"UNSIGNED-PAYLOAD"
  hashed=$(printf '%s' "$request" | openssl dgst -sha256 | sed 's/.* //')
  text="AWS4-HMAC-SHA256"$'\n'"$now"$'\n'"$scope"$'\n'"$hashed"
  key=$(printf 'AWS4%s' "$secret" | od -An -vtx1 | tr -d ' \n')
  for part in "$day" us-east-1 s3 aws4_request; do key=$(sign "$key" "$part"); done
  curl -s -o log/bucket -w '%{http_code}' --max-time 30 -X PUT "http://127.0.0.1:$port/$kBucket" \
    -H "x-amz-content-sha256: UNSIGNED-PAYLOAD" -H "x-amz-date: $now" -H "Authorization: AWS4-HMAC-SHA256 \
Credential=kv:tester/$scope, SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature=$(sign "$key" "$text")"
}
bucket_is_there() { [[ $(make_bucket) =~ ^(200|409)$ ]]; }
wait_for 30 'the bucket' bucket_is_there

cat > env.new << ENV
export KV_OFFLOAD_SWIFT_DIR=$DIR
export KV_OFFLOAD_TEST_S3_ENDPOINT=http://127.0.0.1:$port
export KV_OFFLOAD_TEST_S3_REGION=us-east-1
export KV_OFFLOAD_TEST_S3_BUCKET=$kBucket
export KV_OFFLOAD_TEST_S3_ACCESS_KEY=kv:tester
export KV_OFFLOAD_TEST_S3_SECRET_KEY=$secret
export KV_OFFLOAD_TEST_S3_OTHER_ACCESS_KEY=other:tester
export KV_OFFLOAD_TEST_S3_OTHER_SECRET_KEY=$other_secret
ENV
mv env.new env
trap - EXIT
cat env
