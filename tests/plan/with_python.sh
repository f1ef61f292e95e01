# shellcheck shell=sh
# with_python.sh: for tests that read plans in Python; sourced in the root of the source tree. Sets $python, which has
# h5py and numpy, and $scratch, a folder that is removed at the end. Exits with 77 (skipped) without such a Python.
python=
venv=${TPX_INTEROP_VENV:-${XDG_CACHE_HOME:-${HOME-}/.cache}/tpx-interop}
for candidate in ${TPX_PYTHON-python3 /usr/bin/python3 "$venv/bin/python"}; do
    if "$candidate" -c 'import h5py, numpy' 2>/dev/null; then python=$candidate && break; fi
done
if [ -z "$python" ]; then
    echo "skipped: no Python has h5py and numpy"
    exit 77
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
