#!/bin/sh
# replay.sh TPX TESTDATA TRANSCRIPT: runs each "$ command" of the transcript in a scratch copy of TESTDATA and compares
# its output with the lines below it: standard output, "2> " standard error, "=> " the exit status unless it is 0. The
# output of a command ends before an empty line that a comment, a command or the end of the file follows. UPDATE=1
# writes the output into the transcript.
set -u
tpx=$1 testdata=$2 transcript=$3
scratch=$(mktemp -d) && trap 'chmod -R u+w "$scratch"; rm -rf "$scratch"' EXIT
cp -R "$testdata" "$scratch/work" && chmod -R u+w "$scratch/work" || exit
PATH=$(dirname "$tpx"):$PATH TERM=dumb LC_ALL=C HOME=$scratch
export PATH TERM LC_ALL HOME
# shellcheck source=scripts/mpi-env.sh
. "$testdata/../scripts/mpi-env.sh"
unset OMPI_COMM_WORLD_RANK PMIX_RANK PMI_RANK SLURM_PROCID
unset CUDA_VISIBLE_DEVICES MASTER_ADDR MASTER_PORT TPX_HOST SLURMD_NODENAME

# The transcript without the expected output.
awk '
    function flush() { while (blank > 0) { print ""; blank-- } }
    /^$/ { blank++; next }
    /^(# |\$ )/ && (blank > 0 || !running) { flush(); running = /^\$ /; print; next }
    { if (running) blank = 0; else { flush(); print } }
' "$transcript" >"$scratch/commands"

run() {
    (cd "$scratch/work" && sh -c "$1") >"$scratch/stdout" 2>"$scratch/stderr" </dev/null
    status=$?
    cat "$scratch/stdout"
    [ -n "$(tail -c 1 "$scratch/stdout")" ] && echo
    sed 's/^/2> /' "$scratch/stderr"
    [ "$status" -eq 0 ] || echo "=> $status"
}

while IFS= read -r line; do
    printf '%s\n' "$line"
    case $line in '$ '*) run "${line#??}" ;; esac
done <"$scratch/commands" >"$scratch/transcript"

if [ "${UPDATE:-0}" = 1 ]; then
    cp "$scratch/transcript" "$transcript"
else
    diff -u "$transcript" "$scratch/transcript"
fi
