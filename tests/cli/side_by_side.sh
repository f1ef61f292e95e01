# shellcheck shell=bash disable=SC2154
# Sourced by tests whose parts do not depend on each other, and which mostly wait for processes. $scratch is the folder of the test.
# apart FUNCTION: runs it in a new folder, which becomes $scratch, after the function that $each names.
apart() {
    scratch=$scratch/$1
    mkdir "$scratch" && cd "$scratch" || exit 1
    trap 'rm -rf "$scratch"' EXIT
    [ -z "${each:-}" ] || "$each"
    "$1"
}
# side_by_side N FUNCTION...: runs each function apart, N at a time. Fails after all of them if one has failed.
side_by_side() {
    local most=$1 name failed=()
    shift
    for name in "$@"; do
        while [ "$(jobs -rp | wc -l)" -ge "$most" ]; do wait -n; done
        { (apart "$name") >"$name.log" 2>&1; echo $? >"$name.status"; } &
    done
    wait
    for name in "$@"; do
        cat "$name.log"
        [ "$(cat "$name.status")" = 0 ] || failed+=("$name")
    done
    [ ${#failed[@]} -eq 0 ] || { echo "$(basename "$0" .sh): failed: ${failed[*]}" >&2; exit 1; }
}
