#!/bin/bash
# elastic_sampler.sh TPX TESTDATA PRINT_SAMPLES: tests tpx migrate --data with examples/elastic_sampler.py, which reads its
# output. Both compute the same order of samples; in every sequence of layouts, ranks train on each sample once per epoch, in
# the same batches; the position moves with the state. Invalid data files are rejected with one line.
set -u
tpx=$1 testdata=$2 print_samples=$3
command -v python3 >/dev/null || { echo "skipped: python3 is missing"; exit 77; }
# shellcheck source=scripts/mpi-env.sh
. "$(dirname "$0")/../../scripts/mpi-env.sh"
examples=$(cd "$(dirname "$0")/../../examples" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM
cd "$scratch" || exit 1
fail() {
    echo "elastic_sampler: $*" >&2
    cat err out >&2
    exit 1
}

# The order of samples, for several sizes of data sets.
for case in '1 5 0 5' '10 1234 0 40' '4097 9223372036854775807 0 9000' '1000000007 42 3000000000 3003000'; do
    read -r samples seed first last <<<"$case"
    [ "$last" -gt "$first" ] || last=$((first + 3000))
    echo "{\"samples\": $samples, \"seed\": $seed, \"global_batch\": 1, \"consumed\": 0, \"files\": [], \"ranks\": []}" >data.json
    python3 "$examples/elastic_sampler.py" data.json "$first" "$last" >out 2>err || fail "elastic_sampler.py: $case"
    "$print_samples" "$samples" "$seed" "$first" "$last" | cmp -s - out || fail "other samples in Python: $case"
done

# Bad input is one line, and no traceback.
for case in 'nowhere.json 0 1|nowhere.json: No such file or directory' '. 0 1|.: Is a directory' 'text 0 1|text: Expecting value' \
    'list 0 1|list: is not a JSON object' 'empty 0 1|must be a whole number of at least 1; is this a tpx.data.json?' \
    'none 0 1|must be a whole number of at least 1' 'bytes 0 1|bytes: ' 'data.json 3 1|FIRST, 3, is greater than LAST, 1' \
    'data.json x 1|FIRST and LAST must be whole numbers' 'data.json -1 1|FIRST and LAST must be whole numbers' 'data.json 0|usage: '; do
    echo text >text && echo '[]' >list && echo '{}' >empty && printf '\377\376' >bytes || exit
    echo '{"samples": 0, "seed": 0, "global_batch": 1, "consumed": 0, "files": [], "ranks": []}' >none
    # shellcheck disable=SC2086 # words
    python3 "$examples/elastic_sampler.py" ${case%|*} >out 2>err
    [ $? -eq 1 ] || fail "elastic_sampler.py accepts ${case%|*}"
    { grep -qF -- "${case#*|}" err && ! grep -q Traceback err && [ ! -s out ]; } || fail "not '${case#*|}' for ${case%|*}"
done
python3 "$examples/elastic_sampler.py" data.json 0 1000000 2>err | head -n 1 >out
[ ! -s err ] || fail "a reader that ends early"

migrate() {
    mpirun -n 2 "$tpx" migrate --store 's/{host}' --emulate --hosts 2x2 "$@" >out 2>err
    status=$?
}
# changed ARGS...: changes the state; afterwards, all hosts have the same data position.
changed() {
    migrate "$@"
    [ "$status" -eq 0 ] || fail "status $status: $*"
    cmp -s s/host0/current/tpx.data.json s/host1/current/tpx.data.json || fail "no data position on all hosts: $*"
}
dcp=$testdata/llama-rope/dcp-fsdp2
printf '%s\n' 'global_batch = 20' 'virtual_nodes = 4' 'seed = 7' 'consumed = 40' '[[files]]' 'path = "a.txt"' \
    '[[files]]' 'path = "b.tar"' 'samples = 70' >data.toml
seq 37 >a.txt

# train STEPS: trains all ranks for STEPS steps from the current position, and stores the next position as trainers do.
train() {
    python3 -B - "$examples" "$1" <<'PYTHON' >out 2>err || fail "trainer: $(tail -n 1 err)"
import json, sys
sys.path.insert(0, sys.argv[1])
from elastic_sampler import DataPosition, ElasticSampler
position, steps = DataPosition.read("s/host0/current/tpx.data.json"), int(sys.argv[2])
ranks = position.document["ranks"]
with open("batches", "a") as log:
    for step in range(steps):
        batch = {}
        for rank in range(len(ranks)):
            batch.update(position.batch(step, rank))
        assert sorted(batch) == [0, 1, 2, 3], batch
        print(position.consumed + step * position.global_batch, *(batch[node] for node in sorted(batch)), file=log)
for rank in range(len(ranks)):
    assert len(list(ElasticSampler(position, rank, steps))) == len(ElasticSampler(position, rank, steps))
assert [position.file_of(k) for k in (0, 36, 37, 106)] == [("a.txt", 0), ("a.txt", 36), ("b.tar", 0), ("b.tar", 69)]
json.dump(position.advanced(steps), open("advanced.json", "w"))
PYTHON
    # The trainer's checkpoint: the same tensors, with the new position.
    rm -rf ckpt && mkdir ckpt && cp -RL s/host0/current/. s/host1/current/. ckpt/ && rm ckpt/manifest.json && cp advanced.json ckpt/tpx.data.json || exit
    iteration=$((iteration + $1))
    changed --import ckpt --iteration "$iteration"
}

# A job whose layout changes trains on the same batches as a job whose layout never changes.
iteration=2
for layouts in 'fsdp=4' 'fsdp=2 fsdp=3 tp=2,fsdp=2 fsdp=4'; do
    rm -rf s batches
    changed --import "$dcp" --iteration $iteration --data data.toml --to fsdp=2
    for layout in $layouts; do
        changed --to "$layout"
        train 3
    done
    while [ "$(wc -l <batches)" -lt 12 ]; do train 3; done
    iteration=2
    if [ -e expected ]; then cmp -s batches expected || fail "other batches: $layouts"; else mv batches expected; fi
done
# Positions 40 to 280 contain the whole second epoch, from 107 to 214.
python3 -B - <<'PYTHON' >out 2>err || fail "samples were dropped or repeated"
import json
samples = [sample for line in open("expected") for node in json.loads("[" + line.split(" ", 1)[1].replace("] [", "], [") + "]") for sample in node]
assert len(samples) == 240
assert sorted(samples[67:174]) == list(range(107))
assert len(set(samples[:67])) == 67 and len(set(samples[174:])) == 66
PYTHON

# A sharded state keeps the position through exports and plain folders, too.
rm -rf exported && migrate --export exported
{ [ "$status" -eq 0 ] && grep -q '"consumed": 280' exported/tpx.data.json; } || fail "the export has no data position"
migrate --to fsdp=2 --json
grep -q '"data":{"schema":"tpx.data/1","samples":107,"seed":7,"global_batch":20,"virtual_nodes":4,"consumed":280,"epoch":2,"cursor":66' out ||
    fail "no data position in the JSON"
grep -q '"share":{"dp_rank":1,.*"local_batch":10,"gradient_weight":0.5}' out || fail "no share in the JSON"

# refused TEXT ARGS...: tpx migrate exits with status 2 and one line that contains TEXT.
refused() {
    migrate "${@:2}"
    { [ "$status" -eq 2 ] && grep -q -- "$1" err && [ "$(grep '^tpx:' err | grep -vc 'tpx: note:')" -eq 1 ]; } || fail "not refused with '$1': $status ${*:2}"
}
refused 'vn=8, but the data position has 4 virtual nodes' --to fsdp=2,vn=8
refused 'batch 30: the data position has global batches of 20' --to fsdp=2 --batch 30
sed -i 's/consumed = 40/consumed = 41/' data.toml
refused 'data.toml:4: 41 consumed samples are not a multiple' --to fsdp=2 --data data.toml
sed -i -e '/consumed/d' data.toml
refused 'data.toml: consumed is missing' --to fsdp=2 --data data.toml
rm -rf s
printf '%s\n' 'samples = 100' 'global_batch = 20' 'seed = 7' 'consumed = 40' >data.toml
refused 'number of virtual nodes is unknown' --import "$dcp" --iteration 2 --data data.toml
echo ok
