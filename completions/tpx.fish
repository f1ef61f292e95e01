# SPDX-License-Identifier: Apache-2.0
# fish completion for tpx. All candidates come from tpx --complete, so this file does not depend on the version of tpx.

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
