#!/bin/bash
# resume.sh TPX TESTDATA [COUNT [SOURCE OPTION...]]: ends reshard COUNT times (10) at random moments with SIGKILL,
# SIGTERM or SIGUSR1 to a single process, a rank or mpirun, until a run completes, and compares its output with that of
# an undisturbed run. Runs use 1 to 3 ranks and different memory limits. SOURCE, by default a small model, is resharded
# with the options. Bash, for its random numbers.
set -u
tpx=$1 testdata=$2 count=${3:-10}
if [ $# -gt 3 ]; then source=$4 && shift 4; else source=$testdata/llama-small/megatron-tp2pp2 && set -- --to tp=4 --format torch_dist; fi
scratch=$(mktemp -d "${TMPDIR:-/tmp}/tpx-resume-XXXXXX") && trap 'rm -rf "$scratch"' EXIT
unset OMPI_COMM_WORLD_RANK PMIX_RANK PMI_RANK SLURM_PROCID SLURM_JOB_ID
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
cd "$scratch" || exit
fail() { echo "$*" && ls -R . && exit 1; }
RANDOM=${SEED:-$$}
echo "seed $RANDOM"

begin=$(date +%s%N)
"$tpx" reshard "$source" whole "$@" --quiet >stdout || exit
took=$((($(date +%s%N) - begin) / 1000000))
sums() { (cd "$1" && find . -type f -exec cksum {} + | sort); }
sums whole >expected

ended=0 continued=0 through=0
while [ "$ended" -lt "$count" ]; do
    ranks=$((RANDOM % 3 + 1)) memory=$((RANDOM % 4 * 16 + 32))
    mpirun=
    [ "$ranks" -eq 1 ] || mpirun="mpirun -n $ranks"
    # shellcheck disable=SC2086 # words
    $mpirun "$tpx" reshard "$source" out "$@" --memory "${memory}MiB" --json >stdout 2>stderr &
    pid=$!
    delay=$(((RANDOM * 32768 + RANDOM) % (took * 5 / 4 + (ranks > 1 ? 400 : 1))))
    sleep "$(printf '%d.%03d' $((delay / 1000)) $((delay % 1000)))"
    signal=$(set -- KILL KILL TERM USR1 && shift $((RANDOM % 4)) && echo "$1")
    victim=$pid
    [ "$ranks" -eq 1 ] || [ $((RANDOM % 2)) -eq 0 ] || victim=$(pgrep -P "$pid" | shuf -n 1)
    kill -"$signal" "${victim:-$pid}" 2>/dev/null && ended=$((ended + 1))
    # mpirun may wait forever if it gets a signal while it starts.
    for wait in $(seq 300); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
    kill -KILL "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
    code=$?
    # Ranks of a killed mpirun end by themselves, but take a moment.
    for wait in $(seq 1200); do pgrep -f "^$tpx reshard $source out" >/dev/null || break; sleep 0.1; done
    [ "$wait" -lt 100 ] || fail "processes are left"
    if [ -e out ]; then
        sums out >found
        cmp -s expected found || fail "the output differs"
        [ "$code" -ne 0 ] || ! grep -q '"bytes_kept":[1-9]' stdout || continued=$((continued + 1))
        through=$((through + 1))
        rm -rf out
        [ -z "$(find . -maxdepth 1 -name 'out.*')" ] || [ "$code" -ne 0 ] || fail "something is left beside the output"
    else
        [ "$code" -ne 0 ] || fail "exit status 0 without an output"
        for left in out.partial-*; do
            [ ! -e "$left" ] || [ ! -e "$left/tpx.unfinished" ] || { "$tpx" inspect "$left" >seen; [ $? -eq 3 ]; } || fail "inspect: $(cat seen)"
        done
    fi
done
"$tpx" reshard "$source" out "$@" --quiet >stdout || fail "the last run failed"
sums out >found
cmp -s expected found || fail "the output differs"
echo "$ended runs of $took ms ended by signals; $through outputs complete before the last, $continued of them continued"
