#!/bin/sh
# Every C++ file is formatted by clang-format 14.
set -u
tool=$(command -v clang-format-14 || command -v clang-format) || { echo "skipped: clang-format is missing"; exit 77; }
case $("$tool" --version) in
*"version 14."*) ;;
*) echo "skipped: $("$tool" --version) is not version 14"; exit 77 ;;
esac
find . -path './build*' -prune -o \( -name '*.cpp' -o -name '*.hpp' \) -exec "$tool" --dry-run -Werror {} +
