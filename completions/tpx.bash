# SPDX-License-Identifier: Apache-2.0
# bash completion for tpx. All candidates come from tpx --complete, so this file does not depend on the version of tpx.

_tpx() {
    # Readline also splits at '=' and ':', so split the line at blanks again; $2 is the word that readline completes.
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
    # Only if all candidates are files: readline would quote the '=' of other candidates.
    ((${#COMPREPLY[@]})) || compopt -o filenames
    COMPREPLY+=("${files[@]}")
}

complete -F _tpx tpx
