#!/usr/bin/env bash
# Prints a folder that holds promtool, for the test that shows it the metrics page. The tool is taken out of Debian's
# package without installing it: that would start a Prometheus server.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
if found=$(command -v promtool); then
  dirname "$found"
  exit
fi
folder=$(kv_offload_cache)/promtool
if [[ ! -x $folder/promtool ]]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  (cd "$work" && apt-get -qq download prometheus 2> /dev/null && dpkg-deb -x prometheus_*.deb .)
  mkdir -p "$folder"
  mv "$work/usr/bin/promtool" "$folder/promtool.$$"
  mv "$folder/promtool.$$" "$folder/promtool"
fi
echo "$folder"
