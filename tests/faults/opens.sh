#!/bin/sh
# opens.sh TPX SHIM TESTDATA: tpx reshard on two ranks into many files. Each rank opens a file that it writes at most
# twice, the ranks of a machine sync each file once, and the bytes around a payload are written in one call. Exits with
# 77 (skipped) without mpirun.
set -u
tpx=$1 shim=$2 source=$3/llama-hf
# shellcheck source=scripts/mpi-env.sh
. "$(dirname "$0")/../../scripts/mpi-env.sh"
command -v mpirun >/dev/null || { echo "skipped: mpirun is missing"; exit 77; }
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
folder=$(cd "$folder" && pwd -P)
mkdir "$folder/work"
mpirun -n 2 env LD_PRELOAD="$shim" TPX_FAULT_FOLDER="$folder/work" TPX_FAULT_TRACE="$folder/trace" \
    "$tpx" reshard "$source" "$folder/work/out" --to fsdp=16 --format dcp --quiet || exit 1
faults=0
for rank in 0 1; do
    most=$(grep '^open .*/__[0-9]*_0.distcp' "$folder/trace.$rank" | sort | uniq -c | sort -n | tail -n 1 | awk '{ print $1 }')
    echo "rank $rank opens a file ${most:-no} times"
    [ "${most:-9}" -le 2 ] || faults=1
done
cat "$folder/trace.0" "$folder/trace.1" | grep '^sync .*/__[0-9]*_0.distcp' | sort | uniq -c | awk '{ print $1 }' >"$folder/syncs"
files=$(wc -l <"$folder/syncs") syncs=$(awk '{ sum += $1 } END { print sum + 0 }' "$folder/syncs")
echo "$files files are brought to disk $syncs times"
[ "$files" -eq 16 ] && [ "$syncs" -eq 16 ] || faults=1
writes=$(cat "$folder/trace.0" "$folder/trace.1" | grep -c '^write .*/__[0-9]*_0.distcp')
echo "332 pieces are written with $writes writes"
[ "$writes" -gt 0 ] && [ "$writes" -le $((2 * 332 + 16)) ] || faults=1
exit $faults
