#!/bin/bash
# migrate_assignment.sh TPX TESTDATA: tests tpx migrate --assignment on emulated hosts with devices of two types: each rank runs the
# virtual nodes that tpx profile hetero assigns to its device, the gradient weights add up to 1, and every virtual node
# gets the same samples as with even parts.
set -u
tpx=$1 testdata=$2
# shellcheck source=tests/cli/emulated_stores.sh
. "$(dirname "$0")/emulated_stores.sh"

dcp=$testdata/llama-rope/dcp-fsdp2 profile=$testdata/profile/virtualflow
# assign FILE BATCH V100S P100S: an assignment of BATCH samples to these numbers of devices.
assign() {
    "$tpx" profile hetero --profile "V100=$profile/v100-bert-glue-SST-2.txt" --count "V100=$3" \
        --profile "P100=$profile/p100-bert-glue-SST-2.txt" --count "P100=$4" --batch "$2" -o "$1" >out 2>err || fail "no assignment"
}
nodes_of() { grep -o '{"number":[0-9]*,"samples":\[[0-9]*,[0-9]*\]}' out | sort -u; }
ranks() { grep -o '"ranks":\[{"rank":0.*}\],"state"' out; }

cat >hosts.toml <<'TOML'
[[hosts]]
name = "host0"
gpus = 2
device_type = "P100"
[[hosts]]
name = "host[1-2]"
gpus = 1
device_type = "V100"
[[hosts]]
name = "host3"
gpus = 2
device_type = "K80"
TOML

assign a.toml 256 2 2
grep -A 4 V100 a.toml | grep -q 'virtual_node_batch = 48 ' || fail "another assignment than expected: $(cat a.toml)"
# shares: "HOST LOCAL_BATCH GRADIENT_WEIGHT NODES" of each rank.
shares() {
    sed 's/{"rank":/\n&/g' out | sed -n 's/^{"rank":[0-9]*,"host":"\(host[0-9]\)".*"TPX_VN_BEGIN":"\([0-9]*\)","TPX_VN_END":"\([0-9]*\)".*"TPX_LOCAL_BATCH":"\([0-9]*\)","TPX_GRADIENT_WEIGHT":"\([0-9.]*\)".*/\1 \4 \5 \2 \3/p' |
        awk '{ print $1, $2, $3, $5 - $4 }'
}

# Each V100 has 96 samples, 3 virtual nodes of 32, and each P100 has 1 virtual node. The K80s are not used.
done_with '"epoch":1' 4 4x2 --import "$dcp" --iteration 7 --to fsdp=8,vn=8 --batch 256 --json
nodes_of >even
[ "$(wc -l <even)" -eq 8 ] || fail "not all virtual nodes run"
done_with '"written":true' 4 hosts.toml --to fsdp=4,vn=8 --assignment a.toml --replicas 2 --json
nodes_of | cmp -s - even || fail "virtual nodes have other samples than in even parts"
printf '%s\n' 'host0 32 0.125 1' 'host0 32 0.125 1' 'host1 96 0.375 3' 'host2 96 0.375 3' >expected
shares | sort | cmp -s - expected || fail "other shares than those of the assignment: $(shares)"
[ "$(shares | awk '{ weights += $3; samples += $2; nodes += $4 } END { print weights, samples, nodes }')" = '1 256 8' ] || fail "not whole"
grep -q '"vn":8,.*"vn_parts":\[' out || fail "no parts in the layout"
whole "$dcp" host0 host1 host2 host3
ranks >moved

# The parts are recorded in the state: a run that moves nothing prints the same, and a change of hosts keeps the virtual nodes.
done_with '"written":false' 4 hosts.toml --to fsdp=4,vn=8 --assignment a.toml --replicas 2 --json
ranks | cmp -s - moved || fail "other ranks in a run that moves nothing"
done_with '"written":false' 4 hosts.toml --json
parts() { grep -o '"TPX_VN_BEGIN":"[0-9]*","TPX_VN_END":"[0-9]*"' "$1"; }
parts out | cmp -s - <(parts moved) || fail "the state does not record the parts"
done_with '"written":true' 3 hosts.toml --lost host2 --to fsdp=3,vn=8 --batch 256 --replicas 2 --json
nodes_of | cmp -s - even || fail "a change to even parts gives virtual nodes other samples"
[ "$(shares | awk '{ print $4 }' | paste -s -d ' ')" = '3 3 2' ] || fail "the parts are not even"
done_with '"written":true' 4 hosts.toml --rejoin host2 --to "fsdp=4,vn=[1,1,1,5]" --batch 256 --json
[ "$(shares | awk '{ print $4 }' | paste -s -d ' ')" = '1 1 1 5' ] || fail "does not keep to the listed parts"
nodes_of | cmp -s - even || fail "listed parts give virtual nodes other samples"
done_with '"written":true' 4 hosts.toml --assignment a.toml --json
shares | sort | cmp -s - expected || fail "the current layout does not take the assignment"

# With tensor parallelism, and with a data position that lists the virtual nodes of each rank.
printf 'samples = 5000\nseed = 3\nglobal_batch = 128\nconsumed = 256\n' >data.toml
sed 's/gpus = 1/gpus = 4/' hosts.toml >larger.toml
assign b.toml 128 2 1
rm -rf s
done_with '"written":true' 4 larger.toml --import "$dcp" --iteration 7 --to tp=2,fsdp=3 --assignment b.toml --data data.toml --json
shares | sort -u >found
[ "$(awk '{ print $1 }' found | sort -u | wc -l)" -ge 2 ] || fail "not on both types"
[ "$(shares | awk '{ weights += $3 / 2 } END { print weights }')" = 1 ] || fail "the weights do not add up to 1: $(shares)"
[ "$(grep -o '"gradient_weight"' s/host0/current/tpx.data.json | wc -l)" -eq 6 ] || fail "tpx.data.json lacks ranks"
grep -o '"TPX_VN":"[0-9]*"' out | sort -u | grep -qx '"TPX_VN":"[0-9]*"' || fail "the assignment sets no number of virtual nodes"

# Errors, before anything moves.
refused 2 'a.toml: has global batches of 256 samples, the job has 128' 4 larger.toml --to tp=2,fsdp=4 --assignment a.toml
rm -rf s
done_with 'epoch 1' 4 4x2 --import "$dcp" --iteration 7 --to fsdp=8
refused 2 'a.toml: assigns virtual nodes to 4 devices, but the layout has dp=3; use dp=4' 4 hosts.toml --to fsdp=3 --assignment a.toml
refused 2 'needs 2 devices of device_type "V100", but --hosts has 0' 4 4x2 --to fsdp=4 --assignment a.toml
refused 2 'needs 2 devices of device_type "V100", but --hosts has 1' 4 hosts.toml --leaving host2 --to fsdp=4 --assignment a.toml
refused 2 '96 samples of a V100 are not a whole number of virtual nodes (256 samples in 4 virtual nodes); use vn=16' 4 hosts.toml --to fsdp=4,vn=4 --assignment a.toml
refused 2 'the job has 512' 4 hosts.toml --to fsdp=4,vn=8 --batch 512 --assignment a.toml
refused 2 '--export and --assignment exclude each other' 4 hosts.toml --export exported --assignment a.toml
sed 's/count = 2/count = 3/' a.toml >wrong.toml
refused 2 'wrong.toml:2: the devices have 384 samples together, not 256' 4 hosts.toml --to fsdp=4 --assignment wrong.toml
sed '/virtual_node_batch/d' a.toml >wrong.toml
refused 2 'wrong.toml:5: virtual_node_batch is missing' 4 hosts.toml --to fsdp=4 --assignment wrong.toml
sed 's/"P100"/"V100"/' a.toml >wrong.toml
refused 2 "wrong.toml:12: type 'V100' is given twice" 4 hosts.toml --to fsdp=4 --assignment wrong.toml
printf 'batch = 64\n[[gpus]]\ntype = "V100"\ncount = 1\nvirtual_nodes = 1\nvirtual_node_batch = 48\n[[gpus]]\ntype = "P100"\ncount = 1\nvirtual_nodes = 1\nvirtual_node_batch = 16\n' >c.toml
refused 2 'coordinate 0 are on devices of types .* and .*; add order=tp-cp-ep-pp-dp' 4 hosts.toml --to pp=2,first=1,fsdp=2 --assignment c.toml
echo ok
