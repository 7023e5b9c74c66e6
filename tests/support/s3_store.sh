#!/usr/bin/env bash
# A real S3 store for tests: Ceph's monitor, one OSD and the RADOS gateway, on 127.0.0.1, without systemd or cephadm.
#
# Usage: s3_store.sh start [--store memstore|bluestore] [--cephfs] [--port P] | stop | status | env | install
#   start    starts what does not run and prints its environment, as in: eval "$(tests/support/s3_store.sh start)"
#   stop     ends it and removes its directory
#   --dir D  where it lives; default $KV_OFFLOAD_S3_DIR, which `start` sets, or a new temporary directory
#   --cephfs also mounts one shared directory twice (KV_OFFLOAD_TEST_SHARED_DIR_A and _B), as two hosts would
#
# memstore keeps objects in memory and never gives it back: no more than 2 GiB. bluestore keeps them in a file.
NAME=s3_store VARIABLE=KV_OFFLOAD_S3_DIR
PACKAGES='ceph-mon ceph-osd radosgw ceph-common ceph-mds ceph-fuse fuse3 curl openssl'
source "$(dirname "${BASH_SOURCE[0]}")/store_common.sh"
store=memstore cephfs=0 port=
set -- "${ARGS[@]}"
while [[ $# -gt 0 ]]; do
  case $1 in
    --store) store=${2:-}; shift 2 ;;
    --port) port=${2:-}; shift 2 ;;
    --cephfs) cephfs=1; shift ;;
    *) fail "unknown option $1" ;;
  esac
done
[[ $store == memstore || $store == bluestore ]] || fail "--store $store: memstore or bluestore"
conf=$DIR/ceph.conf
readonly kBucket=kv-test

is_mounted() { grep -qF " $DIR/mnt/$1 " /proc/mounts; }
unmount() {
  local mount detach=(umount) lazily=(umount -l)
  [[ $(id -u) == 0 ]] || detach=(fusermount -u) lazily=(fusermount -uz)
  for mount in a b; do
    if ! is_mounted "$mount"; then continue; fi
    # Lazily where the process behind it is gone, or somebody is still in it.
    "${detach[@]}" "$DIR/mnt/$mount" 2> /dev/null || "${lazily[@]}" "$DIR/mnt/$mount"
  done
  end "$DIR"/run/fuse.*.pid
}
stop() {
  unmount # while the metadata server lives: afterwards it hangs
  end "$DIR/run/client.rgw.pid" "$DIR/run/mds.a.pid"
  end "$DIR/run/osd.0.pid"
  end "$DIR/run/mon.a.pid"
  if is_mounted a || is_mounted b; then fail "$DIR/mnt is still mounted"; fi
  remove_dir
}
runs() {
  local each wanted=(client.rgw osd.0 mon.a)
  if [[ -e $DIR/mnt ]]; then wanted+=(mds.a fuse.a fuse.b); fi
  for each in "${wanted[@]}"; do pid_of "$DIR/run/$each.pid" > /dev/null || return 1; done
}

case $COMMAND in
  stop) stop; exit ;;
  status) if runs; then echo running; exit; else echo stopped; exit 1; fi ;;
  env) [[ -e $DIR/env ]] || fail "nothing runs in $DIR"; cat "$DIR/env"; exit ;;
esac

if runs && [[ $cephfs == 0 || -e $DIR/mnt ]]; then
  cat "$DIR/env"
  exit
fi
need ceph-mon ceph-mon
need ceph-osd ceph-osd
need radosgw radosgw
need ceph ceph-common
need curl curl
need openssl openssl
if [[ $cephfs == 1 ]]; then
  need ceph-mds ceph-mds
  need ceph-fuse ceph-fuse
  [[ -e /dev/fuse ]] || fail '/dev/fuse is missing'
fi
((${#DIR} < 70)) || fail "$DIR is too long for the sockets in it"
[[ -e $DIR/.kv_offload_store || -z $(ls -A "$DIR") ]] || fail "$DIR is neither empty nor ours"
stop # what is left of an earlier one
if [[ -n $port ]]; then
  for i in 0 1 2 3; do
    if port_is_taken $((port + i)); then fail "port $((port + i)) is taken"; fi
  done
else
  port=$(free_ports 20)
fi
mkdir -p "$DIR"/{mon,osd0,rgw,run,log,crash}
chmod 700 "$DIR"
touch "$DIR/.kv_offload_store"
trap 'ends_cleanly stop "$DIR"/log/*' EXIT
umask 077
cd "$DIR"
new_ca
new_certificate localhost DNS:localhost,IP:127.0.0.1

# `mds tick interval`: the first look of a second client into a directory that another has written waits for it, and the
# default is 5 s. `paxos propose interval`: a second is the default, and every pool waits for a round. `tcp_nodelay`: without it each
# small answer takes 40 ms.
cat > "$conf" << CONF
[global]
fsid = $(cat /proc/sys/kernel/random/uuid)
mon host = [v2:127.0.0.1:$((port + 2)),v1:127.0.0.1:$((port + 3))]
mon initial members = a
public addr = 127.0.0.1
cluster addr = 127.0.0.1
ms bind port min = $((port + 4))
ms bind port max = $((port + 200))
auth cluster required = cephx
auth service required = cephx
auth client required = cephx
auth allow insecure global id reclaim = false
keyring = $DIR/keyring
admin socket = $DIR/run/\$name.\$pid.asok
pid file = $DIR/run/\$name.pid
log file = $DIR/log/\$name.log
log to stderr = false
err to stderr = false
crash dir = $DIR/crash
run dir = $DIR/run
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 8
osd pool default pgp num = 8
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon allow pool size one = true
mon warn on pool no redundancy = false
mon max pg per osd = 2000
mon data avail warn = 1
mon data avail crit = 1
paxos propose interval = 0.02
paxos min wait = 0.01
[mon.a]
host = localhost
mon data = $DIR/mon
[mds.a]
host = localhost
mds data = $DIR/mds
mds tick interval = 0.02
[osd]
osd data = $DIR/osd\$id
osd objectstore = $store
osd memory target = 939524096
memstore device bytes = 6442450944
bluestore block size = 21474836480
bluestore block create = true
osd class update on start = false
osd crush update on start = false
[client.rgw]
rgw frontends = beast endpoint=127.0.0.1:$port tcp_nodelay=1 ssl_endpoint=127.0.0.1:$((port + 1)) ssl_certificate=$DIR/localhost.crt ssl_private_key=$DIR/localhost.key
rgw data = $DIR/rgw
rgw thread pool size = 64
rgw gc obj min wait = 1
rgw gc processor period = 5
rgw gc processor max time = 5
CONF

key() { # NAME CAPS...
  ceph-authtool "$DIR/keyring" --gen-key -n "$@" > /dev/null
}
ceph_() { timeout 60 ceph -c "$conf" "$@" 2>> "$DIR/log/start.log"; }
ceph-authtool -C "$DIR/keyring" > /dev/null
key mon. --cap mon 'allow *'
key client.admin --cap mon 'allow *' --cap osd 'allow *' --cap mds 'allow *' --cap mgr 'allow *'
key client.rgw --cap mon 'allow rwx' --cap osd 'allow rwx'
key client.fs --cap mon 'allow r' --cap osd 'allow rwx' --cap mds 'allow rwp'
key osd.0 --cap mon 'allow profile osd' --cap osd 'allow *' --cap mgr 'allow profile osd'
key mds.a --cap mon 'allow profile mds' --cap osd 'allow rwx' --cap mds 'allow'

fsid=$(sed -n 's/^fsid = //p' "$conf")
monmaptool --create --fsid "$fsid" --addv a "[v2:127.0.0.1:$((port + 2)),v1:127.0.0.1:$((port + 3))]" monmap > /dev/null
ceph-mon -c "$conf" --mkfs -i a --monmap monmap --keyring keyring
ceph-mon -c "$conf" -i a
uuid=$(cat /proc/sys/kernel/random/uuid)
ceph_ osd new "$uuid" 0 > /dev/null
ceph-osd -c "$conf" -i 0 --mkfs --osd-uuid "$uuid" >> log/start.log 2>&1
ceph-osd -c "$conf" -i 0 >> log/start.log 2>&1
ceph_ osd crush add osd.0 1.0 root=default host=localhost > /dev/null
osd_is_up() { ceph_ osd stat -f json | grep -q '"num_up_osds":1'; }
wait_for 60 'the OSD' osd_is_up

radosgw -c "$conf" -n client.rgw >> log/start.log 2>&1
if [[ $cephfs == 1 ]]; then # while the gateway makes its pools
  mkdir -p mds mnt/a mnt/b
  ceph_ osd pool create fs_metadata 8 8 replicated > /dev/null
  ceph_ osd pool create fs_data 8 8 replicated > /dev/null
  ceph_ fs new kv fs_metadata fs_data > /dev/null
  ceph-mds -c "$conf" -i a >> log/start.log 2>&1
fi
wait_for 60 'the gateway' curl -s -o /dev/null --max-time 2 "http://127.0.0.1:$port/"
user() { # NAME ACCESS_KEY SECRET_KEY
  timeout 60 radosgw-admin -c "$conf" -n client.admin user create --uid="$1" --display-name="$1" --access-key="$2" \
    --secret-key="$3" > /dev/null 2>> log/start.log
}
access=$(random_text A-Z0-9 20) secret=$(random_text A-Za-z0-9 40)
other_access=$(random_text A-Z0-9 20) other_secret=$(random_text A-Za-z0-9 40)
user kv "$access" "$secret"
user other "$other_access" "$other_secret"
status=$(curl -s -o log/bucket -w '%{http_code}' --max-time 30 -X PUT --aws-sigv4 aws:amz:us-east-1:s3 \
  --user "$access:$secret" -H 'x-amz-content-sha256: UNSIGNED-PAYLOAD' "http://127.0.0.1:$port/$kBucket")
[[ $status == 200 ]] || fail "making the bucket: HTTP $status"

cat > env.new << ENV
export KV_OFFLOAD_S3_DIR=$DIR
export KV_OFFLOAD_TEST_S3_ENDPOINT=http://127.0.0.1:$port
export KV_OFFLOAD_TEST_S3_ENDPOINT_TLS=https://localhost:$((port + 1))
export KV_OFFLOAD_TEST_S3_CA_FILE=$DIR/ca.pem
export KV_OFFLOAD_TEST_S3_REGION=us-east-1
export KV_OFFLOAD_TEST_S3_BUCKET=$kBucket
export KV_OFFLOAD_TEST_S3_ACCESS_KEY=$access
export KV_OFFLOAD_TEST_S3_SECRET_KEY=$secret
export KV_OFFLOAD_TEST_S3_OTHER_ACCESS_KEY=$other_access
export KV_OFFLOAD_TEST_S3_OTHER_SECRET_KEY=$other_secret
ENV
if [[ $cephfs == 1 ]]; then
  mds_is_active() { ceph_ mds stat | grep -q 'up:active'; }
  wait_for 60 'the metadata server' mds_is_active
  for mount in a b; do
    timeout 60 ceph-fuse -c "$conf" -n client.fs --pid-file="$DIR/run/fuse.$mount.pid" "$DIR/mnt/$mount" >> log/start.log 2>&1
    wait_for 20 "mount $mount" is_mounted "$mount"
    echo "export KV_OFFLOAD_TEST_SHARED_DIR_${mount^^}=$DIR/mnt/$mount" >> env.new
  done
fi
mv env.new env
trap - EXIT
cat env
