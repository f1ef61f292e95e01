#!/bin/sh
# bare.sh make FOLDER [RELEASE]: makes a bare Debian system of RELEASE (such as bookworm, the default, trixie, or Ubuntu's
# noble) with debootstrap, or from ~/.cache/tpx-fresh, where it keeps its downloads.
# bare.sh enter FOLDER COMMAND...: runs the command in such a system; when it ends, all its processes and mounts end.
# If TPX_COMPILER_CACHE is the cache folder of ccache, builds of tpx in the system use this cache.
# Both need root.
set -eu
export cache="${XDG_CACHE_HOME:-$HOME/.cache}/tpx-fresh"

make_system() {
    system=$1 release=${2-bookworm} as=
    # The mirror that this machine uses; its list of sources can have the old or the new format.
    mirror=$(sed -n 's/^\(deb [^#]*\|URIs:.*\)\(https\{0,1\}:[^ ]*\).*/\2/p' /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
        grep '/debian/\{0,1\}$' | head -n 1)
    mirror=${mirror:-http://deb.debian.org/debian}
    parts=main
    case $release in
    jammy | noble) mirror=${UBUNTU_MIRROR:-http://archive.ubuntu.com/ubuntu} parts="main universe" as=gutsy ;;
    esac

    mkdir -p "$cache/archives/$release/partial"
    if [ -z "$(find "$cache/$release.tar" -mtime -30 2>/dev/null)" ]; then
        echo "bare: making a system of $release from $mirror"
        # Debian does not have Ubuntu's keys, so packages are not verified; the system is used only for trials.
        debootstrap --variant=minbase ${as:+--no-check-gpg --components=main,universe} "$release" "$system" "$mirror" $as \
            >"$cache/debootstrap.log" || { tail "$cache/debootstrap.log"; exit 1; }
        tar -C "$system" -cf "$cache/$release.tar.$$" . # other runs must not see half an archive
        mv "$cache/$release.tar.$$" "$cache/$release.tar"
    else
        tar -C "$system" -xf "$cache/$release.tar"
    fi
    chmod 755 "$system"
    trusted=
    [ -z "$as" ] || trusted="[trusted=yes] "
    echo "deb $trusted$mirror $release $parts" >"$system/etc/apt/sources.list"
    apt-config dump | grep -i '^Acquire::[a-z]*::Proxy' >"$system/etc/apt/apt.conf.d/90proxy" || :
    cp /etc/resolv.conf "$system/etc/resolv.conf"
    echo "$release" >"$system/etc/tpx-bare"
}

# The part of `enter` that runs in its own mount and process namespaces.
enter_system() {
    system=$1
    shift
    mount -t proc proc "$system/proc"
    mount -t sysfs -o ro sysfs "$system/sys"
    mount -t devpts -o newinstance,ptmxmode=0666 devpts "$system/dev/pts"
    ln -sf pts/ptmx "$system/dev/ptmx"
    mount -t tmpfs -o mode=1777 tmpfs "$system/dev/shm"
    mount --bind "$cache/archives/$(cat "$system/etc/tpx-bare")" "$system/var/cache/apt/archives"
    set -- chroot "$system" "$@"
    if [ "${TPX_COMPILER_CACHE-}" ]; then
        mkdir -p "$system/root/.cache/ccache"
        mount --bind "$TPX_COMPILER_CACHE" "$system/root/.cache/ccache"
        # The same flags as in builds with tests, so that the cache has their results.
        set -- CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache CXXFLAGS=-Werror \
            CCACHE_BASEDIR=/root/tpx CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=locale "$@"
    fi
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM="${TERM-dumb}" ${https_proxy:+https_proxy="$https_proxy"} \
        ${http_proxy:+http_proxy="$http_proxy"} "$@"
}

case ${1-} in
make | entered)
    what=$1
    shift
    if [ "$what" = make ]; then make_system "$@"; else enter_system "$@"; fi
    ;;
enter)
    shift
    exec unshare --mount --pid --fork --kill-child sh "$0" entered "$@"
    ;;
*)
    echo "usage: bare.sh make FOLDER [RELEASE] | bare.sh enter FOLDER COMMAND..." >&2
    exit 2
    ;;
esac
