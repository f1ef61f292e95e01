# shellcheck shell=sh
# Sourced by run.sh of a test folder, in that folder: prepares what its Python programs need. Exits with 77 (skipped) if
# Python 3.9 or later is missing.
python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null || {
    echo "skipped: Python 3.9 or later is missing"
    exit 77
}
# shellcheck source=scripts/mpi-env.sh
. ../../scripts/mpi-env.sh
export PYTHONDONTWRITEBYTECODE=1 LC_ALL=C
unset OMPI_COMM_WORLD_RANK PMIX_RANK PMI_RANK SLURM_PROCID
