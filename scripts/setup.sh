#!/bin/sh
# setup.sh [SCRIPT...]: installs the missing packages of packages.txt, including those that the named scripts need.
set -eu
cd "$(dirname "$0")"

wanted=$(awk -v scripts=" $* " '!/^#/ && NF && (NF == 1 || index(scripts, " " $2 " ")) { print $1 }' packages.txt)

# shellcheck disable=SC2086 # one word per package
missing=$(
    {
        dpkg-query --show --showformat='${db:Status-Abbrev} ${Package}\n' $wanted 2>/dev/null || :
        printf 'wanted %s\n' $wanted
    } | awk '$1 == "ii" { have[$2] = 1 } $1 == "wanted" && !have[$2] { printf "%s ", $2 }'
)
[ -n "$missing" ] || exit 0

as_root=
if [ "$(id -u)" -ne 0 ]; then
    as_root=sudo
    if ! command -v sudo >/dev/null; then
        echo "setup: not root, and no sudo; these packages are missing: $missing" >&2
        exit 1
    fi
fi

echo "setup: installing $missing"
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get update -qq
# shellcheck disable=SC2086 # one word per package
$as_root apt-get install -y -qq -o Dpkg::Use-Pty=0 --no-install-recommends $missing >/dev/null
