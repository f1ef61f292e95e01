#!/bin/sh
# schemas.sh TPX TESTDATA SLOW_WRITES: all JSON output of tpx matches the schemas in man/schemas/. Runs the commands of most
# transcripts with --json, then commands that no transcript runs. Exits with 77 (skipped) without a Python with
# jsonschema.
set -u
tpx=$1 testdata=$2 slow=${3:?}
here=$(cd "$(dirname "$0")" && pwd) || exit 1
python=
for candidate in ${TPX_PYTHON-python3 /usr/bin/python3}; do
    if "$candidate" -W ignore -c 'import jsonschema' 2>/dev/null; then python=$candidate && break; fi
done
if [ -z "$python" ]; then
    echo "skipped: no Python has jsonschema (Debian: python3-jsonschema)"
    exit 77
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM

# A tpx that adds --json, and records its command line, output and exit status. Of several ranks, only the first prints.
mkdir "$scratch/bin" "$scratch/printed" "$scratch/work"
cat >"$scratch/bin/tpx" <<END
#!/bin/sh
case \${1-}:\${OMPI_COMM_WORLD_RANK-\${SLURM_PROCID-0}} in -* | help:* | :* | *:[1-9]*) exec "$tpx" "\$@" ;; esac
case " \$* " in *" -- "* | *" --json"* | *" --help "* | *" -h "* | *" /dev/stdout "*) exec "$tpx" "\$@" ;; esac
set -- "\$@" --json
file=\$(mktemp "$scratch/printed/XXXXXXXX")
printf '%s\n' "\$*" >"\$file.command"
"$tpx" "\$@" >"\$file"
echo \$? >"\$file.status"
cat "\$file"
exit "\$(cat "\$file.status")"
END
chmod +x "$scratch/bin/tpx"

for transcript in "$here"/*.transcript; do
    # Other formats; their documents have the same keys.
    case $transcript in */hdf5.* | */nemo.* | */precision.* | */torch.* | */files.* | */lossless.* | */outer.*) continue ;; esac
    echo "$transcript"
done | xargs -n 1 -P 3 sh "$here/replay.sh" "$scratch/bin/tpx" "$testdata" >"$scratch/replayed" 2>&1

# shellcheck source=scripts/mpi-env.sh
. "$here/../../scripts/mpi-env.sh"
PATH=$scratch/bin:$PATH
XDG_RUNTIME_DIR=$scratch/work # where keepers listen
export PATH XDG_RUNTIME_DIR
cd "$scratch/work" || exit 1

# A checkpoint whose writes are slow.
head='{"w":{"dtype":"F32","shape":[500,1000],"data_offsets":[0,2000000]}}'
mkdir hf
{
    printf "\\$(printf '%03o' ${#head})\0\0\0\0\0\0\0%s" "$head"
    head -c 2000000 /dev/zero
} >hf/model.safetensors

# stop SIGNAL: stops a run in its first write.
stop() {
    file=$(mktemp "$scratch/printed/XXXXXXXX")
    rm -f mark
    echo "reshard, stopped by SIG$1" >"$file.command"
    # Background processes of the shell ignore SIGINT.
    SLOW_WRITES_MARK=mark SLOW_WRITES_MS=1000 LD_PRELOAD="$slow" env --default-signal=INT \
        "$tpx" reshard hf "out-$1" --to tp=1 --format dcp --threads 1 --json >"$file" &
    for _ in $(seq 300); do [ -e mark ] && break; sleep 0.1; done
    [ -e mark ] || echo "reshard, to be stopped by SIG$1, did not write" >>"$scratch/faults"
    kill -"$1" $!
    wait $!
    echo $? >"$file.status"
}

dcp=$testdata/llama-rope/dcp-fsdp2 megatron=$testdata/llama-small/megatron-tp2pp2
{
    # Plans.
    model='--model gpt3-1.3b --quiet'
    # shellcheck disable=SC2086 # several words
    {
        tpx plan "$megatron" --to tp=4 --hosts 4x1 --state-in memory --output change.plan
        tpx plan "$megatron" --check change.plan
        tpx plan $model --from tp=2,dp=4,zero=1 --to pp=2,dp=3,zero=1 --hosts 2x4 --placement groups -o groups.plan
        tpx plan --check groups.plan
        tpx plan $model --from tp=2,dp=4,zero=1 --to pp=2,dp=3,zero=1 --hosts 4x2 --objective time
        tpx plan $model --from tp=4,dp=2 --to tp=4,dp=2 --hosts 3x6 --lost host0:0
        tpx plan $model --from tp=4 --via tp=2,pp=2 --to pp=4 --hosts 2x4 --list
        tpx plan --model mixtral-8x22b --from tp=2,ep=4,dp=4 --to tp=2,ep=2,dp=2 --hosts 4x2 --list
    }
    # Managed stores on emulated hosts.
    store='--emulate --hosts 3x2 --store s/{host}'
    # shellcheck disable=SC2086 # several words
    {
        mpirun -n 3 tpx migrate $store --import "$dcp" --iteration 7 --to fsdp=4 --dry-run
        mpirun -n 3 tpx migrate $store --import "$dcp" --iteration 7 --to fsdp=4 --replicas 2
        mpirun -n 3 tpx migrate $store --to fsdp=4 --replicas 2
        mpirun -n 3 tpx migrate $store --to auto --dry-run
        mpirun -n 3 tpx inspect --store 's/{host}' --hosts 3x2 --emulate
        mpirun -n 2 tpx migrate $store --lost host1 --to fsdp=2
        tpx inspect --store s/host0
        mpirun -n 2 tpx migrate $store --lost host1 --export exported
        mpirun -n 2 tpx migrate $store --lost host1 --to fsdp=2,vn=4 --batch 8
        mpirun -n 2 tpx migrate $store --lost host1 --leaving host0 --within 0.001s --to fsdp=1,vn=4
    }
    # Held state.
    tpx hold "$dcp" --name one --to fsdp=2 --dry-run
    tpx hold "$dcp" --name one --to fsdp=2 --timeout 60
    tpx hold --name two --empty
    tpx hold --list
    tpx hold --release one
    tpx hold --release two
    # An output that is complete but cannot be held, and runs that are stopped.
    mkdir tpx/kept.sock
    tpx reshard "$dcp" kept --to fsdp=2 --hold 60
    for signal in INT TERM; do stop "$signal"; done
    # Others.
    tpx profile hardware --seconds 1
    tpx reshard "$dcp" out --to fsdp=3 --verify --hardware "$testdata/profile/hardware.toml"
    tpx rules suggest "$testdata/rules/sandwich"
} >"$scratch/said" 2>&1

if [ -e "$scratch/faults" ]; then
    cat "$scratch/faults" "$scratch/said"
    exit 1
fi
"$python" -W ignore "$here/schemas.py" "$here/../../man/schemas" "$scratch/printed" "$here/../../cmd" || {
    cat "$scratch/said"
    exit 1
}
