# SPDX-License-Identifier: Apache-2.0
"""Runs tpx migrate --store on emulated hosts, and looks at what is in their stores."""
import hashlib
import os
import pathlib
import shutil
import subprocess

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

    def migrate(self, *arguments, alive, **settings):
        """Runs it; returns its status and what it said."""
        done = subprocess.run(self.command(*arguments, alive=alive), capture_output=True, text=True, timeout=300,
                              stdin=subprocess.DEVNULL, **settings)
        return done.returncode, done.stdout + done.stderr

    def current(self, host):
        """The folder of the current state of a host; None if it has none."""
        link = self.store(host) / "current"
        return link.resolve() if link.is_symlink() and link.exists() else None

    def files(self, host):
        """What the current state of a host has: digests of files by name, without the manifest."""
        folder = self.current(host)
        if folder is None:
            return {}
        return {str(path.relative_to(folder)): hashlib.sha1(path.read_bytes()).hexdigest()
                for path in sorted(folder.rglob("*")) if path.is_file() and path.name != MANIFEST}

    def names(self, hosts):
        """The names of the current states of hosts."""
        return {folder.name if (folder := self.current(h)) else None for h in hosts}

    def is_state_of(self, checkpoint, hosts):
        """Whether the current states of these hosts together are the checkpoint."""
        shutil.rmtree("merged", ignore_errors=True)
        for host in hosts:
            if (folder := self.current(host)) is not None:
                shutil.copytree(folder, "merged", dirs_exist_ok=True)
        (pathlib.Path("merged") / MANIFEST).unlink(missing_ok=True)
        return subprocess.run([self.tpx, "verify", checkpoint, "merged"], capture_output=True,
                              env=without_mpi()).returncode == 0


def without_mpi():
    return {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_COMM", "PMIX_", "PMI_"))}
