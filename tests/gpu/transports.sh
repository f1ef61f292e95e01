# shellcheck shell=bash disable=SC2154,SC2034
# Sourced by tests of state that moves between GPUs of several hosts, with fake CUDA ($CUDART) and NCCL libraries. Each process of
# mpirun is a host with keepers of its own.
# shellcheck source=tests/gpu/holding.sh
. "$(dirname "${BASH_SOURCE[0]}")/holding.sh"
# shellcheck source=tests/cli/side_by_side.sh
. "$here/side_by_side.sh"
# new_hosts: hosts without keepers, for one part of this test.
new_hosts() {
    own_keepers
    # shellcheck source=tests/cli/keepers_of_hosts.sh
    . "$here/keepers_of_hosts.sh"
    export FAKE_NAME=transport-$BASHPID
}
hosts() { timeout 120 mpirun -n "$1" ./as-host "${@:2}"; }
# processes: prints the processes of this test that have GPU memory, are keepers, or wait to become keepers.
processes() {
    local process
    grep -lszxF "RUN=$RUN" /proc/[0-9]*/environ | cut -d / -f 3 | while read -r process; do
        [ "$(readlink "/proc/$process/cwd")" != / ] && [ -z "$(find "/proc/$process/fd" -lname '/memfd:*' 2>/dev/null)" ] || echo "$process"
    done
}
# only N: within two minutes, N such processes are left, no socket of new state, and no memory of NCCL.
only() {
    local _
    for _ in $(seq 2400); do
        [ "$(processes | wc -l)" -ne "$1" ] || [ -n "$(find "$RUN" -name new.sock)$(find /dev/shm -name "*$FAKE_NAME-*" 2>/dev/null)" ] || return 0
        sleep 0.05
    done
    fail "$(processes | wc -l) processes instead of $1; $(find "$RUN" -name new.sock) $(find /dev/shm -name "*$FAKE_NAME-*")"
}
# spread CKPT LAYOUT RANKS...: holds the state of CKPT in LAYOUT as hold:old on GPUs, RANKS on each host, which may be none.
spread() {
    local host=0 ranks
    release
    for ranks in "${@:3}"; do
        [ "$ranks" = none ] || on $host runs "$tpx" hold "$1" --name old --to "$2" --ranks "$ranks" --timeout none --device cuda
        host=$((host + 1))
    done
}
# says EXPRESSION...: the Python expressions are true for `between_hosts` and `hosts` in the JSON result of the command.
says() {
    python3 - "$@" <<'END' || fail "not as it should say"
import json, sys
found = json.load(open("told"))
for text in sys.argv[1:]:
    assert eval(text, {"between": found["between_hosts"], "hosts": found["hosts"]}), (text, found)
END
}
# by_disk CKPT LAYOUT RESHARD-OPTION...: prints the digests of all ranks of CKPT in LAYOUT, as made by way of a checkpoint on disk.
by_disk() {
    local known=known-${*//[^a-z0-9=,-]/_} places=() rank
    if [ ! -e "$known" ]; then
        rm -rf disk
        runs "$tpx" reshard "$1" disk --to "$2" "${@:3}"
        runs "$tpx" hold disk --name one --to "$2"
        for rank in $(seq 0 $(($("$tpx" hold --list --json | grep -o '"rank":' | wc -l) - 1))); do places+=("$XDG_RUNTIME_DIR:$rank"); done
        runs client collect one "${places[@]}"
        mv out "$known"
        goes "$RUN/tpx/one.sock"
    fi
    cat "$known"
}
# becomes CKPT LAYOUT RANKS... [-- OPTION...]: the hosts make the same bytes as a checkpoint on disk, and each gets its RANKS on GPUs.
becomes() {
    local ckpt=$1 to=$2 host=0 all=() places=() cast=() ranks rank word
    shift 2
    while [ $# -gt 0 ] && [ "$1" != -- ]; do all+=("$1") && shift; done
    [ $# -eq 0 ] || shift
    runs hosts ${#all[@]} "$tpx" hold hold:old --name new --to "$to" --json "$@"
    cp out told && cp err noted
    for word in "$@"; do case $word in --dtype | --drop | bf16 | f16 | f32 | *:unscaled | optimizer) cast+=("$word") ;; esac; done
    by_disk "$ckpt" "$to" ${cast[@]+"${cast[@]}"} >all_ranks || fail "no state by way of the disk"
    for ranks in "${all[@]}"; do
        [ "$ranks" != none ] || [ ! -e "$RUN/$host/tpx/new.sock" ] || fail "host $host holds something"
        [ "$ranks" = none ] || for rank in $ranks; do
            places+=("$RUN/$host:$rank")
            grep "^rank $rank: " all_ranks || fail "rank $rank is not among those by way of the disk"
        done
        host=$((host + 1))
    done >expected
    runs client collect new "${places[@]}"
    diff expected out || fail "$to $*: other bits than from disk"
    for host in "${!all[@]}"; do [ "${all[host]}" = none ] || goes "$RUN/$host/tpx/new.sock"; done
}
cuda=(--device cuda)

# faulty HOST FAULT [VARIABLE=VALUE...]: the calls in FAULT fail on HOST, and on no other host.
faulty() {
    rm -f "$RUN"/?.sh
    echo "export FAKE_FAULT=$2 ${*:3}; exec \"\$@\"" >"$RUN/$1.sh"
}
# swapped NAME SIZE: each host holds on its GPU 0, as hold:old, the half of 16 tensors of SIZE bytes each, a new checkpoint NAME, that the
# other host gets.
swapped() {
    local host
    python3 - "$1" "$2" <<'END' || fail "no checkpoint"
import json, os, random, sys
name, size = sys.argv[1], int(sys.argv[2])
os.mkdir(name)
random.seed(1)
header = json.dumps({f"w{k}": {"dtype": "F32", "shape": [2, size // 8], "data_offsets": [k * size, (k + 1) * size]} for k in range(16)}).encode()
with open(f"{name}/model.safetensors", "wb") as file:
    file.write(len(header).to_bytes(8, "little") + header)
    for _ in range(16):
        file.write(random.randbytes(size))
END
    on 0 runs "$tpx" hold "$1" --name first --to fsdp=2
    for host in 0 1; do echo "exec \"\$@\" --ranks $((1 - host))" >"$RUN/$host.sh"; done
    runs hosts 2 "$tpx" hold hold:first --name old --to fsdp=2 --timeout none --device cuda --transport mpi
    on 0 runs "$tpx" hold --release first
    rm "$RUN"/?.sh
    only 2
}
# still_held: the hosts have the old state.
still_held() {
    local host
    for host in 0 1; do on $host client bytes old $((1 - host)) >out || fail "the old state is gone"; done
}
# In little memory of GPUs, 20 MB move in two rounds: each GPU needs 10 MB for new state and 7.5 MB for lists, and has 9 MB for each message.
small_rounds() {
    swapped small 1250000
    export FAKE_MEMORY=35500000
}
each=new_hosts
