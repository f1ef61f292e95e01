#!/bin/sh
# Every C++ file is as clang-format 14 writes it.
set -u
tool=$(command -v clang-format-14 || command -v clang-format) || { echo "skipped: no clang-format here"; exit 77; }
case $("$tool" --version) in
*"version 14."*) ;;
*) echo "skipped: $("$tool" --version) is not version 14"; exit 77 ;;
esac
find . -path './build*' -prune -o \( -name '*.cpp' -o -name '*.hpp' \) -exec "$tool" --dry-run -Werror {} +
