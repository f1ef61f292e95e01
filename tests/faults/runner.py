# SPDX-License-Identifier: Apache-2.0
"""Runs tpx with a fault: Server starts it once and forks it for each case (server.c); launch() starts a new process."""
import os
import select
import signal
import subprocess
from typing import NamedTuple

SECONDS = 120  # a run takes less than a second
# Ranks of one host need neither a network nor its search for one, which takes longer than the run itself.
LOCAL_MPI = {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,vader"}


class Run(NamedTuple):
    status: int
    stdout: str
    stderr: str


def settings(case=None, trace=None):
    """The fault of `case` as variables of shim.c. All are set, to replace those of the previous case."""
    call = case and case.call
    return {
        "TPX_FAULT_AT": f"{call.category} {call.number} {call.path}" if call else "",
        "TPX_FAULT_KIND": case.error if case else "",
        "TPX_FAULT_ONWARD": "1" if case and case.onward else "",
        "TPX_FAULT_RANK": case.rank if case else "",
        "TPX_FAULT_TRACE": str(trace or ""),
    }


def launch(words, folder, shim, variables, ranks=1):
    variables = {"TPX_FAULT_FOLDER": str(folder), "LD_PRELOAD": shim, **variables}
    launcher = ["mpirun", "-n", str(ranks)] if ranks > 1 else []
    wrapper = ["env", *(f"{name}={value}" for name, value in variables.items())]
    try:
        done = subprocess.run([*launcher, *wrapper, *words], capture_output=True, text=True, errors="replace",
                              timeout=SECONDS, cwd=folder, stdin=subprocess.DEVNULL, env=os.environ | LOCAL_MPI)
    except subprocess.TimeoutExpired as slow:
        return Run(-1, "", f"no end after {SECONDS} s: {slow.stderr}")
    return Run(done.returncode, done.stdout, done.stderr)


class Server:
    """`words` as a program that waits before main() and, on each request, runs it in a child process for each rank."""

    def __init__(self, words, folder, libraries, ranks):
        self.answers, theirs = os.pipe()
        self.stdout = open(f"{folder}.stdout", "w+b", buffering=0, opener=append)
        self.stderr = open(f"{folder}.stderr", "w+b", buffering=0, opener=append)
        environment = os.environ | {"TPX_FAULT_FOLDER": str(folder), "LD_PRELOAD": libraries, "LD_BIND_NOW": "1",
                                    "TPX_FAULT_SERVER": f"{theirs} {ranks}"}
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=self.stdout, stderr=self.stderr,
                                        cwd=folder, pass_fds=(theirs,), env=environment)
        os.close(theirs)

    def run(self, variables):
        self.stdout.truncate(0)
        self.stderr.truncate(0)
        line = "\t".join(f"{name}={value}" for name, value in variables.items()) + "\n"
        self.process.stdin.write(line.encode())
        self.process.stdin.flush()
        child = self.number()
        timely = select.select([self.answers], [], [], SECONDS)[0]
        if not timely:
            os.kill(child, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(self.number())
        stderr = self.text(self.stderr) + ("" if timely else f"no end after {SECONDS} s")
        return Run(status, self.text(self.stdout), stderr)

    def number(self):
        """The next line of answers."""
        line = b""
        while not line.endswith(b"\n"):
            byte = os.read(self.answers, 1)
            if not byte:
                raise SystemExit(f"the server has ended: {self.text(self.stderr)}")
            line += byte
        return int(line)

    @staticmethod
    def text(file):
        return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode(errors="replace")

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        for file in self.stdout, self.stderr:
            file.close()
            os.unlink(file.name)
        os.close(self.answers)


def append(path, flags):
    return os.open(path, flags | os.O_APPEND | os.O_CLOEXEC, 0o600)
