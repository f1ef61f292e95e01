# shellcheck shell=sh disable=SC2154
# Sourced by tests after frameworks.sh. Needs $here, the folder of this file, and $venv.

# warm_python FOLDER NAME...: makes FOLDER/warm-python, which runs a Python program as $venv/bin/python does, but in a process forked
# from one that has imported the modules NAME and all that the programs NAME.py import. The importing process ends when the test does.
warm_python() {
    warm=$1
    shift
    "$venv/bin/python" "$here/warm_python.py" serve "$warm/socket" "$@" &
    until [ -S "$warm/socket" ]; do
        kill -0 $! 2>/dev/null || { echo "warm_python: cannot import $*"; exit 1; }
        sleep 0.1
    done
    cat >"$warm/warm-python" <<SCRIPT
#!/bin/sh
[ "\$1" != -u ] || shift
exec "$venv/bin/python" -I -S "$here/warm_python.py" run "$warm/socket" "\$@"
SCRIPT
    chmod +x "$warm/warm-python"
}
