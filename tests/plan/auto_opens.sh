#!/bin/sh
# auto_opens.sh TPX: `plan --to auto` opens each file of a checkpoint once, however many layouts it compares.
set -eu
cd "$(dirname "$0")/../.."
ckpt=testdata/dcp/fsdp2-tp2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
strace -f -e trace=openat -o "$scratch/trace" true 2> /dev/null || { echo "skipped: strace is missing"; exit 77; }
strace -f -e trace=openat -o "$scratch/trace" "$1" plan "$ckpt" --to auto --hosts 2x4 --json -q > "$scratch/found"
layouts=$(grep -o '"layout"' "$scratch/found" | wc -l)
[ "$layouts" -gt 2 ] || { echo "only $layouts layouts are compared"; exit 1; }
for file in "$ckpt"/.metadata "$ckpt"/*.distcp; do
    opens=$(grep -cF "\"$file\"" "$scratch/trace") || true
    [ "$opens" -eq 1 ] || { echo "$file: opened $opens times for $layouts layouts"; exit 1; }
done
