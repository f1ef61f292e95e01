#!/bin/sh
# run.sh PROGRAM ARGS...: runs PROGRAM.py; exits with 77 (skipped) if Python 3.9 or later is missing.
set -u
cd "$(dirname "$0")" || exit 1
python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null || {
    echo "skipped: no Python 3.9 here"
    exit 77
}
# shellcheck source=scripts/mpi-env.sh
. ../../scripts/mpi-env.sh
export PYTHONDONTWRITEBYTECODE=1 LC_ALL=C
unset OMPI_COMM_WORLD_RANK PMIX_RANK PMI_RANK SLURM_PROCID
program=$1 && shift
exec python3 "$program.py" "$@"
