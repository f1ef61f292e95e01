#!/bin/sh
# startup.sh TPX: what needs no MPI is there within 20 ms; the best of many runs counts, others may be using the machine.
set -u
best=
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25; do
    begin=$(date +%s%N)
    "$1" --help >/dev/null || exit
    took=$((($(date +%s%N) - begin) / 1000))
    [ -z "$best" ] || [ "$took" -lt "$best" ] && best=$took
done
echo "tpx --help takes $best us"
[ "$best" -le 20000 ]
