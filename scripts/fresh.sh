#!/bin/sh
# fresh.sh [--test]: shows on a bare Debian 12 that scripts/demo.sh, and with --test scripts/test.sh too, need
# nothing but a clone: makes the system with debootstrap, clones HEAD into it, runs the script there as root.
# Needs root (or sudo). What was downloaded is kept in ~/.cache/tpx-fresh, so that the next run is quick.
set -eu

# The half that runs in its own mount and process namespaces: when it ends, nothing of it is left mounted or running.
if [ "${1-}" = --inside ]; then
    system=$2
    shift 2
    mount -t proc proc "$system/proc"
    mount -t sysfs -o ro sysfs "$system/sys"
    mount -t devpts -o newinstance,ptmxmode=0666 devpts "$system/dev/pts"
    ln -sf pts/ptmx "$system/dev/ptmx"
    mount -t tmpfs -o mode=1777 tmpfs "$system/dev/shm"
    mount --bind "$cache/archives" "$system/var/cache/apt/archives"
    for script; do
        echo "fresh: scripts/$script.sh in a bare Debian $(cat "$system/etc/debian_version")"
        env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM="${TERM-dumb}" ${https_proxy:+https_proxy="$https_proxy"} \
            ${http_proxy:+http_proxy="$http_proxy"} chroot "$system" sh /root/tpx/scripts/"$script".sh
    done
    exit
fi

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

export cache="${XDG_CACHE_HOME:-$HOME/.cache}/tpx-fresh"
system=$(mktemp -d)
chmod 755 "$system"
trap 'rm -rf --one-file-system "$system"' EXIT
trap 'exit 130' INT TERM

# The mirror that this machine uses, whether its list has the old form or the new.
mirror=$(sed -n 's/^\(deb [^#]*\|URIs:.*\)\(https\{0,1\}:[^ ]*\).*/\2/p' /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
    grep '/debian/\{0,1\}$' | head -n 1)
mirror=${mirror:-http://deb.debian.org/debian}

mkdir -p "$cache/archives/partial"
if [ -z "$(find "$cache/bookworm.tar" -mtime -30 2>/dev/null)" ]; then
    echo "fresh: making a bare system from $mirror"
    debootstrap --variant=minbase bookworm "$system" "$mirror" >"$cache/debootstrap.log" || { tail "$cache/debootstrap.log"; exit 1; }
    tar -C "$system" -cf "$cache/bookworm.tar" .
else
    tar -C "$system" -xf "$cache/bookworm.tar"
fi
echo "deb $mirror bookworm main" >"$system/etc/apt/sources.list"
apt-config dump | grep -i '^Acquire::[a-z]*::Proxy' >"$system/etc/apt/apt.conf.d/90proxy" || :
cp /etc/resolv.conf "$system/etc/resolv.conf"
git clone -q --no-hardlinks . "$system/root/tpx"

# shellcheck disable=SC2086 # one word a script
unshare --mount --pid --fork --kill-child sh scripts/fresh.sh --inside "$system" $scripts
echo "fresh: done"
