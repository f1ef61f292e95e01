#!/bin/sh
# second_signal.sh TPX SLOW_WRITES: after a first signal, tpx waits for a running write; after a second one it exits at
# once, with the exit status of the first.
set -u
tpx=$1 slow=$2
scratch=$(mktemp -d) && trap 'rm -rf "$scratch"' EXIT
unset OMPI_COMM_WORLD_RANK PMIX_RANK PMI_RANK SLURM_PROCID SLURM_JOB_ID
cd "$scratch" || exit
fail() {
    echo "second_signal: $*" >&2
    cat err >&2
    exit 1
}
# A write of a tensor of this size takes a minute.
head='{"w":{"dtype":"F32","shape":[500,1000],"data_offsets":[0,2000000]}}'
mkdir hf
{
    printf "\\$(printf '%03o' ${#head})\0\0\0\0\0\0\0%s" "$head"
    head -c 2000000 /dev/zero
} >hf/model.safetensors

# ends_within TENTHS: whether the job does.
ends_within() {
    for _ in $(seq "$1"); do
        kill -0 "$job" 2>/dev/null || return 0
        sleep 0.1
    done
    return 1
}

for try in "INT 130" "TERM 75" "USR1 75"; do
    signal=${try% *}
    rm -f mark
    SLOW_WRITES_MARK=mark SLOW_WRITES_MS=60000 LD_PRELOAD=$slow "$tpx" reshard hf out --to tp=1 --format dcp --threads 1 >said 2>err &
    job=$!
    for _ in $(seq 300); do [ -e mark ] && break; sleep 0.1; done
    [ -e mark ] || fail "no write begins"
    kill -"$signal" "$job"
    ! ends_within 10 || fail "SIG$signal ends it in the middle of a write"
    kill -"$signal" "$job"
    ends_within 50 || { kill -KILL "$job"; fail "a second SIG$signal does not end it"; }
    wait "$job"
    code=$?
    [ $code -eq "${try#* }" ] || fail "exit status $code after two SIG$signal"
    [ ! -e out ] || fail "an output after two SIG$signal"
    "$tpx" reshard hf out --to tp=1 --format dcp --clean >said 2>err || fail "--clean fails"
done
