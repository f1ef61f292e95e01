#!/bin/sh
# real_hosts.sh TPX TESTDATA [GIB]: on real GPUs, two processes that act as hosts move state between GPU memory, by MPI and pinned memory,
# and by NCCL if the machine has two GPUs; tpx verify compares the result with the checkpoint. With GIB, the state is a
# checkpoint of that size, and the last line is a JSON list of what moved and how long it took. Skipped (77) if CUDA can use no GPU.
set -eu
tpx=$1 testdata=$2 gib=${3:-}
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=scripts/mpi-env.sh
. "$here/../../scripts/mpi-env.sh"
RUN=$(mktemp -d)
export RUN
mkdir -m 700 "$RUN/0" "$RUN/1"
on() { XDG_RUNTIME_DIR=$RUN/$1 "$tpx" hold "$2" "$3"; }
# shellcheck disable=SC2317 # called by a trap
end() {
    for host in 0 1; do
        for name in first old new back; do on $host --release $name >"$RUN/log" 2>&1 || true; done
    done
    rm -rf "$RUN"
}
trap end EXIT
gpus=$(nvidia-smi --query-gpu=index --format=csv,noheader 2>/dev/null | wc -l)
# Each host sees one GPU, which is a GPU of its own if there are two.
cat >"$RUN/as-host" <<'END'
#!/bin/sh
host=$1
shift
[ "$host" != rank ] || host=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}
export XDG_RUNTIME_DIR=$RUN/$host
[ "$GPUS" -lt 2 ] || export CUDA_VISIBLE_DEVICES=$host
[ "$1" != swap ] || { shift && set -- "$@" --ranks $((1 - host)); }
exec "$@"
END
chmod +x "$RUN/as-host"
export GPUS="$gpus"
ckpt=$testdata/dcp/fsdp2-tp2
if [ -n "$gib" ]; then
    ckpt=$RUN/ckpt
    mkdir "$ckpt"
    python3 - "$ckpt/model.safetensors" "$gib" <<'END'
import json, os, sys
tensors, rows = 32, int(float(sys.argv[2]) * 2**30) // 32 // 2 // 8192
size = rows * 8192 * 2
header = json.dumps({f"w{k}": {"dtype": "BF16", "shape": [rows, 8192], "data_offsets": [k * size, (k + 1) * size]} for k in range(tensors)}).encode()
with open(sys.argv[1], "wb") as file:
    file.write(len(header).to_bytes(8, "little") + header)
    for _ in range(tensors):
        file.write(os.urandom(1 << 20) * (size >> 20) + bytes(size % (1 << 20)))
END
fi
if ! "$RUN/as-host" 0 "$tpx" hold "$ckpt" --name first --to fsdp=2 --rank-gpus 0 --device cuda --timeout none --quiet 2>"$RUN/said"; then
    grep -q -e 'no GPU' -e 'without CUDA' "$RUN/said" && { echo "skipped: no GPU that CUDA can use, or a build without CUDA"; exit 77; }
    cat "$RUN/said"
    exit 1
fi
# both NAME OPTION...: both hosts hold hold:NAME as the options say; with SWAP=swap, each gets the rank of the other one.
SWAP=
both() { mpirun -n 2 "$RUN/as-host" rank ${SWAP:+"$SWAP"} "$tpx" hold "$@" --rank-gpus 0 --device cuda --timeout none --json; }
both hold:first --name old --to fsdp=2 >"$RUN/told"
on 0 --release first >"$RUN/log"
transports=mpi
[ "$gpus" -lt 2 ] || transports="mpi nccl"
moved=
for transport in $transports; do
    SWAP=swap both hold:old --name new --to fsdp=2 --transport "$transport" >"$RUN/told"
    both hold:new --name back --to fsdp=1 --transport "$transport" >"$RUN/back"
    "$RUN/as-host" 0 "$tpx" verify "$ckpt" hold:back
    for host in 0 1; do on $host --release new >"$RUN/log"; done
    on 0 --release back >"$RUN/log"
    moved=$moved${moved:+,}$(python3 -c 'import json, sys; told = json.load(open(sys.argv[1])); print(json.dumps({**told["between_hosts"], "seconds": told["seconds"]}))' "$RUN/told")
done
echo "[$moved]"
