#!/bin/sh
# run.sh TPX: compares tpx profile predict with predictor.py. Exits with 77 (skipped) without Python 3.9 or later.
set -u
cd "$(dirname "$0")" || exit 1
python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null || {
    echo "skipped: Python 3.9 or later is missing"
    exit 77
}
export PYTHONDONTWRITEBYTECODE=1
exec python3 predictor.py "$1"
