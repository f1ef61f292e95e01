#!/bin/sh
# interop-venv.sh: creates the Python environment in which the interop tests load checkpoints, if it does not exist, in
# $TPX_INTEROP_VENV, by default ~/.cache/tpx-interop. Needs Python 3.10 or later with venv, and PyPI. Downloads 2 GB if the
# machine has a CUDA 13 toolkit, and more if not, because torch then comes with its own CUDA libraries.
set -eu
venv=${TPX_INTEROP_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/tpx-interop}
cuda=${CUDA_HOME:-/usr/local/cuda}
torch=2.15.0
former=$venv/megatron-core-0.15  # the last release with the zarr backend, in addition to the current one

if [ -e "$venv/complete-5" ] && [ -e "$former/complete-1" ]; then
    exit 0
fi
python3 -c 'import sys, venv; sys.exit(sys.version_info < (3, 10))' || {
    echo "interop-venv: needs Python 3.10 or later with its venv module (Debian: python3-venv)" >&2
    exit 1
}

# fetch PIP-OPTION...: runs pip install. Its messages about packages that --no-deps omits are shown only if it fails. Without
# --no-compile, pip would compile thousands of modules that no test imports.
fetch() {
    "$venv/bin/python" -m pip install --no-compile --quiet --disable-pip-version-check "$@" >"$venv/log" 2>&1 || {
        cat "$venv/log"
        exit 1
    }
}

make_venv() {
    echo "interop-venv: making $venv"
    python3 -m venv "$venv"
    if [ -e "$cuda/lib64/libcublas.so.13" ]; then
        fetch --no-deps torch==$torch nvidia-cufile nvidia-cusparselt-cu13 nvidia-nvshmem-cu13==3.7.2 nvidia-nccl-cu13
    else
        fetch torch==$torch
    fi
    fetch numpy safetensors==0.8.0 typing_extensions filelock sympy networkx jinja2 fsspec packaging pyyaml setuptools \
        huggingface_hub tokenizers regex tqdm h5py keras==3.15.1
    fetch psutil pydantic hjson einops msgpack py-cpuinfo ninja
    fetch --no-deps compressed-tensors==0.20.0 gguf==0.19.0 loguru frozendict
    fetch --no-deps megatron-core==0.16.1 transformers==5.23.0 deepspeed==0.19.8
    fetch --no-deps peft==0.21.2 accelerate==1.15.0
    touch "$venv/complete-5"
}

[ -e "$venv/complete-5" ] || make_venv
fetch --no-deps --upgrade --target "$former" megatron-core==0.15.3 zarr==2.18.7 tensorstore==0.1.86 numcodecs==0.15.1 \
    asciitree fasteners ml_dtypes deprecated wrapt
touch "$former/complete-1"
