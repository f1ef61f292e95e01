#!/bin/sh
# count.sh TPX: checks per-rank bytes of plans for checkpoints of the real frameworks, counted without tpx. Exits with
# 77 (skipped) without Python or fixtures.
set -eu
cd "$(dirname "$0")/../.."
fixtures=${TPX_FIXTURES-../shared/fixtures}
python=${TPX_PYTHON-python3}
[ -d "$fixtures" ] || {
    echo "skipped: no folder $fixtures (set TPX_FIXTURES)"
    exit 77
}
"$python" -c 'import json' 2>/dev/null || {
    echo "skipped: no $python"
    exit 77
}
exec "$python" tests/plan/count.py "$1" "$fixtures"
