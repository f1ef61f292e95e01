#!/bin/bash
# hold_direct.sh TPX TESTDATA CUDART: state that moves from GPU to GPU, in layouts drawn at random, has the bytes of the path by disk; what
# kernels cannot copy goes by way of the host; and whatever fails, the state gets there as before, and nothing is left.
set -u
tpx=$1 testdata=$2 CUDART=$3
# shellcheck source=tests/gpu/holding.sh
. "$(dirname "$0")/holding.sh"

# same NAME OTHER RANKS: two keepers hold the same bytes.
same() {
    local all
    read -ra all <<<"$3"
    runs client bytes "$1" "${all[@]}"
    mv out one
    runs client bytes "$2" "${all[@]}"
    diff one out || fail "hold:$1 and hold:$2: ranks have other bytes"
}
# shellcheck source=tests/cli/side_by_side.sh
. "$here/../cli/side_by_side.sh"
# moved PYTHON: the --json of the command says so of what it moved.
moved() { python3 -c "import json; moved = json.load(open('out'))['moved']; assert $1, moved" || fail "moved: not $1"; }
# gone NAME...: releases keepers.
gone() {
    local name
    for name in "$@"; do runs "$tpx" hold --release "$name"; done
    for name in "$@"; do goes "$XDG_RUNTIME_DIR/tpx/$name.sock"; done
}

# mixed: a checkpoint with tensors of several types.
mixed() {
    python3 - <<'PY' || fail "no checkpoint"
import json, os, struct
os.mkdir("mixed")
tensors = {"a": ("F64", 8, 600), "b": ("BF16", 2, 4000), "c": ("F32", 4, 1000), "d": ("I64", 8, 10)}
values = {"a": b"".join(struct.pack("<d", k * 1.1) for k in range(600)), "b": bytes(range(250)) * 32,
          "c": b"".join(struct.pack("<f", k * 1e3 if k < 65 else -k / 7) for k in range(1000)), "d": bytes(range(80))}
header, at = {}, 0
for name, (dtype, size, count) in tensors.items():
    header[name] = {"dtype": dtype, "shape": [count], "data_offsets": [at, at + size * count]}
    at += size * count
text = json.dumps(header).encode()
with open("mixed/model.safetensors", "wb") as file:
    file.write(len(text).to_bytes(8, "little") + text + b"".join(values[name] for name in tensors))
PY
}
# copying N: within two minutes, the processes of this test together have N mappings of GPU memory: two of the keeper, two of the
# process that reads from GPUs and, when GPUs copy, two of the new state and one of what they copy.
copying() {
    local _
    for _ in $(seq 2400); do
        [ "$(own_processes | sed 's#.*#/proc/&/maps#' | xargs grep -hs fake-gpu | wc -l)" -lt "$1" ] || break
        sleep 0.05
    done
    sleep 0.3
}

# drawn SEED...: layouts, GPUs and types drawn at random; each case can be repeated by its seed.
drawn() {
    for seed in "$@"; do
        RANDOM=$seed
        read -ra layouts <<<"tp=1 tp=2 fsdp=2 fsdp=3 fsdp=4 tp=2,fsdp=2 dp=2 tp=2,dp=2 fsdp=2,dp=2 pp=2 tp=2,pp=2"
        from=${layouts[RANDOM % ${#layouts[@]}]} to=${layouts[RANDOM % ${#layouts[@]}]}
        types=("" "--dtype f16" "--dtype f32" "--drop optimizer")
        read -ra more <<<"${types[RANDOM % 4]}"
        on=$((RANDOM % 4)) case="seed $seed: $from to $to ${more[*]}"
        runs "$tpx" hold ckpt --name old --to "$from" --device cuda --rank-gpus $on
        runs "$tpx" hold hold:old --name new --to "$to" ${more[@]+"${more[@]}"} --device cuda --json
        moved "moved['gpu'] > 0 and moved['host'] == 0"
        echo "$case"
        # In memory of the host all the way: the same segments, but where the tensors are.
        runs "$tpx" hold ckpt --name old-host --to "$from"
        runs "$tpx" hold hold:old-host --name host --to "$to" ${more[@]+"${more[@]}"}
        read -ra ranks <<<"$("$tpx" hold --list --json | python3 -c 'import json, sys; print(*[rank["rank"] for keeper in json.load(sys.stdin)["keepers"] if keeper["name"] == "host" for rank in keeper["ranks"]])')"
        same new host "${ranks[*]}"
        # By disk: the same tensors.
        runs "$tpx" reshard ckpt "disk$seed" --to "$to" ${more[@]+"${more[@]}"}
        runs "$tpx" verify "disk$seed" hold:new
        runs "$tpx" hold ckpt --name disk --to "$to" ${more[@]+"${more[@]}"}
        runs client take new "${ranks[@]}"
        mv out one
        runs client take disk "${ranks[@]}"
        diff one out || fail "$case: ranks have other bits than by disk"
        gone old old-host host
    done
    nothing_left
}
drawn_first() { drawn 1 2 3 4; }
drawn_last() { drawn 5 6 7 8; }
# What a GPU has already stays there; replicas elsewhere share the work.
replicas() {
    runs "$tpx" hold ckpt --name old --to dp=4 --device cuda
    runs "$tpx" hold hold:old --name new --to dp=4 --device cuda --json
    moved "moved['same_gpu'] == moved['gpu'] > 0"
    runs "$tpx" hold hold:old --name turned --to dp=4 --device cuda --rank-gpus 3,2,1,0 --json
    moved "moved['same_gpu'] == moved['gpu'] > 0"
    runs "$tpx" hold ckpt --name halves --to dp=2 --device cuda --rank-gpus 0,1
    runs "$tpx" hold hold:halves --name more --to dp=4 --device cuda
    grep -q 'note: copying .* of tensors from GPU to GPU, .* within a GPU and 0 B through host memory' err || fail "no note"
    runs "$tpx" hold hold:halves --name more2 --to dp=4 --device cuda --rank-gpus 0,1,2,3 --json
    moved "moved['same_gpu'] * 2 == moved['gpu'] > 0"
    gone old new turned halves more more2
    nothing_left
}
# Of replicas on several GPUs, the one with the fastest link is copied, and pairs without peer access are avoided.
fastest_links() {
    export FAKE_NVLINKS=0-3,1-2
    runs "$tpx" hold ckpt --name old --to dp=2 --device cuda --rank-gpus 0,1
    runs "$tpx" hold hold:old --name near --to dp=2 --device cuda --rank-gpus 3,2 --json
    moved "moved['nvlink'] == moved['gpu'] > 0 and moved['pcie'] == moved['host'] == moved['same_gpu'] == 0"
    grep -q 'note: copying .* and 0 B through host memory; between GPUs: [^,]* by NVLink$' err || fail "no note: $(cat err)"
    FAKE_NVLINKS='' runs "$tpx" hold hold:old --name pcie --to dp=2 --device cuda --rank-gpus 3,2 --json
    moved "moved['pcie'] == moved['gpu'] > 0 and moved['nvlink'] == moved['host'] == 0"
    FAKE_NVLINKS='' FAKE_NO_PEERS=0-3,0-2 runs "$tpx" hold hold:old --name peers --to dp=2 --device cuda --rank-gpus 3,2 --json
    moved "moved['pcie'] == moved['gpu'] > 0 and moved['host'] == 0"
    FAKE_NO_PEERS=0-3,1-3 runs "$tpx" hold hold:old --name apart --to dp=2 --device cuda --rank-gpus 3,2 --json
    moved "moved['nvlink'] == moved['gpu'] == moved['host'] > 0"
    runs "$tpx" hold ckpt --name disk --to dp=2
    for name in near pcie peers apart; do same $name disk "0 1"; done
    unset FAKE_NVLINKS
    gone old near pcie peers apart disk
    nothing_left
}
# --transport ipc does not fall back to host memory.
transport_ipc() {
    runs "$tpx" hold ckpt --name old --device cuda --to fsdp=2
    runs "$tpx" hold hold:old --name new --to tp=2 --device cuda --transport ipc --json
    moved "moved['gpu'] > 0 and moved['host'] == 0"
    gone new
    ipc=("$tpx" hold hold:old --name new --to tp=2 --device cuda --transport ipc)
    refuses 1 "--transport ipc: GPU 0: " env FAKE_MEMORY=1000000 "${ipc[@]}"
    refuses 1 "GPU 0: copy kernel: fake fault" env FAKE_FAULT=launch_copies "${ipc[@]}"
    refuses 1 "cudaIpcOpenMemHandle: fake fault" env FAKE_FAULT=cudaIpcOpenMemHandle "${ipc[@]}"
    refuses 1 "--transport ipc: " "${ipc[@]}" --dtype f64
    runs "$tpx" hold ckpt --name host --to fsdp=2
    refuses 1 "--transport ipc: hold:host is not in GPU memory" "$tpx" hold hold:host --name new --to tp=2 --device cuda --transport ipc
    gone old host
    nothing_left
}
# In a second round, in the foreground, for some ranks, and from some GPUs to others.
other_uses() {
    runs "$tpx" hold ckpt --name old --device cuda
    runs "$tpx" hold hold:old --name next --to tp=2 --device cuda --rank-gpus 3,2
    runs "$tpx" hold hold:next --name last --to fsdp=2 --device cuda --rank-gpus 1 --ranks 1
    runs "$tpx" hold ckpt --name disk --to fsdp=2
    same last disk 1
    gone last next disk
    "$tpx" hold hold:old --name front --to tp=2 --device cuda --foreground >out 2>err &
    front=$!
    for _ in $(seq 2400); do [ -s out ] && break; sleep 0.05; done
    runs "$tpx" hold ckpt --name disk --to tp=2
    for rank in 0 1; do runs client take front $rank; mv out one; runs client take disk $rank; diff one out || fail "--foreground: rank $rank"; done
    wait $front || fail "--foreground: exit $?"
    # Held by the old keeper until then, and taken afterwards.
    client open old 6 >open.out &
    for _ in $(seq 2400); do [ -s open.out ] && break; sleep 0.05; done
    keeper_refuses "rank 1 is being read by process" take old 1
    wait $!
    runs client take old 1
    runs "$tpx" hold --release old
    nothing_left
}
# What it needs is known before: nothing is moved, and what does not fit goes by way of the host.
needs() {
    runs "$tpx" hold ckpt --name old --device cuda --to fsdp=2
    runs "$tpx" hold hold:old --name new --to tp=2 --device cuda --dry-run --json
    moved "[(one['gpu'], one['direct'], one['new'] > 0, one['old'] > 0, one['staging'] > 0, one['free']) for one in moved['needs']] == [(0, True, True, True, True, 1 << 34), (1, True, True, True, True, 1 << 34)]"
    grep -q 'GPU 0: needs .* for new state and .* for lists of copies, beside .* of old state; 17.2 GB are free' err || fail "no note of the memory"
    runs env FAKE_MEMORY=1000000 "$tpx" hold hold:old --name new --to tp=2 --device cuda --json
    moved "moved['gpu'] == 0 and moved['host'] > 0 and not any(one['direct'] for one in moved['needs'])"
    grep -q 'GPU 1: .* of new state and the lists of copies do not fit into the 1.00 MB that are free; its tensors are copied through host memory' err || fail "no note"
    runs "$tpx" hold ckpt --name disk --to tp=2
    same new disk "0 1"
    gone new
    refuses 1 "but 1.00 kB of 1.00 kB are free" env FAKE_MEMORY=1000 "$tpx" hold hold:old --name new --to tp=2 --device cuda
    gone old disk
    nothing_left
}
# Each call that fails on the way: the state goes by way of the host, with a note; the old keeper still has it.
faults() {
    runs "$tpx" hold ckpt --name old --device cuda --to fsdp=2
    runs "$tpx" hold ckpt --name disk --to tp=2
    for call in cudaIpcOpenMemHandle cudaMemset launch_copies launch_crcs; do
        runs env FAKE_FAULT=$call "$tpx" hold hold:old --name new --to tp=2 --device cuda --json
        grep -q "note: copying through host memory instead: .*GPU [01]: .*: fake fault" err || fail "$call: no note"
        moved "moved is None"
        same new disk "0 1"
        gone new
    done
    env FAKE_FAULT=launch_copies "$tpx" hold hold:old --name new --to tp=2 --device cuda --foreground >front.out 2>front.err &
    front=$!
    for _ in $(seq 2400); do [ -s front.out ] && break; sleep 0.05; done
    grep -q "copying through host memory instead: GPU 0: copy kernel: fake fault" front.err || fail "--foreground: no note"
    same new disk "0 1"
    gone new
    wait $front || fail "--foreground: exit $?"
    for call in cudaMalloc cudaMallocHost cudaMemcpyAsync cudaStreamSynchronize cudaIpcGetMemHandle; do
        refuses 1 "GPU 0: $call: fake fault" env FAKE_FAULT=$call "$tpx" hold hold:old --name new --to tp=2 --device cuda
    done
    runs env FAKE_FAULT=cudaMalloc FAKE_FAULT_GPU=1 "$tpx" hold hold:old --name new --to tp=2 --device auto
    grep -q "note: the state is held in host memory: rank 1: GPU 1: cudaMalloc: fake fault" err || fail "auto: no note"
    same new disk "0 1"
    gone new
    runs "$tpx" verify ckpt hold:old
    # A keeper of another version does not know the request.
    python3 "$here/../cli/hold_client.py" proxy former old &  # a function would run it in a subshell
    former=$!
    for _ in $(seq 2400); do [ -S "$XDG_RUNTIME_DIR/tpx/former.sock" ] && break; sleep 0.05; done
    runs "$tpx" hold hold:former --name new --to tp=2 --device cuda
    grep -q "note: copying through host memory instead: hold:former: unknown op 'open'" err || fail "no note"
    same new disk "0 1"
    kill $former
    rm "$XDG_RUNTIME_DIR/tpx/former.sock"
    gone new disk old
    nothing_left
}
# Casts that kernels do not have, and values that do not fit.
casts() {
    mixed
    runs "$tpx" hold mixed --name old --to fsdp=2 --device cuda
    for type in bf16 f32 f64; do
        runs "$tpx" hold hold:old --name new --to fsdp=3 --device cuda --dtype $type --json
        moved "(moved['gpu'] > 0) and (moved['host'] > 0)"
        runs "$tpx" hold mixed --name disk --to fsdp=3 --dtype $type
        same new disk "0 1 2"
        gone new disk
    done
    runs env FAKE_FAULT=launch_casts "$tpx" hold hold:old --name new --to fsdp=3 --device cuda --dtype f32
    grep -q "copying through host memory instead: GPU 0: cast kernel: fake fault" err || fail "no note of the cast"
    gone new old
    runs "$tpx" hold mixed --name old --to fsdp=2 --device cuda --rank-gpus 3
    runs env FAKE_FAULT=cudaEventRecord FAKE_FAULT_GPU=3 "$tpx" hold hold:old --name new --to fsdp=3 --device cuda --dtype f32
    grep -q "copying through host memory instead: .*GPU 3: cudaEventRecord: fake fault" err || fail "no note of the reader"
    gone new old
    refuses 1 "hold:old: no keeper has this name" "$tpx" hold hold:old --name new --to fsdp=3 --device cuda
    grep -q "copying through host memory instead" err && fail "a note of a keeper that does not exist"
    python3 - <<'PY' || fail "no checkpoint"
import json, os, struct
os.mkdir("large")
header = json.dumps({"w": {"dtype": "F32", "shape": [8, 2], "data_offsets": [0, 64]}}).encode()
with open("large/model.safetensors", "wb") as file:
    file.write(len(header).to_bytes(8, "little") + header + struct.pack("<16f", *range(13), 1e30, 14, 15))
PY
    runs "$tpx" hold large --name old --to fsdp=2 --device cuda
    refuses 1 "tensor 'w': 1e+30 at [6, 1] does not fit f16, whose largest value is 65504" "$tpx" hold hold:old --name new --to tp=1 --device cuda --dtype f16
    gone old
}
# A command that is killed while it reads from GPUs leaves no process behind, and the old keeper its state.
killed_reader() {
    mixed
    runs "$tpx" hold mixed --name old --to fsdp=2 --device cuda
    FAKE_DELAY=2000 "$tpx" hold hold:old --name new --to fsdp=3 --device cuda --dtype f32 >out 2>err &
    killed=$!
    copying 4
    kill -9 $killed
    wait $killed 2>/dev/null
    for _ in $(seq 2400); do "$tpx" hold --list | grep -q hold:new || break; sleep 0.05; done
    sleep 2.5
    runs "$tpx" verify mixed hold:old
    gone old
    rm -f "$XDG_RUNTIME_DIR/tpx/new.sock"
    nothing_left
}
# Nor does one that is killed while GPUs copy, and until they are done, the old keeper gives nothing away.
killed_copier() {
    runs "$tpx" hold ckpt --name old --to fsdp=2 --device cuda
    FAKE_DELAY=3000 "$tpx" hold hold:old --name new --to tp=2 --device cuda --rank-gpus 0 >out 2>err &
    killed=$!
    copying 7
    kill -9 $killed
    wait $killed 2>/dev/null
    keeper_refuses "rank 0 is being read by process" take old 0
    for _ in $(seq 2400); do client take old 0 >/dev/null 2>&1 && break; sleep 0.1; done
    runs "$tpx" hold --release old
    goes "$XDG_RUNTIME_DIR/tpx/old.sock"
    nothing_left
}
# A keeper that ends while GPUs copy from its memory: what they have copied is not held.
ended_keeper() {
    for end in release kill; do
        runs "$tpx" hold ckpt --name old --to fsdp=2 --device cuda --json
        keeper=$(python3 -c 'import json; print(json.load(open("out"))["process"])')
        FAKE_DELAY=3000 "$tpx" hold hold:old --name new --to tp=2 --device cuda --rank-gpus 0 >late.out 2>late.err &
        late=$!
        copying 7
        if [ $end = release ]; then "$tpx" hold --release old >/dev/null; else kill -9 "$keeper"; fi
        wait $late && fail "$end: a state of unknown bytes is held"
        grep -q "hold:old: the keeper ended while its state was copied" late.err || fail "$end: no note"
        rm -f "$XDG_RUNTIME_DIR/tpx/old.sock"
        nothing_left
    done
}
each=own_keepers
side_by_side 3 drawn_first drawn_last faults casts replicas fastest_links transport_ipc other_uses needs killed_reader killed_copier ended_keeper
echo "gpu hold_direct: all as it should be"
