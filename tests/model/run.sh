#!/bin/sh
# run.sh TPX: compares tpx profile predict with predictor.py; exit 77, skipped, where there is no Python 3.9 or later.
set -u
cd "$(dirname "$0")" || exit 1
python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null || {
    echo "skipped: no Python 3.9 here"
    exit 77
}
export PYTHONDONTWRITEBYTECODE=1
exec python3 predictor.py "$1"
