#!/bin/sh
# file_schemas.sh TPX TESTDATA: the lines of --log, and files that tpx reads and writes, match the schemas in man/schemas/.
# Exits with 77 (skipped) without a Python with jsonschema and tomllib.
set -u
tpx=$1 testdata=$2
here=$(cd "$(dirname "$0")" && pwd) || exit 1
python=
for candidate in ${TPX_PYTHON-python3 /usr/bin/python3}; do
    if "$candidate" -W ignore -c 'import jsonschema, tomllib' 2>/dev/null; then python=$candidate && break; fi
done
if [ -z "$python" ]; then
    echo "skipped: no Python has jsonschema and tomllib (Debian: python3-jsonschema)"
    exit 77
fi
scratch=$(mktemp -d) && trap 'rm -rf "$scratch"' EXIT
# shellcheck source=scripts/mpi-env.sh
. "$here/../../scripts/mpi-env.sh"
unset OMPI_COMM_WORLD_RANK PMIX_RANK PMI_RANK SLURM_PROCID SLURM_JOB_ID
cd "$scratch" || exit 1
fail() {
    echo "file_schemas: $*" >&2
    cat err >&2
    exit 1
}
dcp=$testdata/llama-rope/dcp-fsdp2

# Logs of runs that succeed, change nothing, or fail.
"$tpx" reshard "$dcp" out --to fsdp=3 --log log -q 2>err || fail "reshard failed"
"$tpx" reshard "$dcp" other --to fsdp=3 --dry-run --log log -q 2>err || fail "a dry run failed"
"$tpx" reshard "$dcp" out --to fsdp=3 --log log 2>err && fail "an output was replaced"
store='--emulate --hosts 2x2 --store s/{host} --log log'
# shellcheck disable=SC2086 # several words
mpirun -n 2 "$tpx" migrate $store --import "$dcp" --iteration 7 --to fsdp=2 -q 2>err || fail "an import failed"
# shellcheck disable=SC2086 # several words
mpirun -n 2 "$tpx" migrate $store --to fsdp=2,vn=4 --batch 8 --leaving host1 --within 1h -q 2>err ||
    fail "leaving failed"
# Files that tpx writes.
"$tpx" profile hardware --seconds 1 --skip gpus -o hardware.toml -q 2>err || fail "profile hardware failed"
"$tpx" simulate --generate jobs=5,hourly=12 --cluster 2x4 --write-trace trace.csv -q 2>err || fail "simulate failed"
# A file with every key of the schema, which tpx reads.
"$python" "$here/file_schemas.py" example "$here/../../man/schemas" >hosts.toml || exit 1
"$tpx" plan --model gpt3-1.3b --from tp=2 --to tp=1,dp=2 --hosts hosts.toml -q 2>err || fail "hosts.toml is refused"

"$python" -W ignore "$here/file_schemas.py" check "$here/../../man/schemas" "$testdata"
