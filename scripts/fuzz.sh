#!/bin/sh
# fuzz.sh SECONDS [ENTRY...]: fuzzes readers with libFuzzer, starting from valid files, under the address and
# undefined-behavior sanitizers, each reader for SECONDS. Without entries, it fuzzes every reader of checkpoints. Findings
# are in build/fuzz/ENTRY-*; the corpus in build/fuzz/corpus grows from run to run. Prints one line per entry; the exit
# status is 1 if there is a finding. With TPX_FIXTURES, checkpoints below that folder are seeds, too.
set -u
cd "$(dirname "$0")/.." || exit 1
if [ $# -eq 0 ]; then
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
seconds=$1
shift
sh scripts/setup.sh fuzz || exit 1
mkdir -p build/fuzz
{ cmake --preset fuzz && cmake --build --preset fuzz --target libfuzzer_readers; } >build/fuzz/build.log || {
    cat build/fuzz/build.log
    exit 1
}

readers='torch torch-checkpoint pickle state safetensors safetensors-index dcp-metadata dcp-file torch_dist-metadata torch_dist-file
    torch_dist-common megatron-model megatron-optimizer deepspeed-model deepspeed-optimizer deepspeed-optimizer3
    deepspeed-universal hdf5 gguf'
status=0

# seeds ENTRY: prints the seed files of the entry, one per line.
seeds() {
    awk -v entry="$1" '$1 == entry { for (k = 2; k <= NF; ++k) print $k }' build/fuzz/fuzz_seeds.txt
    [ -n "${TPX_FIXTURES:-}" ] || return
    case $1 in
        torch | torch-checkpoint | state) find "$TPX_FIXTURES" -name '*.pt' -size -64k ;;
        pickle | dcp-metadata) find "$TPX_FIXTURES" -name .metadata -size -64k ;;
        torch_dist-metadata) find "$TPX_FIXTURES"/megatron -name .metadata -size -64k ;;
        safetensors) find "$TPX_FIXTURES" -name '*.safetensors' -size -64k ;;
        hdf5) find "$TPX_FIXTURES" \( -name '*.h5' -o -name '*.keras' \) -size -64k ;;
    esac
}

# longest ENTRY: prints the seconds that one input may take. tpx stops libhdf5 after 20 s of CPU time, which some inputs reach.
longest() {
    case $1 in
        hdf5) echo 120 ;;
        *) echo 10 ;;
    esac
}

# fuzz ENTRY: runs libFuzzer on the entry.
fuzz() {
    corpus=build/fuzz/corpus/$1
    mkdir -p "$corpus"
    seeds "$1" | while read -r file; do cp "$file" "$corpus/$(cksum <"$file" | tr ' ' -)"; done
    ASAN_OPTIONS=detect_leaks=0 nice build/fuzz/tests/libfuzzer_readers "--entry=$1" -max_total_time="$seconds" \
        -timeout="$(longest "$1")" -rss_limit_mb=4096 -malloc_limit_mb=256 -max_len=65536 -print_final_stats=1 -artifact_prefix="build/fuzz/$1-" \
        "$corpus" >"build/fuzz/$1.log" 2>&1 || {
        status=1
        echo "$1: finding, see build/fuzz/$1.log"
        return
    }
    awk -v entry="$1" '
        /^stat::number_of_executed_units/ { runs = $2 }
        / cov: / { for (k = 1; k < NF; ++k) if ($k == "cov:") edges = $(k + 1) }
        END { printf "%s: %d executions, %d edges, no finding\n", entry, runs, edges }' "build/fuzz/$1.log"
}

# shellcheck disable=SC2086 # one word a reader
[ $# -gt 0 ] || set -- $readers
for entry; do
    fuzz "$entry"
done
exit $status
