# shellcheck shell=sh
# Sourced, with `tpx` and `slow` (slow_writes.so) set: works in a scratch folder, where `source` is a checkpoint of 64
# tensors of 1 MiB and `expected` contains the checksums of the files that `tpx reshard source OUT $options` writes. The
# tpx in PATH writes slowly.
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cd "$out" || exit 1
fail() {
    echo "$*"
    tail -n 100 ./*.log 2>/dev/null
    exit 1
}

# safetensors: the length of the header in 8 bytes, the header, the tensors.
header='{' at=0
for number in $(seq 64); do
    end=$((at + 1048576))
    header="$header\"layer.$number.weight\":{\"dtype\":\"F32\",\"shape\":[512,512],\"data_offsets\":[$at,$end]},"
    at=$end
done
header="${header%,}}"
mkdir source bin
{
    # shellcheck disable=SC2059 # octal escapes
    printf "$(printf '\\%o\\%o\\0\\0\\0\\0\\0\\0' $((${#header} % 256)) $((${#header} / 256)))"
    printf '%s' "$header"
    head -c "$at" /dev/urandom
} >source/model.safetensors
options="--to fsdp=4 --format dcp --json"
sums() { (cd "$1" && find . -type f -exec cksum {} + | sort -k 3); }
# shellcheck disable=SC2086 # words
"${tpx:?}" reshard source whole $options --quiet >stdout 2>&1 || fail "$(cat stdout)"
sums whole >expected && rm -r whole

cat >bin/tpx <<END
#!/bin/sh
LD_PRELOAD="${slow:?}" exec "$tpx" "\$@"
END
chmod +x bin/tpx
PATH=$out/bin:$PATH
SLOW_WRITES_MS=50
export PATH SLOW_WRITES_MS

# wait_for SECONDS COMMAND...: until the command succeeds
wait_for() {
    tries=$(($1 * 10))
    shift
    until "$@" >/dev/null 2>&1; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || fail "waited too long: $*"
        sleep 0.1
    done
}
# Whether the run that writes OUT has written several tensors; files have their final size from the beginning.
has_written() { [ "$(du -cm "$1".partial-* | tail -n 1 | cut -f 1)" -ge 16 ]; }
# The state of a job; "gone" if Slurm has forgotten it.
state_of() { scontrol --oneliner show job "$1" | sed -n 's/.* JobState=\([A-Z_]*\).*/\1/p'; }
is_in_state() { [ "$(state_of "$1")" = "$2" ]; }
# OUT equals the output of an undisturbed run, and nothing is left next to it.
is_whole() {
    sums "$1" >found
    cmp -s expected found || fail "$1 differs from the output of an undisturbed run"
    [ -z "$(find . -maxdepth 1 -name "$1.*" ! -name '*.log' ! -name '*.job' ! -name '*.folder')" ] || fail "something is left beside $1"
}
