#!/bin/bash
# migrate_virtual_nodes.sh TPX TESTDATA: tests that after each of a sequence of changes the state of each virtual node
# is only on the hosts that run it, and that incomplete state is refused.
set -u
tpx=$1 testdata=$2
# shellcheck source=tests/cli/emulated_stores.sh
. "$(dirname "$0")/emulated_stores.sh"

dcp=$testdata/dcp/virtual-nodes
# nodes_of HOST NODES: the files of this host contain the state of exactly these virtual nodes.
nodes_of() {
    local found
    found=$(grep -a -h -o 'stream of virtual node [0-9]' "s/$1/current/"*.distcp | sed 's/.* //' | sort | tr -d '\n')
    [ "$found" = "$2" ] || fail "$1 has the state of virtual nodes '$found' instead of '$2'"
}

done_with 'every host gets the state of all virtual nodes, because the layout has no vn; add vn=4 to --to' 2 2x1 --import "$dcp" --iteration 5 --to fsdp=2
nodes_of host0 0123
nodes_of host1 0123

rm -r s
done_with '' 4 4x1 --import "$dcp" --iteration 5 --to fsdp=4,vn=4
for node in 0 1 2 3; do nodes_of "host$node" "$node"; done
whole "$dcp" host0 host1 host2 host3

# The number of virtual nodes is kept by default, and cannot change.
done_with 'fsdp=3,vn=4' 4 4x1 --to fsdp=3
whole "$dcp" host0 host1 host2 host3
refused 1 "virtual node 4 has no 'virtual_node_state.4.bn.num_batches_tracked': 4 of 8 virtual nodes have this value" 4 4x1 --to fsdp=4,vn=8
refused 2 'vn=4 virtual nodes cannot run on dp=5; use dp=4 or less' 4 4x2 --to fsdp=5

# Two TP ranks of a dp coordinate, also on two hosts, have the same virtual nodes.
done_with '' 4 4x1 --to tp=2,fsdp=2,vn=4
whole "$dcp" host0 host1 host2 host3
[ "$(for host in 0 1 2 3; do grep -a -h -o 'virtual node [0-9]' "s/host$host/current/"*.distcp | sort -u; done | sort | uniq -c | awk '{ print $1 }' | sort -u)" = 2 ] ||
    fail "not each state of a virtual node is on two hosts"

# An export has the same virtual nodes; inspect finds them in the data position, or in the names of their state.
layout_of() { "$tpx" inspect "$1" >out 2>err && sed -n 's/^layout *//p' out; }
done_with '' 4 4x1 --export exported --to 'fsdp=2,vn=[3,1]'
[ "$(layout_of exported)" = 'fsdp=2,vn=4 (2 ranks)' ] || fail "no vn in the layout of an export: $(cat out err)"
printf 'samples = 1000\nseed = 3\nglobal_batch = 24\nconsumed = 48\n' >data.toml
done_with '' 4 4x1 --export positioned --to 'fsdp=2,vn=[3,1]' --data data.toml
[ "$(layout_of positioned)" = 'fsdp=2,vn=[3,1] (2 ranks)' ] || fail "no parts in the layout of an export: $(cat out err)"
"$tpx" inspect positioned --json | grep -q '"vn":4,.*"vn_parts":\[3,1\]' || fail "no vn in the JSON of an export"
echo '{}' >positioned/tpx.data.json
[ "$(layout_of positioned)" = 'fsdp=2,vn=4 (2 ranks)' ] || fail "a damaged position: $(cat out err)"
grep -q 'positioned/tpx.data.json: ' err || fail "says nothing about a damaged position"

# Uneven parts, and state of a lost host that comes from its replica.
done_with '' 4 4x1 --to 'fsdp=2,vn=[3,1]' --replicas 2
whole "$dcp" host0 host1 host2 host3
rm -r s/host0
done_with '' 3 4x1 --lost host0 --to 'fsdp=3,vn=[1,1,2]'
whole "$dcp" host1 host2 host3

refused 2 "'virtual_node_state.3.bn.num_batches_tracked' is state of virtual node 3, but the layout has vn=2" \
    3 4x1 --lost host0 --import "$dcp" --iteration 6 --job other --to fsdp=2,vn=2
refused 1 "virtual node 4 has no 'virtual_node_state.4.bn.num_batches_tracked': 4 of 8 virtual nodes have this value" \
    3 4x1 --lost host0 --import "$dcp" --iteration 6 --job other --to fsdp=2,vn=8

# Shared storage: every rank can read everything, so reshard needs no virtual nodes.
"$tpx" reshard "$dcp" resharded --to fsdp=4 >out 2>err || fail "not resharded"
"$tpx" verify "$dcp" resharded >out 2>err || fail "reshard loses state of virtual nodes"
"$tpx" inspect "$dcp" | grep -q '^virtual_node 4 tensors of u8' || fail "inspect does not name the state of virtual nodes"
