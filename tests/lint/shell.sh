#!/bin/sh
# Every shell script passes shellcheck.
set -u
command -v shellcheck >/dev/null || { echo "skipped: shellcheck is missing"; exit 77; }
find . -path './build*' -prune -o \( -name '*.sh' -o -path ./.ci/run \) \
    -exec shellcheck --external-sources --source-path=scripts {} +
