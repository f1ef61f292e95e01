#!/bin/sh
# second_signal.sh TPX SLOW_WRITES: after a first signal, tpx waits for a running write; after a second one it exits at
# once, with the exit status of the first. A signal during planning stops the run before anything is written, and a
# closed standard output is an error like any other.
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

# ends_within TENTHS: whether the job ends within so many tenths of a second.
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

# Signals during planning, and while --verify reads the checksums of archives; each read takes a fifth of a second.
head='{'
for k in $(seq 0 29); do head="$head\"t$k\":{\"dtype\":\"F32\",\"shape\":[10],\"data_offsets\":[$((40 * k)),$((40 * k + 40))]},"; done
head="${head%,}}"
mkdir many
{
    printf "\\$(printf '%03o' $((${#head} % 256)))\\$(printf '%03o' $((${#head} / 256)))\0\0\0\0\0\0%s" "$head"
    head -c 1200 /dev/zero
} >many/model.safetensors
"$tpx" reshard many archive --to tp=1 --format dcp >said 2>err || fail "no archive"
for what in "hf" "archive --verify"; do
    rm -f mark
    # shellcheck disable=SC2086 # words
    SLOW_WRITES_MARK=mark SLOW_READS_MS=200 LD_PRELOAD=$slow "$tpx" reshard $what out --to tp=1 --format dcp >said 2>err &
    job=$!
    for _ in $(seq 300); do [ -e mark ] && break; sleep 0.1; done
    [ "$what" = hf ] || sleep 3
    kill -USR1 "$job"
    ends_within 50 || { kill -KILL "$job"; fail "SIGUSR1 does not end $what"; }
    wait "$job"
    code=$?
    { [ $code -eq 75 ] && grep -q "stopped on request before anything was written; run the same command again" err; } || fail "exit status $code after SIGUSR1 ($what)"
    [ "$(echo out*)" = "out*" ] || fail "$(echo out*) is left of $what"
done

# The same for tpx migrate, whose store is a folder of this machine.
mkdir s && cp -R many s/host0
rm -f mark
SLOW_WRITES_MARK=mark SLOW_READS_MS=200 LD_PRELOAD=$slow "$tpx" migrate 's/{host}' 'o/{host}' --emulate --hosts 1x1 --to tp=1 --format dcp >said 2>err &
job=$!
for _ in $(seq 300); do [ -e mark ] && break; sleep 0.1; done
kill -USR1 "$job"
ends_within 100 || { kill -KILL "$job"; fail "SIGUSR1 does not end tpx migrate"; }
wait "$job"
code=$?
{ [ $code -eq 75 ] && grep -q "stopped on request before anything was written; run the same command again" err; } || fail "exit status $code after SIGUSR1 (migrate)"

# tpx inspect shows hold:NAME as the source of an unfinished output, not a path below /proc.
XDG_RUNTIME_DIR=$scratch/run && export XDG_RUNTIME_DIR && mkdir -m 700 run
"$tpx" hold hf --name kept --timeout 60 >said 2>err || fail "nothing is held"
rm -f mark
SLOW_WRITES_MARK=mark SLOW_WRITES_MS=60000 LD_PRELOAD=$slow "$tpx" reshard hold:kept held --to tp=1 --format dcp --threads 1 >said 2>err &
job=$!
for _ in $(seq 300); do [ -e mark ] && break; sleep 0.1; done
kill -KILL "$job"
wait "$job" 2>/dev/null
"$tpx" hold --release kept >said 2>err || fail "the state is not released"
"$tpx" inspect held.partial-* >said 2>err
grep -q "(hold:kept to " said || { cat said; fail "the unfinished output does not name hold:kept"; }

{ "$tpx" reshard hf out --to tp=1 --format dcp 2>err; echo $? >code; } | true
{ [ "$(cat code)" -eq 4 ] && grep -q "standard output: Broken pipe; out is complete and in place" err; } || fail "exit status $(cat code) without a reader"
"$tpx" verify hf out >said 2>err || fail "the output is not complete"
