# SPDX-License-Identifier: Apache-2.0
"""warm_python.py serve SOCKET NAME...: imports the modules NAME and all that the programs NAME.py import, then runs programs, each
in a forked process: importing PyTorch takes seconds, forking milliseconds. warm_python.py run SOCKET PROGRAM ARGUMENT... runs a
program in this way, with the environment, folder and files of the caller, and exits with its status. If
the caller ends, the program is killed (its child processes are not)."""
import array
import ctypes
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import traceback
import warnings

PR_SET_PDEATHSIG = 1  # of linux/prctl.h
STREAMS = 3  # standard input, output and error


def run_program(request):
    """Makes this process the one that the caller asked for. Does not return."""
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    if os.environ.get("PYTHONWARNINGS") == "ignore":
        warnings.simplefilter("ignore")
    sys.argv = request["words"]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    status = 1
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def answer(caller):
    """Runs one program, and sends its exit status."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    descriptors = array.array("i")
    text, ancillary, _, _ = caller.recvmsg(1 << 20, socket.CMSG_SPACE(STREAMS * descriptors.itemsize))
    descriptors.frombytes(ancillary[0][2])
    while not text.endswith(b"\n"):
        text += caller.recv(1 << 20)
    program = os.fork()
    if program == 0:
        caller.close()
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
            os.close(descriptor)
        run_program(json.loads(text))
    ends = os.pidfd_open(program)
    ready, _, _ = select.select([ends, caller], [], [])
    if ends not in ready:  # the caller has ended
        os.kill(program, signal.SIGKILL)
        os.waitpid(program, 0)
        os._exit(0)
    _, status = os.waitpid(program, 0)
    code = os.waitstatus_to_exitcode(status)
    caller.sendall(str(code if code >= 0 else 128 - code).encode())
    os._exit(0)


def serve(path, names):
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)  # ends with the test that started it
    for name in names:
        if name.endswith(".py"):
            sys.path.insert(0, os.path.dirname(os.path.abspath(name)))
            name = os.path.basename(name).removesuffix(".py")
        importlib.import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # processes that have answered are not waited for
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{path}.new")
    listener.listen(64)
    os.rename(f"{path}.new", path)  # from here on, callers find it
    while True:
        caller, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            answer(caller)
        caller.close()


def run(path, words):
    caller = socket.socket(socket.AF_UNIX)
    caller.connect(path)
    request = json.dumps({"words": words, "folder": os.getcwd(), "environment": dict(os.environ)}).encode() + b"\n"
    sent = caller.sendmsg([request], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", range(STREAMS)))])
    caller.sendall(request[sent:])
    status = caller.recv(16)
    return int(status) if status else f"warm_python.py: {words[0]}: no answer"


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2], sys.argv[3:])
    else:
        sys.exit(run(sys.argv[2], sys.argv[3:]))
