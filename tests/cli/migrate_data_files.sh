#!/bin/bash
# migrate_data_files.sh TPX TESTDATA: tests tpx migrate --data-store: hosts get the data files that they lack, from the
# folder of --data or from each other, also if a host that had them is lost; no host gets a byte twice; different
# contents are refused.
set -u
tpx=$1 testdata=$2
# shellcheck source=tests/cli/emulated_stores.sh
. "$(dirname "$0")/emulated_stores.sh"

dcp=$testdata/dcp/virtual-nodes
mkdir -p corpus/books
head -c 3000001 /dev/urandom >corpus/books/part-0.tar
head -c 70000 /dev/urandom >corpus/part-1.tar
: >corpus/empty.tar
cat >corpus/data.toml <<'TOML'
global_batch = 16
virtual_nodes = 4
seed = 7
consumed = 32

[[files]]
path = "books/part-0.tar"
samples = 700

[[files]]
path = "part-1.tar"
samples = 300

[[files]]
path = "empty.tar"
samples = 1
TOML
data='--data-store=d/{host}'
# complete HOST...: these hosts have only all data files and the record.
complete() {
    local host file
    for host in "$@"; do
        for file in books/part-0.tar part-1.tar empty.tar; do
            cmp "corpus/$file" "d/$host/$file" >&2 || fail "$host has another $file"
        done
        [ "$(find "d/$host" -type f | wc -l)" -eq 4 ] || fail "something else is in the data store of $host: $(find "d/$host")"
    done
}
number() { grep -o "\"data_files\":{[^}]*}" out | grep -o "\"$1\":[0-9]*" | sed 's/.*://'; }

done_with '"written":false' 4 4x1 --import "$dcp" --iteration 5 --job j --to fsdp=2 --data corpus/data.toml "$data" --dry-run --json
[ ! -e d ] || fail "a dry run writes"
[ "$(number bytes_missing)" -eq 6140002 ] || fail "a dry run plans $(number bytes_missing) bytes"
done_with "\"TPX_DATA\":\"$PWD/d/host0\"" 4 4x1 --import "$dcp" --iteration 5 --job j --to fsdp=2 --data corpus/data.toml "$data" --json
members=$(cd d && echo *)
[ "$(echo "$members" | wc -w)" -eq 2 ] || fail "hosts without ranks get data: $members"
# shellcheck disable=SC2086
complete $members
[ "$(number bytes_between_hosts)" -eq 0 ] || fail "what all hosts can read comes from other hosts"

# The folder of --data is gone: new hosts get the files from those that have them, and each byte travels once to each host.
mv corpus gone && mkdir corpus && cp -r gone/. corpus && mv gone/data.toml . && rm -r gone
done_with 'copied to hosts 6.14 MB, of which 6.14 MB from other hosts' 4 4x1 --to fsdp=4 --replicas 2 "$data"
complete host0 host1 host2 host3

# A lost host, and a host that lost its data, also without a change of the state.
rm -r d/host3 d/host2/part-1.tar
done_with 'copied to hosts 70.0 kB' 3 4x1 --lost host3 --to fsdp=3 "$data"
complete host0 host1 host2
rm d/host1/books/part-0.tar
done_with 'nothing to do' 3 4x1 --lost host3 --to fsdp=3 "$data"
grep -q 'copied to hosts 3.00 MB' out || fail "a current state does not get its data files: $(cat out)"
complete host0 host1 host2
done_with 'copied to hosts 0 B' 3 4x1 --lost host3 "$data"

# The launch script names the data store of each host, also of a host whose ranks are in several blocks.
mkdir bin || exit
# shellcheck disable=SC2016 # of the script
printf '#!/bin/sh\necho "$TPX_STATE ${TPX_DATA-none}"\n' >bin/torchrun && chmod +x bin/torchrun || exit
started() { PATH=$PWD/bin:$PATH TPX_DATA=/else TPX_HOST=$1 sh launch.sh torchrun -- train.py; }
done_with 'nothing to do' 3 4x1 --lost host3 "$data" --launch launch.sh
for host in host0 host1 host2; do
    [ "$(started $host)" = "$PWD/s/$host/current $PWD/d/$host" ] || fail "launch.sh on $host: $(started $host)"
done
done_with 'nothing to do' 3 4x1 --lost host3 --launch launch.sh
[ "$(started host1)" = "$PWD/s/host1/current none" ] || fail "launch.sh without data: $(started host1)"
done_with '' 3 4x1 --lost host3 --to fsdp=2 "$data" --launch launch.sh
host=$(grep -o '^host[0-9]* 0 1 0' launch.sh | cut -d' ' -f1)
[ "$(started "$host")" = "$PWD/s/$host/current $PWD/d/$host" ] || fail "launch.sh of a change: $(started "$host")"
done_with '' 3 4x1 --lost host3 --to fsdp=3 "$data"

# The record only saves reading: if it is damaged, or a file has changed, it is created again. Modes are kept.
: >d/host0/tpx.data-store.json
chmod 640 d/host0/part-1.tar
rm d/host1/part-1.tar
done_with 'copied to hosts 70.0 kB' 3 4x1 --lost host3 "$data"
[ "$(stat -c %a d/host1/part-1.tar)" = 640 ] || fail "the copy has mode $(stat -c %a d/host1/part-1.tar)"
complete host0 host1 host2

# Files that a killed run left are removed.
mkdir d/host1/tpx.incoming && echo x >d/host1/tpx.incoming/part-1.tar && rm d/host1/part-1.tar
done_with 'copied to hosts 70.0 kB' 3 4x1 --lost host3 "$data"
complete host0 host1 host2

# Different contents of equal size are found, and a record whose file has changed is not trusted.
printf x | dd of=d/host1/part-1.tar bs=1 seek=100 conv=notrunc 2>/dev/null
[ "$(cmp -l corpus/part-1.tar d/host1/part-1.tar | wc -l)" -eq 1 ] || printf y | dd of=d/host1/part-1.tar bs=1 seek=100 conv=notrunc 2>/dev/null
refused 1 "data file 'part-1.tar': its content on host 'host1' differs from that on host 'host0' (CRC-64 " 3 4x1 --lost host3 --to fsdp=2 "$data"
rm d/host1/part-1.tar
echo longer >>d/host2/part-1.tar
refused 1 "data file 'part-1.tar': has 70000 bytes on host 'host0' and 70007 on host 'host2'" 3 4x1 --lost host3 --to fsdp=2 "$data"
rm d/host[0-2]/part-1.tar
refused 3 "data file 'part-1.tar': not found in any data store (d/{host}) or in the folder of --data" 3 4x1 --lost host3 --to fsdp=2 "$data"
cp corpus/part-1.tar d/host2/
done_with 'fsdp=2' 3 4x1 --lost host3 --to fsdp=2 "$data"

# Errors that would occur only when a file gets its final name are found before any file moves.
rm d/host0/part-1.tar d/host1/part-1.tar
mkdir d/host1/part-1.tar
refused 1 "d/host1/part-1.tar: is a folder, but a data file belongs there; move or remove it" 3 4x1 --lost host3 --to fsdp=3 "$data"
refused 1 "d/host1/part-1.tar: is a folder" 3 4x1 --lost host3 --to fsdp=3 "$data" --dry-run
rmdir d/host1/part-1.tar
mv d/host1/books books && : >d/host1/books
refused 1 "d/host1/books: is not a folder, but data files belong there" 3 4x1 --lost host3 --to fsdp=3 "$data"
rm d/host1/books && mkdir d/host1/books
if mount -t tmpfs tmpfs d/host1/books 2>/dev/null; then
    refused 1 "d/host1/books: is on another file system than .*d/host1; each data store must be on one file system" 3 4x1 --lost host3 --to fsdp=3 "$data"
    umount d/host1/books
fi
rmdir d/host1/books && mv books d/host1/books
[ ! -e d/host0/part-1.tar ] || fail "a file has moved to host0 before the places of host1 were checked"
done_with 'fsdp=3' 3 4x1 --lost host3 --to fsdp=3 "$data"

# Two hosts with one data store, which does not exist yet.
mkdir shared && ln -s host0 shared/host1 && cp -r d/host2 shared/host2 || exit
before=$(find shared -type f | sort)
refused 1 "another run, or another host, has just created this data store; try again" 3 4x1 --lost host3 --to fsdp=3 --data-store 'shared/{host}'
[ "$(find shared -type f | sort)" = "$before" ] || fail "files are in a data store of two hosts: $(find shared)"

refused 2 "'d' must contain {host}" 3 4x1 --lost host3 --data-store d
refused 2 'cannot be used with --export' 3 4x1 --lost host3 --export e "$data"
refused 2 'must not contain each other' 3 4x1 --lost host3 --data-store 's/{host}/staging'
mpirun -n 2 "$tpx" migrate 'p/{host}' 'q/{host}' --emulate --hosts 2x1 --to fsdp=2 "$data" >out 2>err
{ [ $? -eq 2 ] && grep -q -- '--data-store: requires --store' err; } || fail "--data-store is ignored without --store"
exec 9<d/host0
flock 9
refused 1 "another run, or another host, uses this data store" 3 4x1 --lost host3 "$data"
flock -u 9
rm -r s
sed -i 's|"books/part-0.tar"|"../part-0.tar"|' data.toml
migrate 4 4x1 --import "$dcp" --iteration 9 --to fsdp=2 --data data.toml --data-store 'e/{host}'
[ "$status" -eq 2 ] || fail "a path that leaves the data store is not refused, but $status"
grep -q "data file '../part-0.tar': --data-store requires a path below the folder of the data file" err || fail "another message"
[ -z "$(find e -type f 2>/dev/null)" ] || fail "a refused import writes data files"

sed -i 's|"../part-0.tar"|"tpx.incoming/part-0.tar"|' data.toml
migrate 4 4x1 --import "$dcp" --iteration 9 --to fsdp=2 --data data.toml --data-store 'e/{host}'
{ [ "$status" -eq 2 ] && grep -q "names that begin with 'tpx.' are reserved" err; } || fail "a reserved name is not refused"

# Megatron's index belongs to its data; any other .bin is a separate file.
rm -r e 2>/dev/null
printf 'global_batch = 16\nvirtual_nodes = 4\nseed = 7\nconsumed = 0\n[[files]]\npath = "train.bin"\nsamples = 30\n' >bin.toml
echo data >train.bin
done_with 'data: 1 file' 2 2x1 --import "$dcp" --iteration 9 --to fsdp=2 --data bin.toml --data-store 'e/{host}'
echo index >train.idx
done_with 'data: 2 files' 2 2x1 --data bin.toml --data-store 'e/{host}'
cmp train.idx e/host1/train.idx || fail "the index is not copied"
