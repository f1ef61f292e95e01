#!/bin/sh
# launch.sh TPX: Open MPI's mpirun starts ranks on the hosts and devices of `tpx plan --launch`, on three emulated hosts.
# Exits with 77 (skipped) if hosts cannot be emulated.
set -u
here=$(cd "$(dirname "$0")" && pwd)
tpx=$1
[ "${2:-}" = inside ] || exec sh "$here/hosts.sh" 10gbit 10gbit 10gbit -- sh "$here/launch.sh" "$tpx" inside

out=$(TMPDIR=/tmp mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
cd "$out" || exit 1
printf 'th0 slots=4\nth1 slots=4\nth2 slots=4\n' >hosts
printf '0 th2 3\n1 th2 1\n2 th2 0\n3 th2 2\n4-7 th0\n' >ranks
"$tpx" plan --model gpt3-1.3b --from tp=2,pp=4 --to tp=2,pp=4 --hosts hosts --ranks-on ranks --launch launch.sh \
    --rank-map wanted >text || exit 1
# The device of a rank is at position LOCAL_RANK of CUDA_VISIBLE_DEVICES.
# shellcheck disable=SC2016 # for the ranks
printf '%s\n' 'IFS=,' 'set -- $CUDA_VISIBLE_DEVICES' 'shift $LOCAL_RANK' 'echo "$RANK $(hostname) $1"' >show
OMPI_MCA_plm=rsh OMPI_MCA_plm_rsh_agent=$(command -v remote) OMPI_MCA_oob_tcp_if_include=10.98.0.0/24
export OMPI_MCA_plm OMPI_MCA_plm_rsh_agent OMPI_MCA_oob_tcp_if_include
remote th0 "cd $out && sh launch.sh mpirun -- sh $out/show" | sort -n >shown
diff wanted shown || exit 1
grep -q '^0 th2 3$' shown || exit 1

# A placement that mpirun does not follow is an error.
if remote th0 "cd $out && mpirun -np 8 --hostfile hosts sh $out/launch.sh rank-of-mpirun true" >refused 2>&1; then exit 1; fi
# mpirun ends with the first rank that reports it, whichever it is.
grep -q 'started rank [0-9] on th[0-2]; expected it on th[0-2]' refused || { cat refused >&2; exit 1; }
