#!/bin/sh
# run.sh TPX SHIM RANKS TESTDATA [OPTION]...: runs sweep.py; exits with 77 (skipped) if Python 3.9 or later is missing.
set -u
cd "$(dirname "$0")" || exit 1
# shellcheck source=tests/with_python.sh
. ../with_python.sh
exec python3 sweep.py "$@"
