#!/bin/sh
# The table of model families and the lists in the man page are what the rules and the tests say.
set -u
python3 -c 'import tomllib' 2>/dev/null || { echo "skipped: no Python 3.11 here"; exit 77; }
exec python3 scripts/family-table.py --check
