#!/bin/sh
# nvcc-venv.sh: installs NVIDIA's compiler and cuobjdump for the test gpu.compile, if they are missing, into
# $TPX_NVCC_VENV, by default ~/.cache/tpx-nvcc. Downloads 150 MB of wheels from PyPI; needs no driver and no GPU.
set -eu
venv=${TPX_NVCC_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/tpx-nvcc}

[ ! -e "$venv/complete-1" ] || exit 0
python3 -c "import venv" || {
    echo "nvcc-venv: needs Python with its venv module (Debian: python3-venv)" >&2
    exit 1
}
echo "nvcc-venv: making $venv"
python3 -m venv "$venv"
"$venv/bin/python" -m pip install --no-compile --quiet --disable-pip-version-check nvidia-cuda-nvcc==13.0.88 \
    nvidia-cuda-crt==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-runtime==13.0.96 nvidia-cuda-cccl==13.0.85 \
    nvidia-cuda-cuobjdump==13.4.92 >"$venv/log" 2>&1 || {
    cat "$venv/log"
    exit 1
}
touch "$venv/complete-1"
