#!/bin/sh
# slow_host.sh TPX: tpx profile hardware measures the links of emulated hosts within 5 %: 1 Gbit/s, and 200 Mbit/s for
# one host. It flags only the NIC that has become slower. Exits with 77 (skipped) if hosts cannot be emulated or the
# machine is too busy.
set -u
tpx=$1
here=$(cd "$(dirname "$0")" && pwd)
if [ "${2:-}" != measure ]; then
    out=$(mktemp -d) && trap 'rm -rf "$out"' EXIT
    cd "$out" || exit 1
    # On a busy machine, rates depend more on other processes than on links: after five failed tries, there is no
    # verdict.
    for try in 1 2 3 4 5; do
        sh "$here/hosts.sh" 1gbit 1gbit 200mbit 1gbit -- sh "$here/slow_host.sh" "$tpx" measure
        status=$?
        [ "$status" -eq 1 ] || [ "$status" -eq 2 ] || exit "$status"
        echo "try $try failed"
    done
    [ "$status" -eq 1 ] || exit 1 # nothing was measured, busy or not
    awk -v cores="$(nproc)" '{ exit !($1 > cores) }' /proc/loadavg || exit 1
    echo "skipped: the machine is too busy to measure links (load $(cut -d ' ' -f 1 /proc/loadavg))"
    exit 77
fi

mpirun-hosts -n 4 "$tpx" profile hardware --skip disk --skip memory --seconds 10 -o cluster.toml >map.txt || exit 2
cat map.txt
awk -F '[][, ]+' '
    /^name/ { gsub(/"/, "", $3); host = $3 }
    /^nic = \[/ {
        wanted = host == "th2" ? 25e6 : 125e6
        count++
        if ($3 < 0.95 * wanted || $3 > 1.05 * wanted) { print host " has " $3 " bytes a second, not " wanted; bad = 1 }
    }
    END { if (count != 4) { print count " hosts"; bad = 1 }; exit bad }' cluster.toml || exit 1

# The same cluster, before th2 became slow.
awk '/^nic = \[/ { print "nic = [119500000, 0.01]"; next } /^(links|latency) = \[$/ { skip = 1 } !skip { print } /^\]/ { skip = 0 }' cluster.toml >old.toml
"$tpx" profile hardware --show cluster.toml --compare old.toml >compared.txt
[ $? -eq 3 ] || { echo "the slow NIC was not flagged"; exit 1; }
if [ "$(grep -c '^slower: .*NIC' compared.txt)" -ne 1 ] || ! grep -q '^slower: th2: NIC' compared.txt; then
    cat compared.txt
    exit 1
fi
