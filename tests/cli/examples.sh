#!/bin/sh
# examples.sh TPX TESTDATA MAN: runs every example of the manual pages ("$ command" lines of MAN/*.1.in), of the help of
# every command and of README's recipes unchanged, in a folder where ckpt, iter_0001000, legacy, dcp, zero, hf, llama,
# base and lora are real checkpoints, model is one of an unknown family, runs.csv, gpt2.toml and columns.toml are real
# runs, and *.log are training logs. All must succeed.
set -u
tpx=$1 testdata=$2 man=$3
scratch=$(mktemp -d) && trap 'rm -rf "$scratch"' EXIT
mkdir -m 700 "$scratch/run" || exit
PATH=$(dirname "$tpx"):$PATH TERM=dumb LC_ALL=C XDG_RUNTIME_DIR=$scratch/run
export PATH TERM LC_ALL XDG_RUNTIME_DIR
# shellcheck source=scripts/mpi-env.sh
. "$testdata/../scripts/mpi-env.sh"
unset OMPI_COMM_WORLD_RANK PMIX_RANK PMI_RANK SLURM_PROCID

failed=0 count=0

# make_logs: makes nine logs of Megatron-LM with the step times that gpt2.toml predicts.
make_logs() {
    for plan in dp=2,ga=8 dp=4,ga=4 dp=8,ga=2 dp=16,ga=1 dp=4,ga=4,recompute=full pp=2,dp=4,mb=4 pp=4,dp=2,mb=8 tp=5,dp=1,ga=16 tp=2,dp=8; do
        seconds=$(tpx profile predict gpt2.toml --with "$plan" --json -q | sed 's/.*"seconds":\([0-9.e-]*\),.*/\1/')
        {
            for degree in dp:data tp:tensor_model pp:pipeline_model; do
                value=$(echo ",$plan," | sed -n "s/.*,${degree%:*}=\([0-9]*\),.*/\1/p")
                echo "  ${degree#*:}_parallel_size .......... ${value:-1}"
            done
            echo '  micro_batch_size ................ 1'
            case $plan in *full) echo '  recompute_granularity ........... full' ;; esac
            for step in 1 2 3 4 5; do
                echo " iteration $step/ 9 | elapsed time per iteration (ms): $(echo "$seconds" | awk '{ print $1 * 1000 }') | global batch size:    16 |"
            done
        } >"$plan.log"
    done
}

# release_all: ends the keepers that examples started.
release_all() {
    for name in $(tpx hold --list | sed -n 's/^hold:\([^ ]*\) .*/\1/p'); do tpx hold --release "$name" >/dev/null; done
}
trap 'release_all; rm -rf "$scratch"' EXIT

# fill_folder: makes a new scratch folder with everything that the examples use, and enters it.
fill_folder() {
    release_all
    rm -rf "$scratch/work" && mkdir "$scratch/work" && cd "$scratch/work" || exit
    cp -R "$testdata/llama-small/megatron-tp2pp2" ckpt && cp -R "$testdata/llama-small/hf" hf || exit
    cp -R ckpt/iter_* iter_0001000 && cp -R "$testdata/deepspeed/zero2-roundrobin-dp4" zero || exit
    cp -R "$testdata/llama-opt/legacy-tp2-dp2" legacy && cp -R "$testdata/training/dcp" dcp || exit
    mkdir llama && sed 's/"head_dim": 8/"head_dim": 2/; s/"hidden_size": 48/"hidden_size": 8/; s/"intermediate_size": 100/"intermediate_size": 6/
        s/"num_attention_heads": 6/"num_attention_heads": 4/; s/"num_hidden_layers": 3/"num_hidden_layers": 1/; s/"vocab_size": 131/"vocab_size": 10/' \
        "$testdata/llama-rope/hf/config.json" >llama/config.json && cp -R "$testdata/adapters/lora" lora && cp -R "$testdata/llama-hf" base || exit
    cp "$testdata"/profile/rubick/*.toml . && cp "$testdata/profile/rubick/gpt2.csv" runs.csv || exit
    cp -R "$testdata/simulate/." . && cp -R "$testdata/profile/rubick" rubick || exit
    cp -R hf model && sed -i 's/self_attn/attention/g' model/*.safetensors* && sed -i 's/"llama"/"unknown"/' model/config.json || exit
    mkdir a && cp -R ckpt a/host0 && cp -R ckpt a/host1 || exit
    make_logs
    for gpu in v100 p100 k80; do cp "$testdata/profile/virtualflow/$gpu-resnet.txt" "$gpu.txt" || exit; done
}

# run_commands PLACE: runs the lines of $scratch/commands, the examples of PLACE.
run_commands() {
    while IFS= read -r command; do
        case $command in *'| jq '*) command -v jq >/dev/null || continue ;; esac
        count=$((count + 1))
        case $command in *'tpx reshard '*) rm -rf "$(echo "$command" | sed 's/.*tpx reshard [^ ]* \([^ ]*\).*/\1/')" ;; esac
        sh -c "$command" >"$scratch/said" 2>&1 </dev/null
        status=$?
        # A machine that is busy with other tests may be slower than a moment ago: then the answer is no.
        case $command in *--compare*) [ "$status" -eq 3 ] && status=0 ;; esac
        if [ "$status" -ne 0 ]; then
            echo "$1: $command"
            sed 's/^/    /' "$scratch/said"
            failed=1
        fi
    done <"$scratch/commands"
}

for page in "$man"/*.1.in; do
    fill_folder
    sed -n -e 's/^\.Dl \$ //p' -e '/^\$ /{:more
/\\$/{N
b more
}
s/\\\n *//g
s/^\$ //p
}' "$page" >"$scratch/commands"
    run_commands "$(basename "$page")"
done

fill_folder
for command in inspect plan reshard migrate hold verify simulate profile 'profile hardware' 'profile read' 'profile fit' 'profile predict' 'profile hetero' 'rules suggest' 'rules check'; do
    # shellcheck disable=SC2086 # two words for a command of profile
    tpx $command --help | awk '/^Examples?:/ { on = 1; next } /^$/ { on = 0 } on && /^  [^ ]/ { sub(/^  /, ""); print }' >"$scratch/commands"
    # The results of other examples exist: a fitted model, a hardware file.
    run_commands "tpx $command --help"
done

# verify_output COMMAND: a recipe that converts all state must write the state that it has read.
verify_output() {
    case $1 in *--drop* | *--merge-adapter* | *--plan* | *' && '* | *--hold*) return 0 ;; *'tpx reshard '*) ;; *) return 0 ;; esac
    pair=$(echo "$1" | sed 's/.*tpx reshard \([^ ]* [^ ]*\).*/\1/') config=$(echo "$1" | sed -n 's/.*\(--config [^ ]*\).*/\1/p')
    # shellcheck disable=SC2086 # two paths, an option and its value
    tpx verify --weights-only $pair $config >"$scratch/said" 2>&1 && return
    echo "README.md: $1: wrote something else"
    sed 's/^/    /' "$scratch/said"
    failed=1
}

fill_folder
awk '/^<!-- recipe -->/ { on = 1; next } on && !/^    / { on = 0 } on { sub(/^    /, ""); print }' "$testdata/../README.md" >"$scratch/commands"
[ "$(wc -l <"$scratch/commands")" -ge 8 ] || { echo "README.md: too few recipes were found"; exit 1; }
run_commands README.md
while IFS= read -r command; do verify_output "$command"; done <"$scratch/commands"

echo "$count examples"
[ "$count" -ge 10 ] && exit $failed
echo "too few examples were found"
exit 1
