#!/bin/bash
# hold.sh TPX TESTDATA CUDART: tests tpx hold --device cuda with a fake CUDA runtime (CUDART), whose GPU memory is host memory: the held
# state equals the checkpoint on disk, each rank goes to one process, and every failure is reported and leaves nothing behind.
set -u
tpx=$1 testdata=$2 CUDART=$3
# shellcheck source=tests/gpu/holding.sh
. "$(dirname "$0")/holding.sh"
# shellcheck source=tests/cli/side_by_side.sh
. "$here/../cli/side_by_side.sh"

# The bits of the disk path, whoever reads them.
held() {
    runs "$tpx" hold ckpt --name host
    runs "$tpx" hold ckpt --name job --device cuda
    grep -q 'holds 4 ranks of tp=2,fsdp=2 (.*) on GPU 0, 1, 2, 3' out || fail "not on GPUs"
    runs "$tpx" hold --list
    for rank in 0 1 2 3; do grep -q "rank $rank: held on GPU $rank, " out || fail "rank $rank is not on GPU $rank"; done
    runs "$tpx" verify ckpt hold:job
    grep -q '^equal: 22 tensors and 2 values' out || fail "not equal"
    runs "$tpx" reshard ckpt disk --to tp=2
    runs "$tpx" reshard hold:job memory --to tp=2 --verify
    runs diff -r disk memory
    runs mpirun -n 3 "$tpx" reshard hold:job memory3 --to tp=2
    runs diff -r disk memory3
    runs "$tpx" hold hold:job --name next --to tp=2 --device cuda
    runs "$tpx" verify disk hold:next
    runs "$tpx" hold --release next
    # Nobody takes what is being read, and a copy for readers is freed when they end.
    pid=$("$tpx" hold --list --json | grep -o '"name":"job","process":[0-9]*\|"process":[0-9]*,[^{]*"name":"job"' | grep -o '[0-9]*' | head -1)
    [ -n "$pid" ] || pid=$(pids | tail -1)
    before=$(find "/proc/$pid/fd" -lname '/memfd:*' | wc -l)
    client read job 6 >read.out &
    for _ in $(seq 2400); do [ -s read.out ] && break; sleep 0.05; done
    [ "$(find "/proc/$pid/fd" -lname '/memfd:*' | wc -l)" -gt "$before" ] || fail "no copy for readers in process $pid"
    keeper_refuses "rank 1 is being read by process" take job 1
    wait $!
    for _ in $(seq 2400); do [ "$(find "/proc/$pid/fd" -lname '/memfd:*' | wc -l)" -eq "$before" ] && break; sleep 0.05; done
    [ "$(find "/proc/$pid/fd" -lname '/memfd:*' | wc -l)" -eq "$before" ] || fail "the copy for readers stays"
    # A trainer that is killed while it takes, and one that cannot open the memory, leave the rank to others.
    client die job 0 >out 2>err
    [ $? -eq 137 ] || fail "the client that takes rank 0 was not killed"
    FAKE_FAULT=cudaIpcOpenMemHandle keeper_refuses "cudaIpcOpenMemHandle: fake fault" take job 0
    for rank in 0 1 2 3; do
        runs client take job $rank
        mv out on_gpu
        runs client take host $rank
        diff on_gpu out || fail "rank $rank: other bits than from memory of the host"
    done
    goes "$XDG_RUNTIME_DIR/tpx/job.sock"
    nothing_left
}
# Exported state, resharded to GPUs: a trainer exports, and its successor takes, without the disk.
exported() {
    runs "$tpx" hold --name live --empty
    runs client put live none 0 2 7
    runs client put live none 1 2 7
    runs "$tpx" hold hold:live --name moved --to fsdp=1 --device cuda
    runs "$tpx" hold hold:live --name same --to fsdp=1
    runs client take moved 0
    mv out on_gpu
    runs client take same 0
    diff on_gpu out || fail "other bits from an export"
    keeper_refuses "the keeper has not allocated this memory of a GPU for the process" put live cuda
    runs "$tpx" hold --release live
    nothing_left
    # Exported to memory of a GPU: the same bits, from GPU to GPU, or through memory of the host.
    runs "$tpx" hold --name live --empty
    runs client put live gpu 0 2 7
    runs client put live gpu 1 2 7
    runs "$tpx" hold --list
    [ "$(grep -c 'held on GPU 1, .*, iteration 7' out)" -eq 2 ] || fail "the export is not on a GPU"
    runs "$tpx" hold hold:live --name moved --to fsdp=1 --device cuda
    grep -q 'from GPU to GPU' err || fail "the export was not copied from the GPU"
    runs "$tpx" hold hold:live --name through --to fsdp=1
    runs client take moved 0
    diff on_gpu out || fail "other bits from an export on a GPU"
    runs client take through 0
    diff on_gpu out || fail "other bits from an export on a GPU, through the host"
    runs "$tpx" reshard hold:live exported --to fsdp=1 --verify
    # What cannot be exported leaves the former export, and no memory.
    before=$(find "/proc/$(pids | tail -1)/fd" -lname '/memfd:*' | wc -l)
    keeper_refuses "rank 0: the memory of the GPU has 27 bytes instead of 28" put live gpu-size 0 2 8
    keeper_refuses "rank 0: tensor 'w' is not aligned to its elements (offset 2)" put live gpu-offset 0 2 8
    keeper_refuses "the keeper has not allocated this memory of a GPU for the process" put live gpu-other 0 2 8
    client put live gpu-dies 0 2 8 >out 2>err
    [ $? -eq 137 ] || fail "the client that exports to a GPU was not killed"
    runs "$tpx" verify exported hold:live
    [ "$(find "/proc/$(pids | tail -1)/fd" -lname '/memfd:*' | wc -l)" -eq "$before" ] || fail "memory of exports that failed is left"
    runs "$tpx" hold --release live
    runs env FAKE_MEMORY=20 "$tpx" hold --name live --empty
    keeper_refuses "GPU 1: 28 B do not fit: 20 B of 20 B are free" put live gpu 0 1 7
    runs "$tpx" hold --release live
    runs "$tpx" hold ckpt --name full
    keeper_refuses "the keeper holds a checkpoint; export to one started with --empty" put full gpu 0 1 7
    runs "$tpx" hold --release full
    nothing_left
}
# Ranks share GPUs only if that is asked for.
shared_gpus() {
    FAKE_GPUS=2
    refuses 1 "ckpt: 4 ranks but only 2 GPUs; assign GPUs with --rank-gpus, such as 0,0,1,1" "$tpx" hold ckpt --name job --device cuda
    runs "$tpx" hold ckpt --name job --device cuda --rank-gpus 0,0,1,1
    runs "$tpx" verify ckpt hold:job
    runs "$tpx" hold --release job
    runs "$tpx" hold ckpt --name job --device cuda --rank-gpus 1 --ranks 0,2 --json
    python3 -c 'import json; found = json.load(open("out")); assert found["gpus"] == [1, 1], found' || fail "--json"
    runs "$tpx" hold --list --json
    python3 -c 'import json; found = json.load(open("out")); assert [one["gpu"] for one in found["keepers"][0]["ranks"]] == [1, 1], found' || fail "--list --json"
    runs "$tpx" hold --release job
    refuses 1 "there is no GPU 2; CUDA finds 2 GPUs" "$tpx" hold ckpt --name job --device cuda --rank-gpus 2
    refuses 2 "--rank-gpus: 3 GPUs for 4 ranks; give one, or one for each rank" "$tpx" hold ckpt --name job --device cuda --rank-gpus 0,0,1
    refuses 2 "--rank-gpus: 'x' is not a list of GPUs" "$tpx" hold ckpt --name job --device cuda --rank-gpus x
    refuses 2 "--rank-gpus: requires --device cuda" "$tpx" hold nowhere --name job --rank-gpus 0
    nothing_left
}
# What does not fit is refused before anything is read; with auto, it is in memory of the host.
too_little() {
    refuses 1 "ckpt: GPU 0 (Fake GPU): " env FAKE_MEMORY=1000 "$tpx" hold ckpt --name job --device cuda
    grep -q 'rank 0 needs .*, but 1.00 kB of 1.00 kB are free' err || fail "no numbers"
    refuses 1 "ranks 0, 1, 2, 3 need " env FAKE_MEMORY=1000 "$tpx" hold ckpt --name job --device cuda --rank-gpus 0 --dry-run
    refuses 1 "no GPU: no CUDA-capable device is detected" env FAKE_GPUS=0 "$tpx" hold ckpt --name job --device cuda
    runs env FAKE_MEMORY=1000 "$tpx" hold ckpt --name job --device auto
    grep -q 'note: the state is held in host memory: GPU 0 (Fake GPU): rank 0 needs .*, but 1.00 kB of' err || fail "no note"
    runs client take job 0
    runs "$tpx" hold --release job
    runs env FAKE_GPUS=0 "$tpx" hold ckpt --name job --device auto
    grep -q 'note: the state is held in host memory: no GPU' err || fail "no note"
    runs "$tpx" hold --release job
    runs "$tpx" hold ckpt --name job --device auto
    grep -q 'on GPU 0, 1, 2, 3' out || fail "auto does not choose GPUs"
    runs "$tpx" hold --release job
    runs "$tpx" hold ckpt --name job --device cuda --dry-run
    grep -q 'would be held' out || fail "--dry-run"
    nothing_left
}
# Each call of CUDA that fails in the keeper: the command says so, and nothing is left.
failing_calls() {
    for call in cudaMalloc cudaMallocHost cudaMemcpyAsync cudaStreamSynchronize cudaIpcGetMemHandle; do
        refuses 1 "rank 0: GPU 0: $call: fake fault" env FAKE_FAULT=$call "$tpx" hold ckpt --name job --device cuda
        refuses 1 "rank 0: GPU 0: $call: fake fault" env FAKE_FAULT=$call "$tpx" hold ckpt --name job --device cuda --foreground
    done
    refuses 1 "no GPU: fake fault" env FAKE_FAULT=cudaGetDeviceCount "$tpx" hold ckpt --name job --device cuda
    refuses 1 "GPU 0: cudaMemGetInfo: fake fault" env FAKE_FAULT=cudaMemGetInfo "$tpx" hold ckpt --name job --device cuda
    # Another process took the memory since it was counted.
    refuses 1 "of 17.2 GB are free" env FAKE_FAULT=memory "$tpx" hold ckpt --name job --device cuda
    grep -q 'rank 0: GPU 0: .* do not fit: ' err || fail "no numbers"
    nothing_left
}
# Keepers that are killed, that end in time, and in the foreground.
ended() {
    runs "$tpx" hold ckpt --name killed --device cuda
    kill -9 "$(pids)"
    for _ in $(seq 2400); do [ -z "$(pids)" ] && break; sleep 0.05; done
    refuses 1 "hold:killed: the keeper was killed and its memory freed" "$tpx" verify ckpt hold:killed
    runs "$tpx" hold ckpt --name killed --device cuda --timeout 1
    goes "$XDG_RUNTIME_DIR/tpx/killed.sock"
    "$tpx" hold ckpt --name front --device cuda --foreground >out 2>err &
    front=$!
    for _ in $(seq 2400); do [ -s out ] && break; sleep 0.05; done
    runs "$tpx" verify ckpt hold:front
    for rank in 0 1 2 3; do runs client take front $rank; done
    wait $front || fail "--foreground: exit $?"
    nothing_left
}
# With --hold: what cannot be held is refused before anything is written, and what fails later is told.
after_reshard() {
    refuses 1 "2 ranks but only 1 GPU;" env FAKE_GPUS=1 "$tpx" reshard ckpt kept --to tp=2 --hold 60 --hold-device cuda
    refuses 1 "needs" env FAKE_MEMORY=10 mpirun -n 2 "$tpx" reshard ckpt kept --to tp=2 --hold 60 --hold-device cuda
    [ ! -e kept ] || fail "an output was written that cannot be held"
    refuses 2 "--hold-device: requires --hold SECONDS" "$tpx" reshard ckpt kept --to tp=2 --hold-device cuda
    refuses 4 "cudaMalloc: fake fault; kept is complete and in place" env FAKE_FAULT=cudaMalloc "$tpx" reshard ckpt kept --to tp=2 --hold 60 --hold-device cuda
    runs mpirun -n 2 "$tpx" reshard ckpt kept2 --to tp=2 --hold 60 --hold-device cuda
    runs "$tpx" hold --list
    grep -q 'rank 1: held on GPU 1' out || fail "not on a GPU"
    runs "$tpx" verify kept2 hold:kept2
    runs "$tpx" hold --release kept2
    mkdir from && cp -R ckpt from/host0 && cp -R ckpt from/host1 || exit 1
    refuses 1 "but 100 B of 100 B are free" env FAKE_MEMORY=100 mpirun -n 2 "$tpx" migrate 'from/{host}' 'to/{host}' --emulate --hosts 2x2 --to tp=4 --hold 60 --hold-name 'state-{host}' --hold-device cuda
    grep -q 'GPU 0 (Fake GPU): rank [02] needs ' err || fail "migrate: no numbers"
    refuses 1 "there is no GPU 1; CUDA finds 1 GPU" env FAKE_GPUS=1 mpirun -n 2 "$tpx" migrate 'from/{host}' 'to/{host}' --emulate --hosts 2x2 --to tp=4 --hold 60 --hold-name 'state-{host}' --hold-device cuda
    refuses 1 "but 100 B of 100 B are free" env FAKE_MEMORY=100 mpirun -n 2 "$tpx" migrate --store 'stores/{host}' --import ckpt --iteration 7 --emulate --hosts 2x2 --to tp=4 --hold 60 --hold-name 'state-{host}' --hold-device cuda
    [ ! -e to ] || fail "migrate: an output was written that cannot be held"
    runs mpirun -n 2 "$tpx" migrate 'from/{host}' 'to/{host}' --emulate --hosts 2x2 --to tp=4 --hold 60 --hold-name 'state-{host}' --hold-device cuda
    runs "$tpx" hold --list
    [ "$(grep -c 'held on GPU [01], ' out)" -eq 4 ] || fail "migrate: not on GPUs"
    runs "$tpx" hold ckpt --name whole --to tp=4
    for rank in 0 1 2 3; do
        runs client take "state-host$((rank / 2))" $rank
        mv out on_gpu
        runs client take whole $rank
        diff on_gpu out || fail "migrate: rank $rank has other bits"
    done
    goes "$XDG_RUNTIME_DIR/tpx/whole.sock"
    nothing_left
}
# The tensors are in memory of the GPU alone.
on_gpu_only() {
    python3 - <<'PY' || fail "no checkpoint"
import json, os
size = 8 << 20
header = json.dumps({"w": {"dtype": "BF16", "shape": [size // 2], "data_offsets": [0, size]}}).encode()
os.mkdir("large")
with open("large/model.safetensors", "wb") as file:
    file.write(len(header).to_bytes(8, "little") + header + bytes(range(256)) * (size // 256))
PY
    runs "$tpx" hold large --name large --device cuda --to tp=1
    blocks=$(find -L "/proc/$(pids)/fd" -maxdepth 1 -type f -size +7M -printf '%b %s\n' | sort -n | head -1)
    [ "${blocks%% *}" -lt 100 ] || fail "the host still has the tensors: $blocks"
    runs "$tpx" verify large hold:large
    runs client take large 0
    nothing_left
}
each=own_keepers
side_by_side 3 after_reshard held exported failing_calls shared_gpus too_little ended on_gpu_only
echo "gpu hold: all as it should be"
