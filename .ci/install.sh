#!/usr/bin/env bash
# Installs those packages of .ci/packages.txt that are missing: install.sh GROUP... (none: all groups).
# Touches neither network nor system when nothing is missing.
set -euo pipefail
list=$(dirname "${BASH_SOURCE[0]}")/packages.txt

wanted=$(awk -v groups=" $* " '/^[a-z]/ && (groups == "  " || index(groups, " " $2 " ")) { print $1 }' "$list")
missing=()
for package in $wanted; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ $status == installed ]] || missing+=("$package")
done
[[ ${#missing[@]} -gt 0 ]] || exit 0

fail() {
  echo "install.sh: $1; by hand: apt-get install ${missing[*]}" >&2
  exit 1
}
command -v apt-get > /dev/null || fail "this is not a Debian system"
as_root=()
if [[ $(id -u) != 0 ]]; then
  command -v sudo > /dev/null || fail "installing packages needs root, and sudo is not there"
  as_root=(sudo)
fi
echo "Installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt=("${as_root[@]}" apt-get -qq -o DPkg::Lock::Timeout=120 -o Acquire::Retries=3)
"${apt[@]}" update || fail "the package lists could not be fetched"
"${apt[@]}" install --yes --no-install-recommends "${missing[@]}" > /dev/null || fail "the packages could not be installed"
