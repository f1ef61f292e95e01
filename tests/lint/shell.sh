#!/bin/sh
# No shell script gives shellcheck anything to say.
set -u
command -v shellcheck >/dev/null || { echo "skipped: no shellcheck here"; exit 77; }
find . -path './build*' -prune -o \( -name '*.sh' -o -path ./.ci/run \) \
    -exec shellcheck --external-sources --source-path=scripts {} +
