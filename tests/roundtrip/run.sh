#!/bin/sh
# run.sh TPX PROGRAM: runs one of the programs here; exits with 77 (skipped) without Python 3.9 or later.
set -u
cd "$(dirname "$0")" || exit 1
python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null || {
    echo "skipped: Python 3.9 or later is missing"
    exit 77
}
# shellcheck source=mpi-env.sh
. ../../scripts/mpi-env.sh
export PYTHONDONTWRITEBYTECODE=1
exec python3 "$2.py" "$1"
