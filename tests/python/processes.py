# SPDX-License-Identifier: Apache-2.0
"""processes.py TESTDATA: tests how the Python module starts, follows and stops programs, in the current folder. Some of
them are scripts that imitate rare behavior of tpx."""
import contextlib
import os
import pathlib
import pickle
import signal
import sys
import threading
import time

import tpx

checkpoint = pathlib.Path(sys.argv[1]) / "llama-small/megatron-tp2pp2"


@contextlib.contextmanager
def environment(**variables):
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextlib.contextmanager
def raises(kind, words, exit_status=None):
    try:
        yield
    except kind as error:
        assert words in str(error), str(error)
        assert exit_status is None or error.exit_status == exit_status, error.exit_status
    else:
        raise AssertionError(f"no {kind.__name__}: {words}")


def script(text):
    """A shell script as TPX_PROGRAM."""
    path = pathlib.Path("script").absolute()
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return environment(TPX_PROGRAM=str(path))


def test_rank_of_a_job():
    ranks = {"SLURM_PROCID": "1"}, {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1"}, {"PMI_RANK": "1", "PMI_SIZE": "2"}
    for number, variables in enumerate(ranks):
        with environment(**variables):
            assert tpx.inspect(checkpoint)["format"] == "torch_dist"
            assert tpx.reshard(checkpoint, f"rank{number}", to="tp=1", threads=2)["written"]


def test_launcher():
    assert tpx.reshard(checkpoint, "ranks", to="tp=4", launcher=["mpirun", "-n", "2"], progress=print)["written"]
    assert tpx.verify(checkpoint, "ranks", launcher=["mpirun", "-n", "2"])["equal"]
    with raises(tpx.Error, "no-launcher: No such file", 127):
        tpx.verify(checkpoint, launcher=["no-launcher"])


def test_programs():
    with environment(TPX_PROGRAM="./none"), raises(tpx.Error, "./none: No such file", 127):
        tpx.inspect(checkpoint)
    with script("echo 'started on node1'; echo 7; echo '{}'; echo '[1]'"), raises(tpx.Error, "printed no JSON document", 1):
        tpx.inspect(checkpoint)
    with script("printf 'tpx: \\377\\n' >&2; exit 3"), raises(tpx.Error, "printed no JSON document", 3):
        tpx.inspect(checkpoint)
    with script("printf 'tpx: \\377\\n' >&2; exit 5"), raises(tpx.Error, "tpx: \N{REPLACEMENT CHARACTER}", 5):
        tpx.inspect(checkpoint)


def test_input():
    """tpx does not read Python's standard input."""
    reader, writer = os.pipe()
    os.write(writer, b"text\n")
    os.dup2(reader, 0)
    with script("""read line; printf '{"schema":"tpx.inspect/1","input":"%s"}' "$line"\n"""):
        assert tpx.run("inspect")["input"] == ""
    assert input() == "text"


def test_log_that_is_damaged():
    events = '{"event":"progress","bytes_done":', "7", "{}", '{"event":"progress"}', '{"event":"progress","bytes_done":1,"bytes":4}'
    calls = []
    text = "".join(f"echo '{event}' >\"$6\"\n" for event in events)  # the value of --log
    with script(text + """echo '{"schema":"tpx.reshard/1","written":true,"bytes":5}'\n"""):
        assert tpx.reshard("a", "b", to="tp=1", progress=calls.append)["written"]
    assert calls == [(1, 4), (4, 4)], calls


def test_dry_run():
    calls = []
    tpx.reshard(checkpoint, "dry", to="tp=1", dry_run=True, progress=calls.append)
    assert not calls, calls


def interrupt(times):
    """Interrupts this program after the script has begun, and each time that the script has counted a signal."""
    for number in range(times):
        while not pathlib.Path(f"signals.{number}").exists():
            time.sleep(0.05)
        time.sleep(0.5)  # another signal would be counted
        os.kill(os.getpid(), signal.SIGINT)


def test_signals():
    """Each interruption is one signal."""
    count = """n=0; trap 'n=$((n + 1)); : >signals.$n; [ $n -lt LIMIT ] || exit 130' INT
: >signals.0; while :; do sleep 0.1; done"""
    for times in (1, 2):
        thread = threading.Thread(target=interrupt, args=(times,))
        thread.start()
        with script(count.replace("LIMIT", str(times))), raises(KeyboardInterrupt, ""):
            tpx.inspect(checkpoint)
        thread.join()
        signals = sorted(path.name for path in pathlib.Path().glob("signals.*"))
        assert len(signals) == times + 1, signals
        for name in signals:
            os.remove(name)


def test_errors():
    error = pickle.loads(pickle.dumps(tpx.Error(4, "text")))
    assert type(error) is tpx.Error and error.exit_status == 4 and str(error) == "text"
    with raises(TypeError, "tensors=False"):
        tpx.inspect(checkpoint, tensors=False)
    with raises(TypeError, "ignore=None"):
        tpx.verify(checkpoint, ignore=["args", None])
    with raises(TypeError, "set="):
        tpx.inspect(checkpoint, set={"a": 1})
    with raises(ValueError, "log= cannot be used with progress="):
        tpx.reshard(checkpoint, "out", to="tp=1", log="log", progress=print)


def test_other_documents():
    for command, options in (
        (tpx.inspect, {"state": True}),
        (tpx.inspect, {"where": "w"}),
        (tpx.inspect, {"store": "s/{host}"}),
        (tpx.plan, {"to": "tp=4", "list": True}),
        (tpx.plan, {"to": "tp=4", "list_": True}),
        (tpx.plan, {"to": "tp=4", "via": "tp=2"}),
        (tpx.plan, {"to": "tp=4", "check": "file"}),
        (tpx.plan, {"to": "auto"}),
    ):
        with raises(ValueError, "use tpx.run("):
            command(checkpoint, **options)
    assert tpx.run("inspect", checkpoint, state=True)["schema"] == "tpx.state/1"


signal.alarm(300)  # a call that waits forever fails
for name, test in list(globals().items()):
    if name.startswith("test_"):
        test()
