# SPDX-License-Identifier: Apache-2.0
"""Runs tpx migrate --store on emulated hosts, and reads their stores."""
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

MANIFEST = "manifest.json"


class Stores:
    """The stores of `count` hosts with two devices each, below the working directory."""

    def __init__(self, tpx, count, root="s"):
        self.tpx, self.count, self.root = tpx, count, pathlib.Path(root)

    def store(self, host):
        return self.root / f"host{host}"

    def command(self, *arguments, alive, all_lost=True):
        lost = [f"host{h}" for h in range(self.count) if h not in alive]
        return ["mpirun", "-n", str(len(alive)), self.tpx, "migrate", "--store", f"{self.root}/{{host}}", "--emulate",
                "--hosts", f"{self.count}x2", *(["--lost", ",".join(lost)] if lost else []), *arguments]

    def migrate(self, *arguments, alive, again=True, **settings):
        """Runs tpx migrate; returns its exit status and output. On a busy machine, mpirun of Open MPI 4.1 sometimes
        reports that a successful rank has failed: then the same command runs again."""
        done = subprocess.run(self.command(*arguments, alive=alive), capture_output=True, text=True, timeout=300,
                              stdin=subprocess.DEVNULL, **settings)
        if again and done.returncode == 1 and "with PID 0" in done.stderr and "exiting improperly" in done.stderr:
            return self.migrate(*arguments, alive=alive, again=False, **settings)
        return done.returncode, done.stdout + done.stderr

    def current(self, host):
        """The folder of the current state of a host; None if it has none."""
        link = self.store(host) / "current"
        return link.resolve() if link.is_symlink() and link.exists() else None

    def files(self, host):
        """The files in the current state of a host, without the manifest: digests by name."""
        folder = self.current(host)
        if folder is None:
            return {}
        return {str(path.relative_to(folder)): hashlib.sha1(path.read_bytes()).hexdigest()
                for path in sorted(folder.rglob("*")) if path.is_file() and path.name != MANIFEST}

    def names(self, hosts):
        """The names of the current states of hosts."""
        return {folder.name if (folder := self.current(h)) else None for h in hosts}

    def is_state_of(self, checkpoint, hosts):
        """Whether the current states of these hosts together equal the checkpoint."""
        shutil.rmtree("merged", ignore_errors=True)
        for host in hosts:
            if (folder := self.current(host)) is not None:
                shutil.copytree(folder, "merged", dirs_exist_ok=True)
        (pathlib.Path("merged") / MANIFEST).unlink(missing_ok=True)
        return subprocess.run([self.tpx, "verify", checkpoint, "merged"], capture_output=True,
                              env=without_mpi()).returncode == 0


def wait_for(job, seconds=300):
    """Waits for mpirun; kills it if it is blocked after its ranks have ended: Open MPI 4 can deadlock in pmix_rte_finalize
    when a rank was killed. Fails if a rank is still running after `seconds`."""
    idle = 0
    for _ in range(seconds // 5):
        try:
            return job.wait(timeout=5)
        except subprocess.TimeoutExpired:
            idle = 0 if ranks_of(job) else idle + 1
            if idle == 6:
                job.kill()
                return job.wait()
    job.kill()
    sys.exit(f"{job.args}: has not ended after {seconds} s")


def ranks_of(job):
    """The processes that mpirun has started and that are still running."""
    listed = subprocess.run(["ps", "-o", "pid=,stat=", "--ppid", str(job.pid)], capture_output=True, text=True).stdout
    return [int(pid) for pid, state in (line.split() for line in listed.splitlines()) if not state.startswith("Z")]


def without_mpi():
    return {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_COMM", "PMIX_", "PMI_"))}
