#!/usr/bin/env bash
# TLS in front of a server, good and bad: haproxy on 127.0.0.1 with certificates of a CA of its own.
#
# Usage: tls_proxy.sh start --backend HOST:PORT | stop | status | env | install
#   start    prints its environment, as in: eval "$(tests/support/tls_proxy.sh start --backend 127.0.0.1:7480)"
#   stop     ends it and removes its directory
#   --dir D  where it lives; default $KV_OFFLOAD_TLS_DIR, which `start` sets, or a new temporary directory
#
# KV_OFFLOAD_TEST_TLS_GOOD, _WRONG_NAME, _SELF_SIGNED, _EXPIRED: URLs with such a certificate; _DEAD: a good one before
# a backend that is not there; _FLAKY: one that answers every tenth request with 503; _CA_FILE: whom to trust.
NAME=tls_proxy VARIABLE=KV_OFFLOAD_TLS_DIR
PACKAGES='haproxy openssl'
source "$(dirname "${BASH_SOURCE[0]}")/store_common.sh"
backend=
set -- "${ARGS[@]}"
while [[ $# -gt 0 ]]; do
  case $1 in
    --backend) backend=${2:-}; shift 2 ;;
    *) fail "unknown option $1" ;;
  esac
done

stop() {
  end "$DIR/haproxy.pid"
  remove_dir
}
runs() { pid_of "$DIR/haproxy.pid" > /dev/null; }

case $COMMAND in
  stop) stop; exit ;;
  status) if runs; then echo running; exit; else echo stopped; exit 1; fi ;;
  env) [[ -e $DIR/env ]] || fail "nothing runs in $DIR"; cat "$DIR/env"; exit ;;
esac

[[ $backend =~ ^[^:]+:[0-9]+$ ]] || fail '--backend HOST:PORT says what is behind it'
if runs && grep -qxF "# $backend" "$DIR/haproxy.cfg"; then
  cat "$DIR/env"
  exit
fi
need haproxy haproxy
need openssl openssl
[[ -e $DIR/.kv_offload_store || -z $(ls -A "$DIR") ]] || fail "$DIR is neither empty nor ours"
stop # what is left of an earlier one, or one before another backend
port=$(free_ports 7)
mkdir -p "$DIR"
chmod 700 "$DIR"
touch "$DIR/.kv_offload_store"
trap 'ends_cleanly stop "$DIR"/log' EXIT
umask 077
cd "$DIR"

new_ca
new_certificate good DNS:localhost,IP:127.0.0.1
new_certificate wrong_name DNS:elsewhere.example
new_request self_signed
printf 'subjectAltName=DNS:localhost,IP:127.0.0.1\n' > self_signed.ext
openssl x509 -req -in self_signed.csr -signkey self_signed.key -days 30 -extfile self_signed.ext -out self_signed.crt 2> /dev/null
cat self_signed.crt self_signed.key > self_signed.pem
new_request expired
cat > ca.cnf << CONF
[ca]
default_ca = one
[one]
database = $DIR/index
serial = $DIR/serial
new_certs_dir = $DIR
default_md = sha256
policy = any
copy_extensions = none
[any]
commonName = supplied
CONF
: > index
echo 01 > serial
printf 'subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth\n' > expired.ext
openssl ca -batch -config ca.cnf -cert ca.pem -keyfile ca.key -in expired.csr -out expired.crt -notext \
  -extfile expired.ext -startdate 20200101000000Z -enddate 20200201000000Z > log 2>&1
cat expired.crt expired.key > expired.pem

front() { # NAME PORT CERTIFICATE BACKEND
  printf 'frontend %s\n  bind 127.0.0.1:%d ssl crt %s/%s.pem alpn http/1.1\n  default_backend %s\n' "$1" "$2" "$DIR" "$3" "$4"
}
{
  echo "# $backend"
  printf 'defaults\n  mode http\n  timeout connect 2s\n  timeout client 60s\n  timeout server 60s\n'
  front good "$port" good store
  front wrong_name $((port + 1)) wrong_name store
  front self_signed $((port + 2)) self_signed store
  front expired $((port + 3)) expired store
  front dead $((port + 4)) good dead
  front flaky $((port + 5)) good store
  printf '  http-request deny deny_status 503 if { rand(100) lt 10 }\n'
  printf 'backend store\n  server store %s\n' "$backend"
  printf 'backend dead\n  server dead 127.0.0.1:%d\n' $((port + 6))
} > haproxy.cfg
setsid haproxy -f "$DIR/haproxy.cfg" -db >> log 2>&1 < /dev/null &
echo $! > haproxy.pid
wait_for 10 haproxy port_is_taken $((port + 5))
runs || fail 'haproxy ended'

{
  echo "export KV_OFFLOAD_TLS_DIR=$DIR"
  echo "export KV_OFFLOAD_TEST_TLS_CA_FILE=$DIR/ca.pem"
  n=0
  for name in GOOD WRONG_NAME SELF_SIGNED EXPIRED DEAD FLAKY; do
    echo "export KV_OFFLOAD_TEST_TLS_$name=https://localhost:$((port + n))"
    n=$((n + 1))
  done
} > env.new
mv env.new env
trap - EXIT
cat env
