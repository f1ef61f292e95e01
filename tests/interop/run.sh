#!/bin/sh
# run.sh TPX FORMAT: loads the output of TPX in FORMAT with the framework of that format. Exits with 77 (skipped)
# without the frameworks.
set -u
cd "$(dirname "$0")" || exit 1
tpx=$1
format=$2
for venv in "${TPX_INTEROP_VENV-}" "${XDG_CACHE_HOME:-${HOME-}/.cache}/tpx-interop"; do
    [ -x "$venv/bin/python" ] && break
done
[ -x "$venv/bin/python" ] || {
    echo "skipped: the Python frameworks are missing; scripts/interop-venv.sh installs them"
    exit 77
}
# shellcheck source=mpi-env.sh
. ../../scripts/mpi-env.sh
export HF_HUB_OFFLINE=1 GLOO_SOCKET_IFNAME=lo OMP_NUM_THREADS=1 TQDM_DISABLE=1 PYTHONDONTWRITEBYTECODE=1
# Compilation of functions at their first call would take longer than these tests, and look for a GPU.
export TORCH_COMPILE_DISABLE=1
export LD_LIBRARY_PATH="${CUDA_HOME:-/usr/local/cuda}/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
exec "$venv/bin/python" run.py "$tpx" "$format"
