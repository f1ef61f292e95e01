#!/bin/sh
# run.sh PROGRAM [SCRIPT]: check.py, or SCRIPT; exit 77, skipped, where there is no Python 3.9 or later, or no Chromium.
set -u
cd "$(dirname "$0")" || exit 1
python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null || {
    echo "skipped: no Python 3.9 here"
    exit 77
}
export PYTHONDONTWRITEBYTECODE=1
exec python3 "${2:-check.py}" "$1"
