# SPDX-License-Identifier: Apache-2.0
"""module.py TESTDATA: tests the Python module tpx with real checkpoints, in the current folder."""
import pathlib
import sys

import tpx

testdata = pathlib.Path(sys.argv[1])
megatron = testdata / "llama-small/megatron-tp2pp2"


def fails(exit_status, words, call, *arguments, **options):
    try:
        call(*arguments, **options)
    except tpx.Error as error:
        assert error.exit_status == exit_status, (error.exit_status, str(error))
        assert words in str(error), str(error)
    else:
        raise AssertionError(f"{call.__name__} did not fail")


def test_inspect():
    found = tpx.inspect(megatron)
    assert found["format"] == "torch_dist" and found["family"] == "llama" and found["iteration"] == 10
    assert found["layout"]["tp"] == 2 and found["layout"]["text"] == "tp=2,pp=2"
    assert "tensor_list" not in found
    assert len(tpx.inspect(megatron, tensors=True)["tensor_list"]) == found["tensors"]
    fails(1, "nowhere: No such file or directory", tpx.inspect, "nowhere")
    fails(1, "-h: No such file or directory", tpx.inspect, "-h")


def test_plan():
    plan = tpx.plan(megatron, to="tp=4", hosts="4x1", state_in="memory")
    assert plan["to"]["layout"]["text"] == "tp=4" and plan["certificate"]["minimal"]
    plan = tpx.plan(model="gpt3-1.3b", from_="tp=4", to="tp=4,dp=2", hosts="2x4")
    assert plan["model"] == "gpt3-1.3b" and len(plan["new_ranks"]) == 8
    compared = tpx.run("plan", model="gpt3-1.3b", from_="tp=4", to="auto", hosts="2x4")
    assert compared["schema"] == "tpx.plan-auto/2" and compared["candidates"]
    fails(2, "tp=3", tpx.plan, megatron, to="tp=3")
    fails(2, "unknown option '--no-such'", tpx.plan, megatron, to="tp=4", no_such=True)


def test_reshard():
    calls = []
    done = tpx.reshard(megatron, "tp4", to="tp=4", threads=8, progress=calls.append)
    assert done["written"] and done["layout"]["tp"] == 4
    assert 0 < calls[-1].bytes_done == calls[-1].bytes <= done["bytes"], calls
    assert tpx.reshard("tp4", "hf", to="tp=1", format="safetensors", drop="optimizer")["format"] == "safetensors"
    planned = tpx.reshard("tp4", "-odd name", to="pp=2", dry_run=True)
    assert not planned["written"] and not pathlib.Path("-odd name").exists()
    fails(1, "tp4: exists", tpx.reshard, megatron, "tp4", to="tp=4")

    def raises(progress):
        raise KeyError("from the callback")

    try:
        tpx.reshard(megatron, "pp2", to="pp=2", progress=raises)
    except KeyError:
        pass
    else:
        raise AssertionError("what a callback raises is lost")


def test_verify():
    same = tpx.verify(megatron, "tp4")
    assert same["equal"] and same["verdict"] == "equal" and not same["differences"]
    assert tpx.verify(testdata / "llama-small/hf", "hf", weights_only=True)["equal"]
    assert tpx.verify("tp4")["verdict"] == "no record"
    other = tpx.verify(testdata / "llama-rope/hf", "hf", weights_only=True)
    assert not other["equal"] and other["verdict"] == "different" and other["differences"]
    ignored = tpx.verify(megatron, "hf", ignore=["args", "rng"])
    assert not ignored["equal"] and "args" in ignored["ignored"], ignored["ignored"]


for name, test in list(globals().items()):
    if name.startswith("test_"):
        test()
