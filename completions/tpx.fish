# SPDX-License-Identifier: Apache-2.0
# fish completion for tpx. It asks tpx itself, so it holds nothing that could go stale.

function __tpx_complete
    set -l words (commandline -opc)
    for candidate in ($words[1] --complete $words[2..] (commandline -ct) 2>/dev/null)
        switch $candidate
            case :file
                __fish_complete_path (commandline -ct)
            case ':*'
            case '*'
                echo $candidate
        end
    end
end

complete -c tpx -f -a '(__tpx_complete)'
