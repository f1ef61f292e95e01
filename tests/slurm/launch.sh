#!/bin/sh
# launch.sh TPX: srun starts ranks on the hosts and devices of `tpx plan --launch`, mpirun does in the same job, and
# --hosts slurm counts the job's GPUs.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
tpx=$1
[ "${2:-}" = inside ] || exec sh "$here/cluster.sh" 2 2 -- sh "$here/launch.sh" "$tpx" inside
first=n1
second=n2

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cd "$out"
printf '%s slots=2\n%s slots=2\n' "$first" "$second" >hosts
printf '0 %s 1\n1 %s 0\n2-3 %s\n' "$second" "$second" "$first" >ranks
"$tpx" plan --model gpt3-1.3b --from tp=2,pp=2 --to tp=2,pp=2 --hosts hosts --ranks-on ranks --launch launch.sh \
    --rank-map wanted >text
# shellcheck disable=SC2016 # for the ranks
printf '%s\n' 'IFS=,' 'set -- $CUDA_VISIBLE_DEVICES' 'shift $LOCAL_RANK' 'echo "$RANK $SLURMD_NODENAME $1"' >show
sh launch.sh srun --mpi=none -- sh "$out/show" | sort -n >shown
diff wanted shown

cat >job <<'END'
#!/bin/sh
sh launch.sh mpirun -- sh "$PWD/show" | sort -n >shown-mpirun
END
sbatch --wait --nodes=2 --ntasks-per-node=2 \
    --nodelist="$first,$second" --output=job.out job >submitted
diff wanted shown-mpirun || { cat job.out; exit 1; }

# Ranks that srun places differently are refused.
if srun --mpi=none -n4 -N2 sh "$out/launch.sh" rank-of-srun true 2>refused; then exit 1; fi
grep -q "started rank 0 on $first; expected it on $second" refused

# One task on each node, with two GPUs.
srun --mpi=none --nodes=2 --ntasks=2 --gpus-per-node=2 "$tpx" plan --model gpt3-1.3b --from tp=2,pp=2 \
    --to tp=2,pp=2 --hosts slurm --json >plans
grep -q '"gpus":2' plans
