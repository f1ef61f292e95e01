# shellcheck shell=sh
# Sourced by tests that need the Python frameworks: sets $venv to the folder of their environment. Exits with 77 (skipped)
# if it is missing.
for venv in "${TPX_INTEROP_VENV-}" "${XDG_CACHE_HOME:-${HOME-}/.cache}/tpx-interop"; do
    [ -x "$venv/bin/python" ] && break
done
[ -x "$venv/bin/python" ] || {
    echo "skipped: the Python frameworks are missing; scripts/interop-venv.sh installs them"
    exit 77
}
# Python keeps its bytecode, outside the source tree, so that it imports the frameworks in half the time.
unset PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX="$venv/bytecode"
# Compilation of functions at their first call would take longer than these tests, and look for a GPU.
export OMP_NUM_THREADS=1 TORCH_COMPILE_DISABLE=1 GLOO_SOCKET_IFNAME=lo HF_HUB_OFFLINE=1 TQDM_DISABLE=1
export LD_LIBRARY_PATH="${CUDA_HOME:-/usr/local/cuda}/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
