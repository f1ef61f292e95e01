# SPDX-License-Identifier: Apache-2.0
"""The content of a folder, read repeatedly: only files that may have changed are read again."""
import os
import shutil
import time

TICK = 50_000_000  # ns; the clock of file times is coarser than time.time_ns()


class Tree:
    def __init__(self, folder):
        self.folder = str(folder)
        self.known = {}  # name: (stamp, content), only where a later change would change the stamp

    def snapshot(self):
        """Each file with its bytes, each directory with None."""
        found = {}
        self.collect(self.folder, "", found)
        return found

    def collect(self, folder, prefix, found):
        with os.scandir(folder) as entries:
            for entry in entries:
                name = prefix + entry.name
                if entry.is_dir(follow_symlinks=False):
                    found[name] = None
                    self.collect(entry.path, name + "/", found)
                else:
                    found[name] = self.content(name, entry)

    def content(self, name, entry):
        status = entry.stat(follow_symlinks=False)
        stamp = status.st_ino, status.st_size, status.st_mode, status.st_mtime_ns, status.st_ctime_ns
        known = self.known.get(name)
        if known and known[0] == stamp:
            return known[1]
        now = time.time_ns()
        with open(entry.path, "rb") as file:
            content = file.read()
        self.known.pop(name, None)
        if status.st_ctime_ns < now - TICK:
            self.known[name] = stamp, content
        return content

    def restore(self, now, before):
        """Restores a folder with content `now` to content `before`."""
        for name in sorted(now.keys() - before.keys(), reverse=True):
            path = f"{self.folder}/{name}"
            os.rmdir(path) if now[name] is None else os.unlink(path)
        for name in sorted(before):
            path = f"{self.folder}/{name}"
            if name in now and now[name] == before[name]:
                continue
            if before[name] is None:
                os.mkdir(path)
                continue
            with open(path, "wb") as file:
                file.write(before[name])


def fill(folder, sources, testdata):
    """Copies `sources`, name in the folder: path in testdata, into a new folder."""
    folder.mkdir(parents=True)
    for name, source in sources.items():
        source = testdata / source
        (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / name)
    for root, directories, files in os.walk(folder):
        for name in directories + files:
            path = os.path.join(root, name)
            os.chmod(path, os.stat(path).st_mode | 0o200)


def part(tree, out):
    """The part of `tree` that is `out` or in it."""
    return {name: content for name, content in tree.items() if out and (name == out or name.startswith(out + "/"))}


def rest(tree, out):
    inside = part(tree, out)
    return {name: content for name, content in tree.items() if name not in inside}
