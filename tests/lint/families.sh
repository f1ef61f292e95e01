#!/bin/sh
# The table of model families and the lists in the man page agree with the rules and the tests.
set -u
python3 -c 'import tomllib' 2>/dev/null || { echo "skipped: Python 3.11 or later is missing"; exit 77; }
exec python3 scripts/family-table.py --check
