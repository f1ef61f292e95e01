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
from typing import Any, Callable, Iterator, NamedTuple, Sequence, Union, cast

Option = Union[None, bool, int, float, str, "os.PathLike[str]", Sequence[Union[int, float, str, "os.PathLike[str]"]]]

check_failed = 3  # exit status of a command whose result is negative


class Error(Exception):
    """tpx failed: str() is its message, exit_status its exit status, as in tpx(1)."""

    __module__ = "tpx"

    def __init__(self, exit_status: int, message: str):
        super().__init__(message)
        self.exit_status = exit_status


class Progress(NamedTuple):
    """How far a run is."""

    bytes_done: int
    bytes: int


def program() -> str:
    """The program tpx: that in the environment variable TPX_PROGRAM, the one installed with this module, or the first one
    in PATH."""
    given = os.environ.get("TPX_PROGRAM")
    if given:
        return given
    beside = pathlib.Path(__file__).resolve().parents[1] / "bin"  # of pip install --target
    for folder in (sysconfig.get_path("scripts"), sysconfig.get_path("scripts", f"{os.name}_user"), beside):
        found = shutil.which("tpx", path=str(folder))
        if found:
            return found
    found = shutil.which("tpx")
    if found is None:
        raise Error(127, "the program tpx is not in PATH; set TPX_PROGRAM to its path")
    return found


def words_of(options: dict[str, Option]) -> list[str]:
    """Keyword arguments as options of the command line: from_="tp=4" becomes --from=tp=4."""
    words = []
    for key, value in options.items():
        name = "--" + key.rstrip("_").replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(name)
        elif isinstance(value, (str, int, float, os.PathLike)):
            words.append(f"{name}={os.fspath(value) if isinstance(value, os.PathLike) else value}")
        else:
            words += [f"{name}={os.fspath(each) if isinstance(each, os.PathLike) else each}" for each in value]
    return words


@contextlib.contextmanager
def followed(progress: Callable[[Progress], None] | None) -> Iterator[list[str]]:
    """Options with which tpx reports its progress to a pipe. A thread reads the pipe and calls `progress`; what that raises
    is raised at the end."""
    if progress is None:
        yield []
        return
    raised: list[BaseException] = []

    def follow(stream: Any) -> None:
        for line in stream:
            event = json.loads(line)
            if event["event"] == "over":
                return
            try:
                if event["event"] == "progress" and not raised:
                    progress(Progress(event["bytes_done"], event["bytes"]))
            except BaseException as error:  # the pipe must be read to its end, or tpx would wait
                raised.append(error)

    with tempfile.TemporaryDirectory(prefix="tpx-") as folder:
        pipe = os.path.join(folder, "log")
        os.mkfifo(pipe)
        # Opened for reading and writing: tpx opens and closes it for each event, which would be an end of file.
        with open(os.open(pipe, os.O_RDWR), "r+b", buffering=0) as ends, open(os.dup(ends.fileno()), "rb") as stream:
            thread = threading.Thread(target=follow, args=(stream,), daemon=True)
            thread.start()
            try:
                yield ["--log", pipe]
            finally:
                ends.write(b'{"event":"over"}\n')
                thread.join()
    if raised:
        raise raised[0]


def stop(process: subprocess.Popen[str]) -> None:
    """Ends tpx as Ctrl-C does: it keeps what the same command can continue. In a terminal, it has the signal already."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=1)
        return
    process.send_signal(signal.SIGINT)
    process.communicate()


def result_of(command: str, status: int, output: str, messages: str) -> dict[str, Any]:
    """The document that a command printed. Raises Error if it failed."""
    documents = []
    for line in output.splitlines():
        with contextlib.suppress(ValueError):
            documents.append(json.loads(line))
    for document in documents:
        if document.get("schema") == "tpx.error/1":
            raise Error(document["error"]["exit_status"], document["error"]["message"])
    if status not in (0, check_failed) or not documents:
        cause = messages.strip().rpartition("\n")[2] or f"tpx {command} exited with status {status}"
        raise Error(status, cause)
    return cast("dict[str, Any]", documents[0])


def execute(
    command: str,
    arguments: Sequence[str | os.PathLike[str] | None],
    options: dict[str, Option],
    progress: Callable[[Progress], None] | None = None,
    launcher: Sequence[str] = (),
) -> dict[str, Any]:
    """Runs a command of tpx, and returns the JSON document that it prints."""
    words = [os.fspath(argument) for argument in arguments if argument is not None]
    with followed(progress) as log:
        line = [*launcher, program(), *command.split(), "--json", "--quiet", *words_of(options), *log, "--", *words]
        process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8")
        try:
            output, messages = process.communicate()
        except BaseException:
            stop(process)
            raise
        result = result_of(command, process.returncode, output, messages)
    if progress is not None:
        total = int(result.get("bytes", 0))
        progress(Progress(total, total))
    return result


def run(command: str, *arguments: str | os.PathLike[str] | None, **options: Option) -> dict[str, Any]:
    """Runs `tpx COMMAND ARGUMENTS...` with `options`, and returns the JSON document that it prints."""
    return execute(command, arguments, options)
