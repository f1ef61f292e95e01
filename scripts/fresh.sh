#!/bin/sh
# fresh.sh [--test] [--package]: checks that scripts/demo.sh, and with --test also scripts/test.sh, need only a clone on a bare
# Debian 12: makes the system with debootstrap, clones HEAD into it, and runs the scripts there as root. With --package, it
# also builds the rest of tpx and Debian packages, and tries these in another bare system.
# Needs root (or sudo). Downloads are kept in ~/.cache/tpx-fresh, so that the next run is quick. Sources that ccache
# knows from an earlier build are not compiled again.
set -eu

scripts=demo package=
for argument; do
    case $argument in
    --test) scripts="demo test" ;;
    --package) package=yes ;;
    *) echo "usage: fresh.sh [--test] [--package]" >&2; exit 2 ;;
    esac
done

cd "$(dirname "$0")/.."
if [ "$(id -u)" -ne 0 ]; then
    exec sudo --preserve-env=http_proxy,https_proxy,TMPDIR,XDG_CACHE_HOME sh scripts/fresh.sh "$@"
fi
sh scripts/setup.sh fresh
[ -z "$(git status --porcelain)" ] || echo "fresh: what is not committed is not in the clone"

system=$(mktemp -d)
trap 'rm -rf --one-file-system "$system"' EXIT
trap 'exit 130' INT TERM
sh scripts/bare.sh make "$system"
git clone -q --no-hardlinks . "$system/root/tpx"
if command -v ccache >/dev/null; then
    sh scripts/bare.sh enter "$system" sh -ec 'apt-get update -qq; apt-get install -y -qq --no-install-recommends ccache >/dev/null'
    TPX_COMPILER_CACHE=$(ccache --get-config cache_dir)
    export TPX_COMPILER_CACHE
fi
for script in $scripts; do
    echo "fresh: scripts/$script.sh in a bare Debian $(cat "$system/etc/debian_version")"
    sh scripts/bare.sh enter "$system" sh "/root/tpx/scripts/$script.sh"
done
if [ "$package" ]; then
    echo "fresh: scripts/package/deb.sh"
    sh scripts/bare.sh enter "$system" sh -ec 'cd /root/tpx
        sh scripts/setup.sh package
        cmake --build build/demo >build/rest.log || { cat build/rest.log; exit 1; }
        sh scripts/package/deb.sh build/demo'
    sh scripts/package/try.sh bookworm "$system"/root/tpx/build/demo/*.deb
fi
echo "fresh: done"
