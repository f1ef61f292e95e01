#!/bin/sh
# handover.sh TPX CUDART: runs handover.py with PyTorch. Exit 77: no PyTorch here.
set -u
for venv in "${TPX_INTEROP_VENV-}" "${XDG_CACHE_HOME:-${HOME-}/.cache}/tpx-interop"; do
    [ -x "$venv/bin/python" ] && break
done
[ -x "$venv/bin/python" ] || {
    echo "skipped: the Python frameworks are not here; scripts/interop-venv.sh installs them"
    exit 77
}
export OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1 TORCH_COMPILE_DISABLE=1
export LD_LIBRARY_PATH="${CUDA_HOME:-/usr/local/cuda}/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
exec "$venv/bin/python" -W ignore "$(dirname "$0")/handover.py" "$@"
