#!/bin/sh
# launch.sh TPX: two torchrun agents on this machine start ranks on the devices of `tpx plan --launch`. Exits with 77
# (skipped) without the Python frameworks.
set -eu
tpx=$1
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/interop/frameworks.sh
. "$here/frameworks.sh"
# shellcheck source=tests/interop/warm_python.sh
. "$here/warm_python.sh"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cd "$out"
# Agents and ranks are forked from a process that has imported PyTorch.
warm_python "$out" torch.distributed.run torch.distributed.elastic.multiprocessing.api
printf '#!/bin/sh\nexec "%s/warm-python" "%s/bin/torchrun" "$@"\n' "$out" "$venv" >torchrun
chmod +x torchrun
PATH=$out:$PATH PYTHON_EXEC=$out/warm-python
export PYTHON_EXEC
# Hosts with different numbers of devices; ranks start on the last one.
printf 'a slots=2\nb slots=3\nc slots=1\n' >hosts
printf '0 b 2\n1 b 0\n2 b 1\n3 a 1\n4 a 0\n' >ranks
"$tpx" plan --model gpt3-1.3b --from dp=5,zero=1 --to dp=5,zero=1 --hosts hosts --ranks-on ranks --launch launch.sh \
    --rank-map wanted >text
cat >show.py <<'END'
import os
import sys
from torch import distributed
distributed.init_process_group("gloo")
ids = [None] * distributed.get_world_size()
local = int(os.environ["LOCAL_RANK"])
device = os.environ["CUDA_VISIBLE_DEVICES"].split(",")[local]
distributed.all_gather_object(ids, f"{os.environ['RANK']} {os.environ['TPX_HOST']} {device}\n")
if distributed.get_rank() == 0:
    open(sys.argv[1], "w").write("".join(ids))
distributed.destroy_process_group()
END
MASTER_PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])')
export MASTER_ADDR=127.0.0.1 MASTER_PORT
unset CUDA_VISIBLE_DEVICES
TPX_HOST=a timeout 1500 sh launch.sh torchrun --max-restarts=0 -- show.py shown 2>a.log &
TPX_HOST=b timeout 1500 sh launch.sh torchrun --max-restarts=0 -- show.py shown 2>b.log || { cat b.log; exit 1; }
wait $! || { cat a.log; exit 1; }
TPX_HOST=c sh launch.sh torchrun -- show.py shown 2>c.log
grep -q 'no rank runs on c' c.log
diff wanted shown

# Groups of ranks that are not consecutive: a host starts several agents.
printf 'a slots=2\nb slots=2\n' >hosts
"$tpx" plan --model gpt3-1.3b --from pp=2,dp=2 --to pp=2,dp=2,order=tp-cp-ep-pp-dp --hosts hosts \
    --placement groups --launch launch.sh --rank-map wanted >text
[ "$(grep -c '^[ab] [0-9]* 1 ' launch.sh)" -gt 2 ]
TPX_HOST=a timeout 1500 sh launch.sh torchrun --max-restarts=0 -- show.py shown 2>a.log &
TPX_HOST=b timeout 1500 sh launch.sh torchrun --max-restarts=0 -- show.py shown 2>b.log || { cat b.log; exit 1; }
wait $! || { cat a.log; exit 1; }
diff wanted shown
