#!/bin/sh
# real_hosts.sh TPX TESTDATA [GIB]: on a real GPU, two processes that act as hosts move state between memory of GPUs, by MPI and pinned
# memory, and by NCCL if the machine has two GPUs; tpx verify compares the result with the checkpoint. With GIB, the state is a
# checkpoint of that size, and the last line is a JSON list of what moved, and in which time. Skipped (77) where CUDA can use no GPU.
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
        for name in old new back; do on $host --release $name >"$RUN/log" 2>&1 || true; done
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
hold() { "$RUN/as-host" "$1" "$tpx" hold "$ckpt" --name old --to fsdp=2 --ranks "$1" --rank-gpus 0 --device cuda --timeout none --quiet; }
if ! hold 0 2>"$RUN/said"; then
    grep -q -e 'no GPU' -e 'without CUDA' "$RUN/said" && { echo "skipped: no GPU that CUDA can use, or a build without CUDA"; exit 77; }
    cat "$RUN/said"
    exit 1
fi
hold 1
both() { mpirun -n 2 "$RUN/as-host" rank "$tpx" hold "$@" --rank-gpus 0 --device cuda --timeout none --json; }
transports=mpi
[ "$gpus" -lt 2 ] || transports="mpi nccl"
moved=
for transport in $transports; do
    both hold:old --name new --to tp=2 --transport "$transport" >"$RUN/told"
    both hold:new --name back --to tp=1 --transport "$transport" >"$RUN/back"
    "$RUN/as-host" 0 "$tpx" verify "$ckpt" hold:back
    for host in 0 1; do on $host --release new >"$RUN/log"; done
    on 0 --release back >"$RUN/log"
    moved=$moved${moved:+,}$(python3 -c 'import json, sys; told = json.load(open(sys.argv[1])); print(json.dumps({**told["between_hosts"], "seconds": told["seconds"]}))' "$RUN/told")
done
echo "[$moved]"
