# SPDX-License-Identifier: Apache-2.0
# bash completion for tpx. It asks tpx itself, so it holds nothing that could go stale.

_tpx() {
    # Readline breaks words at '=' and ':', so the words are cut anew; $2 is what it thinks is being typed.
    local IFS=$' \t\n' line=${COMP_LINE:0:COMP_POINT} words word before candidate files=()
    read -ra words <<<"${line#*"$1"}"
    [[ $line == *[[:blank:]] ]] && words+=("")
    word=${words[${#words[@]} - 1]}
    before=${word%"$2"}
    COMPREPLY=()
    while IFS= read -r candidate; do
        case $candidate in
        :file) mapfile -t files < <(compgen -f -- "$2") ;;
        :nospace) compopt -o nospace ;;
        *) candidate=${candidate%%$'\t'*} && COMPREPLY+=("${candidate#"$before"}") ;;
        esac
    done < <("${1/#\~/$HOME}" --complete "${words[@]}" 2>/dev/null)
    # As file names, readline would quote the '=' of what else there is.
    ((${#COMPREPLY[@]})) || compopt -o filenames
    COMPREPLY+=("${files[@]}")
}

complete -F _tpx tpx
