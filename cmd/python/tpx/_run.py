# SPDX-License-Identifier: Apache-2.0
"""Runs the program tpx."""
from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sysconfig
import tempfile
import threading
from typing import Any, Callable, Iterator, Literal, Mapping, NamedTuple, Sequence, Union

Word = Union[int, float, str, "os.PathLike[str]"]
Option = Union[None, Literal[True], Word, Sequence[Word]]

check_failed = 3  # exit status if a check failed or checkpoints differ


class Error(Exception):
    """tpx failed: str() is its message, exit_status its exit status, as in tpx(1)."""

    __module__ = "tpx"

    def __init__(self, exit_status: int, message: str):
        super().__init__(message)
        self.exit_status = exit_status

    def __reduce__(self) -> tuple[type[Error], tuple[int, str]]:
        return Error, (self.exit_status, str(self))


class Progress(NamedTuple):
    """The progress of a run."""

    bytes_done: int
    bytes: int


def program() -> str:
    """The path of the program tpx: the value of the environment variable TPX_PROGRAM; default: the program installed with
    this module, then the first one in PATH."""
    given = os.environ.get("TPX_PROGRAM")
    if given:
        return given
    target_bin = pathlib.Path(__file__).resolve().parents[1] / "bin"  # of pip install --target
    for folder in (sysconfig.get_path("scripts"), sysconfig.get_path("scripts", f"{os.name}_user"), target_bin):
        found = shutil.which("tpx", path=str(folder))
        if found:
            return found
    found = shutil.which("tpx")
    if found is None:
        raise Error(127, "the program tpx is not in PATH; set TPX_PROGRAM to its path")
    return found


def environment(launcher: Sequence[str]) -> dict[str, str]:
    """The environment of tpx. Without a launcher, it lacks the variables that make a process a rank of an MPI job: Python may
    be such a rank, but tpx is not."""
    variables = dict(os.environ)
    if not launcher:
        for name in os.environ:
            if name.startswith(("OMPI_", "PMIX_", "PMI_")) or name == "SLURM_PROCID":
                del variables[name]
    return variables


def word_of(key: str, value: object) -> str:
    """A value of the option `key`, as on the command line."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float, os.PathLike)):
        raise TypeError(f"{key}={value!r}: use True, a str, int, float or path, a list of them, or None to omit the option")
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def command_line_options(options: Mapping[str, Option]) -> list[str]:
    """Keyword arguments as options of the command line: from_="tp=4" becomes --from=tp=4."""
    words = []
    for key, value in options.items():
        name = "--" + key.rstrip("_").replace("_", "-")
        if value is True:
            words.append(name)
        elif isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
            words += [f"{name}={word_of(key, each)}" for each in value]
        elif value is not None:
            words.append(f"{name}={word_of(key, value)}")
    return words


class Follower:
    """Reads the log of a run in a thread of its own, and calls `progress` there."""

    def __init__(self, progress: Callable[[Progress], None]):
        self.progress = progress
        self.raised: BaseException | None = None  # by `progress`
        self.total: int | None = None  # bytes of the run, once it has reported them

    def report(self, done: int, total: int) -> None:
        """Calls `progress`, unless it has raised an exception."""
        if self.raised is None:
            try:
                self.progress(Progress(done, total))
            except BaseException as error:  # the log must be read to its end, or tpx would wait
                self.raised = error

    def follow(self, stream: Any) -> None:
        """Reads events until the event "over"."""
        for line in stream:
            with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError):  # a line that is not an event
                event = json.loads(line)
                kind = event.get("event")
                if kind == "over":
                    return
                if kind == "progress":
                    self.total = int(event["bytes"])
                    self.report(int(event["bytes_done"]), self.total)

    def finish(self, result: dict[str, Any]) -> None:
        """Reports that all bytes are written, if they are. Raises the exception of `progress`, if there was one."""
        if result.get("written"):
            total = int(result["bytes"]) if self.total is None else self.total
            self.report(total, total)
        if self.raised is not None:
            raise self.raised


@contextlib.contextmanager
def progress_pipe(follower: Follower | None) -> Iterator[list[str]]:
    """Yields options that make tpx report its progress to `follower` through a pipe."""
    if follower is None:
        yield []
        return
    with tempfile.TemporaryDirectory(prefix="tpx-") as folder:
        pipe = os.path.join(folder, "log")
        os.mkfifo(pipe)
        # Opened for reading and writing, to avoid waiting for tpx, which may fail before it opens the pipe.
        with open(os.open(pipe, os.O_RDWR), "r+b", buffering=0) as ends, open(os.dup(ends.fileno()), "rb") as stream:
            thread = threading.Thread(target=follower.follow, args=(stream,), daemon=True)
            thread.start()
            try:
                yield ["--log", pipe]
            finally:
                ends.write(b'\n{"event":"over"}\n')  # tpx may have ended within a line
                thread.join()


def start(line: Sequence[str], launcher: Sequence[str]) -> subprocess.Popen[str]:
    """Starts a command line in a session of its own, so that Ctrl-C in a terminal signals only Python, which then signals tpx."""
    try:
        return subprocess.Popen(
            line,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(launcher),
            start_new_session=True,
            encoding="utf-8",
            errors="replace",
        )
    except OSError as error:
        raise Error(127, f"{line[0]}: {error.strerror}") from error


def stop(process: subprocess.Popen[str]) -> None:
    """Stops tpx as Ctrl-C does: tpx keeps its work, so that the same call can continue it. A second Ctrl-C sends a second
    signal, and tpx stops at once."""
    while True:
        try:
            process.send_signal(signal.SIGINT)
            process.communicate()
            return
        except KeyboardInterrupt:
            continue


def result_of(command: str, status: int, output: str, messages: str) -> dict[str, Any]:
    """The document that a command printed. Raises Error if the command failed."""
    documents: list[dict[str, Any]] = []
    for line in output.splitlines():  # a launcher may print other lines
        with contextlib.suppress(ValueError):
            document = json.loads(line)
            if isinstance(document, dict) and str(document.get("schema")).startswith("tpx."):
                documents.append(document)
    for document in documents:
        if document["schema"] == "tpx.error/1":
            raise Error(document["error"]["exit_status"], document["error"]["message"])
    if status not in (0, check_failed):
        cause = messages.strip().rpartition("\n")[2] or f"tpx {command} exited with status {status}"
        raise Error(status, cause)
    if not documents:
        raise Error(status or 1, f"tpx {command} exited with status {status} but printed no JSON document")
    return documents[0]


def execute(
    command: str,
    arguments: Sequence[str | os.PathLike[str] | None],
    options: Mapping[str, Option],
    progress: Callable[[Progress], None] | None = None,
    launcher: Sequence[str] = (),
) -> dict[str, Any]:
    """Runs a command of tpx, and returns the JSON document that it prints."""
    if progress is not None and options.get("log") is not None:
        raise ValueError("log= cannot be used with progress=, which reads the log")
    words = [os.fspath(argument) for argument in arguments if argument is not None]
    option_words = command_line_options(options)
    follower = None if progress is None else Follower(progress)
    with progress_pipe(follower) as log:
        line = [*launcher, program(), *command.split(), "--json", "--quiet", *option_words, *log, "--", *words]
        process = start(line, launcher)
        try:
            output, messages = process.communicate()
        except BaseException:
            stop(process)
            raise
    result = result_of(command, process.returncode, output, messages)
    if follower is not None:
        follower.finish(result)
    return result


def run(command: str, *arguments: str | os.PathLike[str] | None, **options: Option) -> dict[str, Any]:
    """Runs `tpx COMMAND ARGUMENTS...` with `options`, and returns the JSON document that it prints."""
    return execute(command, arguments, options)
