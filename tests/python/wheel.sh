#!/bin/sh
# wheel.sh BUILD: makes a wheel from the build folder BUILD, installs it in a new virtual environment, and uses the
# module there. Exits with 77 (skipped) without Python 3.9 with venv, or if PyPI cannot be reached.
set -eu
build=$1
here=$(cd "$(dirname "$0")" && pwd)
cd "$here"
# shellcheck source=tests/with_python.sh
. ../with_python.sh
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python3 -m venv "$scratch/make" 2>/dev/null || { echo "skipped: no venv here (Debian: python3-venv)"; exit 77; }
"$scratch/make/bin/pip" install -q --disable-pip-version-check scikit-build-core || {
    python3 -c "import urllib.request; urllib.request.urlopen('${PIP_INDEX_URL:-https://pypi.org/simple}/scikit-build-core/', timeout=30)" && exit 1
    echo "skipped: PyPI cannot be reached"
    exit 77
}

"$scratch/make/bin/pip" wheel -q --disable-pip-version-check --no-build-isolation --no-deps -w "$scratch" \
    -C build-dir="$scratch/build" -C cmake.define.TPX_PREBUILT="$build" ../..
python3 -m venv "$scratch/use"
"$scratch/use/bin/pip" install -q --disable-pip-version-check "$scratch"/tpx-*.whl
unset PYTHONPATH TPX_PROGRAM
mkdir "$scratch/work"
cd "$scratch/work"
# The program of the environment is used, although it is not in PATH.
"$scratch/use/bin/python" "$here/module.py" "$here/../../testdata"
"$scratch/use/bin/tpx" --version
for file in lib/tpx share/man/man1/tpx.1 share/man/man7/tpx-json.7 share/bash-completion/completions/tpx share/tpx/schemas/inspect-1.json; do
    [ -e "$scratch/use/$file" ] || { echo "wheel: $file is missing"; exit 1; }
done
