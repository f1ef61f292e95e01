#!/bin/sh
# migrate.sh TPX TESTDATA: tpx migrate on emulated hosts with 1 Gbit/s each. Each of their interfaces carries, in each
# direction, the bytes in the plan plus at most 5 % for TCP, MPI and metadata. Exits with 77 (skipped) if hosts cannot
# be emulated, or without Python.
set -u
command -v python3 >/dev/null || { echo "skipped: no python3 here"; exit 77; }
tpx=$1
here=$(cd "$(dirname "$0")" && pwd)
if [ "${3:-}" != measure ]; then
    out=$(mktemp -d) && trap 'rm -rf "$out"' EXIT
    cd "$out" || exit 1
    sh "$here/hosts.sh" 1gbit 1gbit 1gbit 1gbit -- sh "$here/migrate.sh" "$tpx" "$2" measure
    exit
fi

# 256 MB in 64 tensors, in four shards.
python3 - <<'PYTHON' || exit 1
import json, pathlib, random
random.seed(1)
for shard in range(4):
    names = [f"model.layers.{shard}.w{k}.weight" for k in range(16)]
    size = 4 * 1024 * 1024
    head = json.dumps({n: {"dtype": "F32", "shape": [1024, 1024], "data_offsets": [k * size, (k + 1) * size]} for k, n in enumerate(names)}).encode()
    folder = pathlib.Path(f"stores/th{shard}")
    folder.mkdir(parents=True)
    weight_map = {f"model.layers.{s}.w{k}.weight": f"model-{s + 1:05}-of-00004.safetensors" for s in range(4) for k in range(16)}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    (folder / f"model-{shard + 1:05}-of-00004.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + random.randbytes(16 * size))
PYTHON
mkdir all && for store in stores/*; do cp "$store"/* all/ || exit 1; done
"$tpx" verify --write all >/dev/null || exit 1
for store in stores/*; do cp all/tpx.digests.json "$store/" || exit 1; done

printf 'th%s slots=1\n' 0 1 2 3 >hosts.txt

# shellcheck source=tests/net/carried.sh
. "$here/carried.sh"
carried before
mpirun-hosts -n 4 "$tpx" migrate "$PWD/stores/{host}" "$PWD/new/{host}" --hosts "$PWD/hosts.txt" --to fsdp=4 --format dcp \
    --json >out.json || exit 1
carried after
mkdir merged && for store in new/*; do cp -R "$store/." merged/ || exit 1; done
"$tpx" verify all merged || exit 1
python3 - <<'PYTHON' || exit 1
import json, sys
done = json.load(open("out.json"))
counts = lambda name: {line.split()[0]: [int(word) for word in line.split()[1:]] for line in open(name)}
before, after = counts("before"), counts("after")
wrong = 0
for host in done["hosts"]:
    sent, received = (b - a for a, b in zip(before[host["name"]], after[host["name"]]))
    # The other direction carries acknowledgments, at most 66 bytes per 1448.
    for direction, plan, other, bytes in (("sends", host["sends"], host["receives"], sent), ("receives", host["receives"], host["sends"], received)):
        print(f"{host['name']} {direction} {plan} bytes by the plan, its interface carries {bytes}")
        wrong += not plan <= bytes <= 1.05 * plan + 0.046 * other + 2e6
busiest = max(max(host["sends"], host["receives"]) for host in done["hosts"])
print(f"{done['seconds']:.2f} s, at least {busiest / 119.5e6:.2f} s by the busiest NIC")
sys.exit(wrong > 0)
PYTHON

# Stores that contain different files of the same name are reported by rank and host.
cp stores/th0/model-00001-of-00004.safetensors stores/th2/ || exit 1
printf x | dd of=stores/th2/model-00001-of-00004.safetensors bs=1 seek=20000 conv=notrunc status=none
mpirun-hosts -n 4 "$tpx" migrate "$PWD/stores/{host}" "$PWD/other/{host}" --hosts "$PWD/hosts.txt" --to fsdp=4 2>err && exit 1
if ! grep -q 'model-00001-of-00004.safetensors: differs between the stores of rank 0 on host th0 and rank 2 on host th2;' err; then
    cat err >&2
    exit 1
fi
