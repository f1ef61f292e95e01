#!/bin/sh
# kill.sh TPX TESTDATA [COUNT]: kills reshard COUNT times (20), each time a little later, while it replaces an output.
# After each kill, the output is the complete old or new one, and no incomplete folder next to it looks like a
# checkpoint.
set -u
tpx=$1 testdata=$2 count=${3:-20}
scratch=$(mktemp -d) && trap 'rm -rf "$scratch"' EXIT
unset OMPI_COMM_WORLD_RANK PMIX_RANK PMI_RANK SLURM_PROCID SLURM_JOB_ID
cp -R "$testdata/llama-small/megatron-tp2pp2" "$scratch/old" && cp -R "$testdata/llama-rope/hf" "$scratch/new" || exit
cd "$scratch" || exit
digest() { "$tpx" verify "$1" 2>/dev/null | cut -d ' ' -f 1; }
old=$(digest old) new=$(digest new)
[ -n "$old" ] && [ -n "$new" ] && [ "$old" != "$new" ] || exit

# The time of a complete run, in milliseconds.
begin=$(date +%s%N)
cp -R old out && "$tpx" reshard new out --to tp=2 --force --quiet >stdout || exit
took=$((($(date +%s%N) - begin) / 1000000))

killed=0 unfinished=0 fresh=0
for k in $(seq 1 "$count"); do
    rm -rf out out.* && cp -R old out
    "$tpx" reshard new out --to tp=2 --force --quiet >stdout 2>stderr &
    pid=$!
    sleep "$(printf '%d.%03d' 0 $((took * 5 * k / (4 * count))))"
    kill -9 "$pid" 2>/dev/null && killed=$((killed + 1))
    wait "$pid" 2>/dev/null
    case $(digest out) in
        "$old") ;;
        "$new") fresh=$((fresh + 1)) ;;
        *) echo "kill $k: out is neither the old nor the new output" && ls -R . && exit 1 ;;
    esac
    for left in out.*; do
        [ -e "$left" ] || continue
        unfinished=$((unfinished + 1))
        found=$(digest "$left")
        [ -z "$found" ] || [ "$found" = "$old" ] || [ "$found" = "$new" ] || {
            echo "kill $k: $left is taken for a checkpoint" && ls -R . && exit 1
        }
        [ -n "$found" ] || [ ! -e "$left/tpx.unfinished" ] || "$tpx" inspect "$left" 2>&1 | grep -q 'not a checkpoint$' || {
            echo "kill $k: inspect does not say what $left is" && "$tpx" inspect "$left"; ls -R . && exit 1
        }
        # Frameworks find no metadata before all files are complete.
        case $left in *.partial-*)
            if [ -n "$(find "$left" -name '*.partial')" ]; then
                [ -z "$(find "$left" -name '*.json')" ] || {
                    echo "kill $k: $left looks whole" && ls -R . && exit 1
                }
            elif [ -n "$(find "$left" -name '*.safetensors')" ] && [ -e "$left/tpx.unfinished" ]; then
                mv "$left/tpx.unfinished" marker
                [ "$(digest "$left")" = "$new" ] || { echo "kill $k: $left is not whole" && ls -R . && exit 1; }
                mv marker "$left/tpx.unfinished"
            fi
            ;;
        esac
    done
done
echo "$count runs of $took ms: $killed killed, $fresh had replaced the output, $unfinished folders left"
# A later run succeeds whatever is left, and names the leftovers.
"$tpx" reshard new out --to tp=2 --force --quiet >stdout && [ "$(digest out)" = "$new" ]
