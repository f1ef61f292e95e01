#!/bin/sh
# run.sh PROGRAM ARGS...: runs PROGRAM.py; exits with 77 (skipped) if Python 3.9 or later is missing.
set -u
cd "$(dirname "$0")" || exit 1
# shellcheck source=tests/with_python.sh
. ../with_python.sh
program=$1 && shift
exec python3 "$program.py" "$@"
