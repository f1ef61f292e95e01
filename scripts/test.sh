#!/bin/sh
# test.sh [build|check]: installs missing packages, builds tpx in empty folders, and runs every test; tests of readers also run
# under sanitizers. "build" stops before the tests; "check" runs the tests of an earlier "build". The last line counts the tests.
set -u
cd "$(dirname "$0")/.." || exit 1
case ${1-} in
"" | build | check) ;;
*) echo "usage: test.sh [build|check]" >&2; exit 2 ;;
esac
. scripts/mpi-env.sh
status=0

# build PRESET TARGET...: configures and builds the preset in an empty folder build/test-PRESET.
build() {
    preset=$1
    shift
    echo "test: building $preset"
    rm -rf "build/test-$preset"
    mkdir -p "build/test-$preset"
    {
        cmake --preset "$preset" -B "build/test-$preset" && cmake --build "build/test-$preset" --target "$@"
    } >"build/test-$preset/build.log" 2>&1 || {
        cat "build/test-$preset/build.log"
        echo "test: the $preset build failed"
        exit 1
    }
}

# check PRESET CTEST-OPTION...: runs the tests of build/test-PRESET, one more at once than cores, because many tests wait.
check() {
    preset=$1
    shift
    ctest --test-dir "build/test-$preset" --output-on-failure --no-tests=error --parallel "$(($(nproc) + 1))" \
        --output-junit result.xml "$@" || status=1
}

if [ "${1-}" != check ]; then
    sh scripts/setup.sh test || exit 1
    . scripts/compiler-cache.sh
    build release all header_tests
    build asan unit_core unit_formats fuzz_readers
fi
[ "${1-}" != build ] || exit 0
check release
ASAN_OPTIONS=detect_leaks=0 check asan --tests-regex '^(unit\.core|unit\.formats|fuzz)'

awk -F '"' '
    /^\t(tests|failures|skipped|disabled)=/ { sub(/^\t/, "", $1); sub(/=$/, "", $1); sum[$1] += $2 }
    END {
        skipped = sum["skipped"] + sum["disabled"]
        printf "%d passed, %d failed, %d skipped\n", sum["tests"] - sum["failures"] - skipped, sum["failures"], skipped
    }' build/test-*/result.xml
exit $status
