#!/bin/sh
# complete.sh SHELL TPX COMPLETIONS: presses TAB in a real SHELL (bash, zsh or fish) and checks the completed line.
# "LINE => ANSWER": the completed LINE in zsh; the offers for its last word in bash and fish.
# shellcheck disable=SC2317 # offers_* are called by name
set -u
shell=$1 tpx=$2 completions=$3
command -v "$shell" >/dev/null || { echo "skipped: no $shell here"; exit 77; }
PATH=$(dirname "$tpx"):$PATH
scratch=$(mktemp -d) && trap 'rm -rf "$scratch"' EXIT && cd "$scratch" && mkdir 'checkpoint' && : >notes.txt
export PATH completions HOME="$scratch" LC_ALL=C

offers_bash() {
    # bash passes the function the word before the cursor as split by readline: at blanks, '=' and ':'.
    bash --norc --noprofile -c '
        compopt() { :; }  # needs a real TAB
        . "$completions/tpx.bash"
        complete -p tpx >/dev/null || exit
        COMP_LINE=$1 COMP_POINT=${#1}
        _tpx tpx "${1##*[ =:]}"
        printf "%s\n" "${COMPREPLY[@]}"' bash "$1"
}

offers_fish() {
    fish --no-config -c "source $completions/tpx.fish; complete -C '$1'" | cut -f1
}

# zsh can also emulate the terminal: a second key reads the line after TAB back from its editor.
offers_zsh() {
    cat >.zshrc <<'RC'
fpath=($completions $fpath)
autoload -Uz compinit && compinit -u -D
show() { print -r -- "<$BUFFER>" }
zle -N show && bindkey ^T show
RC
    ZDOTDIR=$scratch zsh -f -c '
        zmodload zsh/zpty
        zpty -b tty zsh -d -i
        zpty -w -n tty "$1"$'"'\\t\\x14'"'
        for ((i = 0; i < 6000; ++i)); do
            zpty -r -t tty out && seen+=$out
            [[ $seen == *"<"*">"* ]] && break
            sleep 0.1
        done
        seen=${seen##*<}
        print -r -- "${seen%%>*}"' zsh "$1"
}

failed=0
expect() {
    line=$1 offered=$2
    answer=$("offers_$shell" "$line")
    if [ "$shell" = zsh ]; then
        completed=$(printf %s "$answer" | sed 's/ *$//')
        [ "$completed" = "${line% *} $3" ] && return
    else
        [ "$(printf '%s\n' "$answer" | sort | tr '\n' ' ')" = "$offered " ] && return
    fi
    echo "$shell: '$line' became or offered '$answer'" && failed=1
}

# bash needs only the text after the last '='.
pick() { if [ "$shell" = bash ]; then echo "$1"; else echo "$2"; fi; }

expect 'tpx pl' plan plan
expect 'tpx plan --form' --format --format
expect 'tpx plan --format dc' dcp dcp
expect 'tpx plan --format=dc' "$(pick dcp --format=dcp)" --format=dcp
expect 'tpx reshard checkpoint out --to tp=4,p' "$(pick 4,pp= tp=4,pp=)" tp=4,pp=
expect 'tpx inspect check' "$(pick checkpoint checkpoint/)" checkpoint/
expect 'tpx plan x --check not' notes.txt notes.txt
exit $failed
