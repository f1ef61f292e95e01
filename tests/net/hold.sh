#!/bin/sh
# hold.sh TPX: tpx hold moves state between the keepers of three emulated hosts with 1 Gbit/s each, and to a fourth that has none; each
# interface carries the bytes of the plan plus at most 5 % for TCP, MPI and metadata. If one host ends, no host holds anything. Exits with
# 77 (skipped) if hosts cannot be emulated, or without Python.
set -u
command -v python3 >/dev/null || { echo "skipped: no python3 here"; exit 77; }
tpx=$1
here=$(cd "$(dirname "$0")" && pwd)
if [ "${2:-}" != measure ]; then
    out=$(mktemp -d) && trap 'rm -rf "$out"' EXIT
    cd "$out" || exit 1
    sh "$here/hosts.sh" 1gbit 1gbit 1gbit 1gbit -- sh "$here/hold.sh" "$tpx" measure
    exit
fi
fail() {
    echo "hold: $*" >&2
    cat out.json err >&2
    exit 1
}

# 192 MB in 48 tensors.
python3 - <<'PYTHON' || exit 1
import json, pathlib, random
random.seed(1)
size = 4_000_000
names = [f"w{k}" for k in range(48)]
head = json.dumps({n: {"dtype": "F32", "shape": [8, size // 32], "data_offsets": [k * size, (k + 1) * size]} for k, n in enumerate(names)}).encode()
pathlib.Path("all").mkdir()
with open("all/model.safetensors", "wb") as file:
    file.write(len(head).to_bytes(8, "little") + head)
    for _ in names:
        file.write(random.randbytes(size))
PYTHON

# The sockets of a host's keepers are in a folder of its own, and its number is that of its ranks.
cat >on-host.sh <<END
export XDG_RUNTIME_DIR="$PWD/run/\$(hostname)"
mkdir -p -m 700 "\$XDG_RUNTIME_DIR" && cd "$PWD" && exec "\$@"
END
on_hosts() { mpirun-hosts -n 4 sh "$PWD/on-host.sh" "$@"; }
# The keepers' sockets can be reached from all emulated hosts.
release() { for name in old new; do for host in "$PWD"/run/*; do XDG_RUNTIME_DIR=$host "$tpx" hold --release $name; done; done >/dev/null 2>&1; }
trap release EXIT
XDG_RUNTIME_DIR=$PWD/run/th0
export XDG_RUNTIME_DIR
mkdir -p run && mkdir -m 700 run/th0 && "$tpx" hold all --name first --to fsdp=1 --quiet || exit 1
on_hosts "$tpx" hold hold:first --name old --to fsdp=3 --timeout none >out.json 2>err || fail "not spread"
"$tpx" hold --release first --quiet || exit 1

# shellcheck source=tests/net/carried.sh
. "$here/carried.sh"
carried before
on_hosts "$tpx" hold hold:old --name new --to fsdp=4 --json >out.json 2>err || fail "not held"
carried after
python3 - <<'PYTHON' || fail "wrong amounts"
import json, sys
done = json.load(open("out.json"))
counts = lambda name: {line.split()[0]: [int(word) for word in line.split()[1:]] for line in open(name)}
before, after = counts("before"), counts("after")
assert [host["ranks"] for host in done["hosts"]] == [[0], [1], [2], [3]], done
# Of 8 rows of each tensor, ranks have had 3, 3 and 2 and get 2 each: host 1 lacks the row 2, host 2 the rows 4 and 5, host 3 all.
rows = 48 * 500_000
sends, receives = [1, 2, 2, 0], [0, 1, 2, 2]
assert done["between_hosts"]["bytes"] == 5 * rows, done
wrong = 0
for k, host in enumerate(("th0", "th1", "th2", "th3")):
    sent, received = (b - a for a, b in zip(before[host], after[host]))
    for direction, plan, other, bytes in (("sends", sends[k] * rows, receives[k] * rows, sent), ("receives", receives[k] * rows, sends[k] * rows, received)):
        print(f"{host} {direction} {plan} bytes by the plan, its interface carries {bytes}")
        wrong += not plan <= bytes <= 1.05 * plan + 0.046 * other + 2e6
print(f"{done['seconds']:.2f} s in {done['between_hosts']['rounds']} rounds, at least {2 * rows / 119.5e6:.2f} s by the busiest NIC")
sys.exit(wrong > 0)
PYTHON

# The new state has the bits of the old one.
printf 'th%s slots=1\n' 0 1 2 3 >hosts.txt
on_hosts "$tpx" migrate hold:new "$PWD/new/{host}" --hosts "$PWD/hosts.txt" --to fsdp=4 >out.json 2>err || fail "not migrated"
mkdir merged && for host in new/*; do cp -R "$host/." merged/ || exit 1; done
"$tpx" verify all merged || fail "another state"
on_hosts "$tpx" hold --release new >/dev/null || fail "not released on all hosts"

# One host ends while state moves: its 48 MB take 4 s, and it ends after the first 4 MB.
set-rate th2 100mbit || fail "the rate does not change"
before=$(sent-by th2) || exit 1
on_hosts "$tpx" hold hold:old --name new --to fsdp=4 >out.json 2>err &
for _ in $(seq 600); do
    [ "$(sent-by th2)" -lt "$((before + 4000000))" ] || break
    sleep 0.05
done
end-processes th2
wait $! && fail "one host has ended, but the command succeeds"
sleep 1
for host in th0 th1 th3; do [ ! -e "run/$host/tpx/new.sock" ] || fail "$host holds the new state"; done
