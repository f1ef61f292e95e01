#!/bin/sh
# readme.sh TPX: README.md must show the output of the demonstration, except the times. UPDATE=1 writes it there.
set -eu
folder=$(dirname "$1")
cd "$(dirname "$0")/.."

shown=$(mktemp)
written=$(mktemp)
trap 'rm -f "$shown" "$written"' EXIT

sh scripts/demo.sh "$folder" >"$shown"
if [ "${UPDATE-}" ]; then
    sed -i -e '/<!-- demo -->/,/<!-- end -->/{/<!--/!d}' README.md
    sed -e '1d' -e 's/^\(.\)/    \1/' "$shown" >"$written"
    sed -i "/<!-- demo -->/r $written" README.md
fi
without_times() { sed -e '/./!d' -e 's/ in [0-9.]* [mu]*s, .*//'; }
sed -n '/<!-- demo -->/,/<!-- end -->/{/<!--/!s/^    //p}' README.md | without_times >"$written"
without_times <"$shown" | diff -u "$written" - || { echo "README.md shows something else; UPDATE=1 sh tests/readme.sh $1"; exit 1; }
