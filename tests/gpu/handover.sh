#!/bin/sh
# handover.sh TPX CUDART: runs handover.py with PyTorch. Exit 77: no PyTorch here.
set -u
# shellcheck source=tests/interop/frameworks.sh
. "$(dirname "$0")/../interop/frameworks.sh"
exec "$venv/bin/python" -W ignore "$(dirname "$0")/handover.py" "$@"
