#!/bin/sh
# compile.sh SOURCE_DIR: nvcc compiles the kernels for each architecture, and the object has each kernel for each of them
# and as PTX. Skipped (77) where neither nvcc and cuobjdump nor PyPI are there.
set -eu
cd "$1"
venv=${TPX_NVCC_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/tpx-nvcc}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
if ! { command -v nvcc && command -v cuobjdump; } >/dev/null; then
    timeout 300 sh scripts/nvcc-venv.sh >"$out/log" 2>&1 || { cat "$out/log"; echo "skipped: no nvcc and cuobjdump here, and PyPI does not give them"; exit 77; }
    PATH=$(echo "$venv"/lib/python3*/site-packages/nvidia/cu13/bin):$PATH
fi

# has WHAT KERNEL: the kernel is in the listing of WHAT.
has() { grep -q "$2" "$out/$1" || { echo "compile: no $2 for $1"; exit 1; }; }

for source in lib/exec/cuda/*.cu; do
    nvcc --options-file lib/exec/cuda/nvcc.options -I. -c -o "$out/kernels.o" "$source"
    kernels=$(sed -n 's/^__global__.* \(tpx_[a-z_]*\)(.*/\1/p' "$source")
    [ -n "$kernels" ] || { echo "compile: no kernel in $source"; exit 1; }
    for arch in sm_80 sm_90 sm_100; do
        cuobjdump -arch $arch -symbols "$out/kernels.o" >"$out/$arch"
        for kernel in $kernels; do has $arch "STO_ENTRY.*$kernel"; done
    done
    cuobjdump -ptx "$out/kernels.o" >"$out/compute_80"
    has compute_80 'arch = sm_80'
    for kernel in $kernels; do has compute_80 "\.entry $kernel"; done
done
echo "compile: $(nvcc --version | sed -n 's/.*release \([^,]*\),.*/nvcc \1/p'): $(echo "$kernels" | wc -l) kernels for sm_80, sm_90, sm_100 and PTX"
