#!/bin/sh
# run.sh TPX FORMAT: what TPX writes as FORMAT is loaded by the framework whose format it is. Exit 77: no frameworks here.
set -u
cd "$(dirname "$0")" || exit 1
tpx=$1
format=$2
for venv in "${TPX_INTEROP_VENV-}" "${XDG_CACHE_HOME:-${HOME-}/.cache}/tpx-interop"; do
    [ -x "$venv/bin/python" ] && break
done
[ -x "$venv/bin/python" ] || {
    echo "skipped: the Python frameworks are not here; scripts/interop-venv.sh installs them"
    exit 77
}
# shellcheck source=mpi-env.sh
. ../../scripts/mpi-env.sh
export HF_HUB_OFFLINE=1 GLOO_SOCKET_IFNAME=lo OMP_NUM_THREADS=1 TQDM_DISABLE=1 PYTHONDONTWRITEBYTECODE=1
# The frameworks compile functions when they are first called, which takes longer than these tests and looks for a GPU.
export TORCH_COMPILE_DISABLE=1
export LD_LIBRARY_PATH="${CUDA_HOME:-/usr/local/cuda}/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
exec "$venv/bin/python" run.py "$tpx" "$format"
