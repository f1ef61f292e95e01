#!/bin/sh
# try.sh RELEASE FILE...: installs packages of tpx (.deb files, or a wheel) in a bare system of RELEASE: bookworm, trixie, noble
# or jammy. Then reshards a real checkpoint with eight threads, with two processes of the system's Open MPI and, if the package
# has a plug-in for it, of MPICH. Prints the time from the start of the installation to the first result. Needs root (or sudo).
set -eu
if [ "$(id -u)" -ne 0 ]; then
    exec sudo --preserve-env=http_proxy,https_proxy,TMPDIR,UBUNTU_MIRROR,XDG_CACHE_HOME sh "$0" "$@"
fi
release=$1
shift
here=$(cd "$(dirname "$0")/../.." && pwd)
sh "$here/scripts/setup.sh" fresh
system=$(mktemp -d)
trap 'rm -rf --one-file-system "$system"' EXIT
trap 'exit 130' INT TERM
sh "$here/scripts/bare.sh" make "$system" "$release"
mkdir "$system/root/packages"
cp "$@" "$system/root/packages"
cp -R "$here/testdata/llama-small/megatron-tp2pp2" "$system/root/ckpt"
cp "$here/scripts/mpi-env.sh" "$system/root"
cat >"$system/root/install.sh" <<'END'
set -eu
cd /root
export DEBIAN_FRONTEND=noninteractive
install="apt-get install -y -qq -o Dpkg::Use-Pty=0 --no-install-recommends"
apt-get update -qq
case $(ls packages) in
*.whl)
    $install python3-venv >/dev/null
    begin=$(date +%s.%N)
    python3 -m venv env
    env/bin/pip install -q --disable-pip-version-check packages/*.whl
    PATH=/root/env/bin:$PATH
    ;;
*)
    begin=$(date +%s.%N)
    $install ./packages/*.deb >/dev/null
    for file in doc/tpx/copyright man/man1/tpx.1.gz tpx/schemas/inspect-1.json; do
        [ -e "/usr/share/$file" ] || { echo "try: /usr/share/$file is missing"; exit 1; }
    done
    ;;
esac
tpx --version
tpx reshard ckpt tp4 --to tp=4 --threads 8
echo "try: first result after $(echo "$(date +%s.%N) $begin" | awk '{ printf "%.1f", $1 - $2 }') s"
tpx verify ckpt tp4
[ ! -e env ] || env/bin/python -c 'import tpx; print(tpx.reshard("ckpt", "pp4", to="pp=4", threads=8)["layout"]["text"])'
$install openmpi-bin >/dev/null
. /root/mpi-env.sh
mpirun.openmpi -n 2 tpx reshard ckpt tp1 --to tp=1
# With MPICH 4.2.0 of Ubuntu 24.04, each process is a job of its own.
if [ -e env/lib/tpx/libtpx-mpi-mpich.so ] && [ "$(cat /etc/tpx-bare)" != noble ]; then
    $install mpich >/dev/null
    mpirun.mpich -n 2 tpx reshard ckpt pp2 --to pp=2
fi
END
sh "$here/scripts/bare.sh" enter "$system" sh /root/install.sh
