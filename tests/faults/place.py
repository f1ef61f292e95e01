# SPDX-License-Identifier: Apache-2.0
"""A folder in which one job runs repeatedly, and the conditions that each run must meet."""
import re
import shutil
import signal
from pathlib import Path
from typing import NamedTuple

from runner import Server, launch, settings
from tree import Tree, fill, part, rest

MARKER = "tpx.unfinished"


class Call(NamedTuple):
    category: str
    number: int  # among the calls of the category on the path, counted from 1
    path: str  # below the folder


class Verdict(NamedTuple):
    wrong: list
    status: int
    reached: bool  # whether the call took place


class Place:
    def __init__(self, options, job, folder):
        self.options, self.job, self.folder = options, job, folder
        self.trace = folder.with_name(folder.name + ".trace")
        fill(folder, job.sources, Path(options.testdata))
        for command in job.setup:
            self.prepare(command)
        self.tree = Tree(folder)
        libraries = f"{options.shim}:{options.ranks}" if job.ranks > 1 else options.shim
        self.server = Server(self.words(job.command), folder, libraries, job.ranks)
        self.before = self.tree.snapshot()
        self.learn()

    def learn(self):
        """Runs without a fault to record the correct results."""
        self.reference = self.run()
        self.after = self.tree.snapshot()
        if self.job.out and (self.reference.status != 0 or self.before == self.after):
            raise SystemExit(f"{self.job.name}: fails without a fault: {self.reference}")
        self.tree.restore(self.after, self.before)
        again = self.run()
        self.steady = self.text(again) == self.text(self.reference)
        self.expect_same(again)
        if self.job.ranks > 1:  # under the real MPI, too
            self.expect_same(launch(self.words(self.job.command), self.folder, self.options.shim, {}, self.job.ranks))

    def expect_same(self, run):
        now = self.tree.snapshot()
        self.tree.restore(now, self.before)
        if now != self.after:
            raise SystemExit(f"{self.job.name}: two runs write different files: {run}")

    def prepare(self, command):
        word, *names = command.split()
        if word == "rm":
            target = self.folder / names[0]
            shutil.rmtree(target) if target.is_dir() else target.unlink()
        elif word == "mv":
            (self.folder / names[0]).rename(self.folder / names[1])
        elif (run := launch(self.words(command), self.folder, self.options.shim, {})).status != 0:
            raise SystemExit(f"{self.job.name}: {command}: {run}")

    def words(self, command):
        """Names become paths, so that messages show where a file is."""
        names = {"out", "made", "change", *self.job.sources}
        return [self.options.tpx,
                *(str(self.folder / word) if word.split("/")[0] in names else word for word in command.split())]

    def text(self, run):
        """Standard output without times and rates, which vary, and without the line about shared blocks, which depends
        on the file system."""
        return re.sub(r".* of it shared with disk blocks .*\n", "", re.sub(r"in [0-9.]+ .*", "", run.stdout))

    def run(self, case=None, trace=None):
        return self.server.run(settings(case, trace) | {"TPX_FAULT_PLAIN": "1" if self.job.plain else ""})

    def traced(self):
        """Takes the calls that the last run has recorded, by rank."""
        found = {}
        for file in self.trace.parent.glob(self.trace.name + ".*"):
            found[file.suffix[1:]] = file.read_text(errors="replace").splitlines()
            file.unlink()
        return found

    def calls(self):
        """The calls of a run without a fault, by rank."""
        self.run(trace=self.trace)
        self.tree.restore(self.tree.snapshot(), self.before)
        found = {}
        for rank, lines in self.traced().items():
            met = {}
            for line in lines:
                met[line] = met.get(line, 0) + 1
                category, path = line.split(" ", 1)
                found.setdefault(rank, []).append(Call(category, met[line], path))
        return found

    def try_fault(self, case):
        """The faults of the files that `case` leaves behind."""
        run = self.run(case, self.trace)
        reached = any(self.traced().values())
        now = self.tree.snapshot()
        killed = case.error == "KILL" and run.status == -signal.SIGKILL
        wrong = self.judge_killed(now) if killed else self.judge(run, now)
        is_done = killed and self.job.out and part(now, self.job.out) == part(self.after, self.job.out)
        if (run.status == 1 or killed) and now != self.before and not is_done:
            wrong += self.judge_next_run()
            now = self.tree.snapshot()
        self.tree.restore(now, self.before)
        said = f"(exit {run.status}; {run.stderr.strip()[-600:]})"
        return Verdict([f"{text} {said}" for text in wrong], run.status, reached)

    def judge_next_run(self):
        """Files that a fault left behind must not block the next run."""
        run = self.run()
        if run.status == 0 and part(self.tree.snapshot(), self.job.out) == part(self.after, self.job.out):
            return []
        return [f"the next run ends with exit {run.status}: {run.stderr.strip()}"]

    def judge_killed(self, now):
        out = self.job.out
        others, others_before = rest(now, out), rest(self.before, out)
        changed = {name for name, content in others_before.items() if name not in now or now[name] != content}
        wrong = [f"changes {sorted(changed)[:3]}"] if changed else []
        is_whole = part(now, out) in (part(self.after, out), part(self.before, out))
        if out and not is_whole and not self.is_between_names(now):
            wrong.append("the output is neither the old nor the new one")
        return wrong + [f"leaves {name}, a part that looks whole" for name in others.keys() - others_before.keys()
                        if self.looks_whole(now, name)]

    def is_between_names(self, now):
        """Whether the old output has its other name, which a file system that cannot exchange names needs for a moment.
        The next run must put it back or replace it, see judge_next_run()."""
        def content_of(tree, name):
            return {path[len(name):]: content for path, content in part(tree, name).items()}

        kept = {name.split("/")[0] for name in now if name.startswith(self.job.out + ".old-")}
        before = content_of(self.before, self.job.out)
        return self.job.plain and not part(now, self.job.out) and any(content_of(now, name) == before for name in kept)

    def judge(self, run, now):
        out, wrong = self.job.out, []
        if run.status < 0 or run.status > 128 or "terminate called" in run.stderr or "signal" in run.stderr:
            wrong.append("crashes")
        if "internal error" in run.stderr:
            wrong.append("internal error")
        others, others_before = rest(now, out), rest(self.before, out)
        extra = others.keys() - others_before.keys()
        changed = {name for name, content in others_before.items() if name not in now or now[name] != content}
        if changed:
            wrong.append(f"changes {sorted(changed)[:3]}")
        if [name for name in extra if name.split("/")[0] not in run.stderr]:
            wrong.append(f"leaves {sorted(extra)[:3]} behind without a word")
        wrong += [f"leaves {name}, a part that looks whole" for name in extra if self.looks_whole(now, name)]
        return wrong + self.judge_answer(run, now)

    def looks_whole(self, now, name):
        """Whether a folder next to the output is neither marked, empty, nor a complete output."""
        if "/" in name or now[name] is not None:
            return False
        content = {path[len(name) + 1:]: data for path, data in part(now, name).items() if path != name}
        files = {path for path, data in content.items() if data is not None and not path.endswith(".partial")}
        outputs = [{path[len(self.job.out) + 1:]: data for path, data in part(tree, self.job.out).items()
                    if path != self.job.out} for tree in (self.before, self.after)]
        is_file = list(content.values()) in ([tree.get(self.job.out)] for tree in (self.before, self.after))
        return bool(files) and MARKER not in files and content not in outputs and not is_file

    def judge_answer(self, run, now):
        out, wrong = self.job.out, []
        complete = part(now, out) == part(self.after, out)
        untouched = part(now, out) == part(self.before, out)
        if run.status == 0:
            if not complete:
                wrong.append("exit 0, but the output is not that of a run without faults")
            if self.reference.status != 0:
                wrong.append("exit 0, which is a wrong answer")
            if self.steady and self.text(run) != self.text(self.reference):
                wrong.append("exit 0, but standard output differs")
        elif run.status != self.reference.status:  # else the answer is the same
            if not complete and not untouched and not self.is_kept(run, now):
                wrong.append("the output is neither the old nor the new one")
            elif run.status == 1 and complete and not untouched:
                wrong.append("exit 1, but the new output is in place")
            elif run.status == 4 and not complete:
                wrong.append("exit 4, but the old output is in place")
            # verify reports that a checkpoint cannot be read.
            is_answer = run.status == 3 and self.job.command.startswith("verify") and str(self.folder) in run.stdout
            if run.status not in (1, 4) and not is_answer:
                wrong.append("an exit status that claims an answer")
            if str(self.folder) not in run.stderr and not is_answer:
                wrong.append("no message names a file")
        return wrong

    def is_kept(self, run, now):
        """Whether the former output has another name, and a message says so: if every rename fails, no name can be
        restored."""
        out = self.job.out
        before = [content for _, content in sorted(part(self.before, out).items())]
        return out not in now and any(
            [content for _, content in sorted(part(now, name).items())] == before
            for name in rest(now, out).keys() - self.before.keys() if "/" not in name and name in run.stderr)

    def close(self):
        self.server.close()
        shutil.rmtree(self.folder)
