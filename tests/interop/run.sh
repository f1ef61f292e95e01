#!/bin/sh
# run.sh TPX FORMAT: loads the output of TPX in FORMAT with the framework of that format. Exits with 77 (skipped)
# without the frameworks.
set -u
cd "$(dirname "$0")" || exit 1
tpx=$1
format=$2
# shellcheck source=tests/interop/frameworks.sh
. ./frameworks.sh
# shellcheck source=mpi-env.sh
. ../../scripts/mpi-env.sh
exec "$venv/bin/python" run.py "$tpx" "$format"
