# Shared by s3_store.sh, swift_store.sh and tls_proxy.sh. Sourced, never run.
# Before: NAME (of the script), VARIABLE (that may name the directory), PACKAGES, and SESSION=1 where each thing started
# leads a session of its own. After: DIR, COMMAND, and in ARGS what is left of the arguments.
set -euo pipefail

fail() {
  echo "$NAME: $*" >&2
  if [[ -n ${made_dir:-} ]]; then rmdir "$made_dir" 2> /dev/null || true; fi
  exit 1
}

COMMAND=${1:-}
shift || true
DIR=${!VARIABLE:-}
ARGS=()
while [[ $# -gt 0 ]]; do
  case $1 in
    --dir) [[ $# -gt 1 ]] || fail '--dir needs a directory'; DIR=$2; shift 2 ;;
    *) ARGS+=("$1"); shift ;;
  esac
done
case $COMMAND in
  install | start | stop | status | env) ;;
  *) sed -n '/^# Usage/,/^#$/{s/^# \{0,1\}//;p}' "$0" >&2; exit 2 ;;
esac
if [[ $COMMAND == install ]]; then
  as_root=()
  [[ $(id -u) == 0 ]] || as_root=(sudo)
  # shellcheck disable=SC2086
  exec "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120 install --yes \
    --no-install-recommends $PACKAGES
fi
if [[ -z $DIR ]]; then
  [[ $COMMAND == start ]] || fail "which one? Set $VARIABLE or give --dir, as \`start\` printed it"
  DIR=$(mktemp -d "${TMPDIR:-/tmp}/$NAME.XXXXXX")
  made_dir=$DIR
fi
if [[ $COMMAND == start ]]; then mkdir -p "$DIR" 2> /dev/null || fail "cannot make $DIR"; fi
DIR=$(realpath -m "$DIR")

need() { # PROGRAM PACKAGE
  command -v "$1" > /dev/null || fail "$1 is missing: install $2 (or all: $0 install)"
}
# The process of a pid file, if it is still the one that was started: its command line names our directory.
pid_of() { # FILE
  local pid
  pid=$(cat "$1" 2> /dev/null) || return 1
  [[ -n $pid ]] && tr '\0' ' ' 2> /dev/null < "/proc/$pid/cmdline" | grep -qF -- "$DIR/" && echo "$pid"
}
# Also with SESSION=1, where it may have children of its session: any of them that is left.
left_of() { # FILE
  local pid
  if [[ -z ${SESSION:-} ]]; then
    pid_of "$1"
  elif pid=$(cat "$1" 2> /dev/null) && pgrep -s "$pid" -f -- "$DIR/" > /dev/null; then
    echo "$pid"
  else
    return 1
  fi
}
# All of them together: TERM, and KILL to what has not ended 5 s later.
end() { # PID_FILE...
  local file pid left
  for file in "$@"; do
    if pid=$(left_of "$file"); then signal TERM "$pid"; fi
  done
  for _ in $(seq 100); do
    left=0
    for file in "$@"; do if left_of "$file" > /dev/null; then left=1; fi; done
    ((left)) || break
    sleep 0.05
  done
  for file in "$@"; do
    if pid=$(left_of "$file"); then signal KILL "$pid"; fi
    rm -f "$file"
  done
}
signal() { # NAME PID
  kill -"$1" -- ${SESSION:+-}"$2" 2> /dev/null || true
}
port_is_taken() {
  (exec 3<> "/dev/tcp/127.0.0.1/$1") 2> /dev/null
}
# A port from which on COUNT ports are free, below those that the kernel gives to clients.
free_ports() { # COUNT
  local port i
  for _ in $(seq 50); do
    port=$((20000 + RANDOM % 12000))
    for ((i = 0; i < $1; ++i)); do
      if port_is_taken $((port + i)); then continue 2; fi
    done
    echo "$port"
    return
  done
  fail "found no $1 free ports in a row"
}
# wait_for SECONDS WHAT COMMAND...
wait_for() {
  local end=$((SECONDS + $1)) what=$2
  shift 2
  until "$@" > /dev/null 2>&1; do
    ((SECONDS < end)) || fail "$what does not answer; logs are in $DIR"
    sleep 0.05
  done
}
random_text() { # CHARACTERS COUNT
  LC_ALL=C tr -dc "$1" < /dev/urandom 2> /dev/null | head -c "$2" || true
}
remove_dir() { # only what start made: it left its mark
  if [[ -e $DIR/.kv_offload_store ]]; then rm -rf --one-file-system "${DIR:?}"; fi
}
# A start that fails says why, and leaves nothing behind.
ends_cleanly() { # STOP_FUNCTION LOGS...
  local status=$? stop=$1
  shift
  trap - EXIT
  ((status == 0)) && exit 0
  tail -qn 5 "$@" >&2 2> /dev/null || true
  "$stop" || true
  exit "$status"
}

# -- Certificates ------------------------------------------------------------------------------------------------
new_ca() { # -> ca.key, ca.pem
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj '/CN=kv_offload test CA' \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign \
    -keyout ca.key -out ca.pem 2> /dev/null
}
new_request() { # NAME -> NAME.key, NAME.csr
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$1" -keyout "$1.key" -out "$1.csr" 2> /dev/null
}
new_certificate() { # NAME SUBJECT_ALT_NAME -> NAME.key, NAME.crt, NAME.pem (both)
  new_request "$1"
  printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth\n' "$2" > "$1.ext"
  openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -days 30 -extfile "$1.ext" -out "$1.crt" 2> /dev/null
  cat "$1.crt" "$1.key" > "$1.pem"
}
