#!/bin/sh
# examples.sh TPX SLOW TESTDATA: runs the scripts of examples/slurm, except requeue.sbatch, on a cluster of nodes with 3
# and 2 CPUs.
set -u
tpx=$1 slow=$2 testdata=$3
here=$(cd "$(dirname "$0")" && pwd)
[ "${4:-}" = inside ] || exec sh "$here/cluster.sh" 3 2 -- sh "$here/examples.sh" "$tpx" "$slow" "$testdata" inside
# shellcheck source=tests/slurm/job.sh
. "$here/job.sh"
SLOW_WRITES_MS=0
examples=$here/../../examples/slurm

# run_job OPTION...: runs a job; `sbatch --wait` would check for its end only every 10 seconds. Fails unless all tasks
# succeed.
run_job() {
    job=$(sbatch --parsable "$@") || fail "sbatch failed"
    wait_for 300 is_done "$job"
    ! scontrol --oneliner show job "$job" | grep -qv ' JobState=COMPLETED '
}
is_done() { [ -z "$(squeue --noheader --jobs="$1")" ]; }

# Between two steps: the first training step saves a checkpoint, the second one finds it in its new layout.
cat >train <<END
#!/bin/sh
[ "\$SLURM_PROCID" = 0 ] || exit 0
[ "\$2" != tp=2,pp=2 ] || exec cp -R "$testdata/llama-small/megatron-tp2pp2" "\$1"
exec tpx inspect "\$1"
END
chmod +x train
mkdir run
run_job --output=between.log "$examples/between-steps.sbatch" run "$PWD/train" || fail "between-steps.sbatch failed"
grep -q '^layout  *tp=4 (4 ranks)' between.log || fail "the second step does not see tp=4"
"$tpx" verify run/tp2pp2 run/tp4 >stdout 2>&1 || fail "$(cat stdout)"
# The next step must not run if one has failed.
if run_job --output=between-fails.log "$examples/between-steps.sbatch" run false; then fail "no failure"; fi
! grep -q tpx: between-fails.log || fail "tpx ran after a step that had failed"

# An array of three: one output exists, and one source cannot be read. After a second submission, only that one is
# converted.
cp source/model.safetensors late
printf 'source a fsdp=2\nlate.d b fsdp=4\nrun/tp2pp2 run/tp4 tp=4\n' >list
array() { run_job --array=1-3%2 --output=array-%a.log "$examples/array.sbatch" list --quiet; }
if array; then fail "no failure"; fi
if [ ! -e a ] || [ -e b ]; then fail "the array did not write a alone"; fi
grep -q '^run/tp4 is complete$' array-3.log || fail "an output was written again"
mkdir late.d && mv late late.d/model.safetensors
array || fail "the array failed"
for name in a b; do "$tpx" verify source $name >stdout 2>&1 || fail "$(cat stdout)"; done

# As many ranks as CPUs: three on one node, two on the other.
cat >bin/tpx <<END
#!/bin/sh
echo "\$SLURMD_NODENAME" >>"$out/places"
exec "$tpx" "\$@"
END
CPUS_PER_RANK=1 run_job --output=per-node.log "$examples/ranks-per-node.sbatch" source per-node --to fsdp=4 \
    --format dcp || fail "ranks-per-node.sbatch failed"
[ "$(sort places | tr '\n' ' ')" = "n1 n1 n1 n2 n2 " ] || fail "ranks ran on $(sort places)"
is_whole per-node
