#!/bin/sh
# fresh.sh [--test]: shows on a bare Debian 12 that scripts/demo.sh, and with --test scripts/test.sh too, need
# nothing but a clone: makes the system with debootstrap, clones HEAD into it, runs the script there as root.
# Needs root (or sudo). What was downloaded is kept in ~/.cache/tpx-fresh, so that the next run is quick.
set -eu

scripts=demo
for argument; do
    case $argument in
    --test) scripts="demo test" ;;
    *) echo "usage: fresh.sh [--test]" >&2; exit 2 ;;
    esac
done

cd "$(dirname "$0")/.."
if [ "$(id -u)" -ne 0 ]; then
    exec sudo --preserve-env=http_proxy,https_proxy,TMPDIR sh scripts/fresh.sh "$@"
fi
sh scripts/setup.sh fresh
[ -z "$(git status --porcelain)" ] || echo "fresh: what is not committed is not in the clone"

system=$(mktemp -d)
trap 'rm -rf --one-file-system "$system"' EXIT
trap 'exit 130' INT TERM
sh scripts/bare.sh make "$system"
git clone -q --no-hardlinks . "$system/root/tpx"
for script in $scripts; do
    echo "fresh: scripts/$script.sh in a bare Debian $(cat "$system/etc/debian_version")"
    sh scripts/bare.sh enter "$system" sh "/root/tpx/scripts/$script.sh"
done
echo "fresh: done"
