# SPDX-License-Identifier: Apache-2.0
"""Inspects, plans, converts and verifies training checkpoints by running the program tpx.

Each function runs one command of tpx and returns its JSON document, which tpx-json(7) describes, as a dict. The types are
in tpx.documents. Options of the command are keyword arguments: weights_only=True means --weights-only,
shard_size="5GB" means --shard-size 5GB, and from_="tp=4" means --from tp=4; a list repeats its option, and None omits it.
tpx.run() runs any command. A command that fails raises tpx.Error. The environment variable TPX_PROGRAM is the path of the tpx
program; the default is the one installed with this module, or else the first one in PATH.
"""
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Callable, Mapping, Sequence, cast

from tpx._run import Error, Option, Progress, execute, run

if TYPE_CHECKING:
    from tpx import documents

__all__ = ["Error", "Option", "Progress", "inspect", "plan", "reshard", "run", "verify"]


def reject(command: str, options: Mapping[str, Option], others: Sequence[str]) -> None:
    """Raises ValueError if `options` contains one of `others`, with which `command` prints a document of another type."""
    for key, value in options.items():
        if key.rstrip("_") in others and value is not None:
            raise ValueError(f'{key}= returns another document: use tpx.run("{command}", ..., {key}=...)')


def inspect(checkpoint: str | os.PathLike[str], **options: Option) -> documents.Inspect:
    """Shows what `checkpoint` contains, how it is split, and whether it is complete; tensors=True lists its tensors.

    For the options state, where and store, use tpx.run("inspect", ...)."""
    reject("inspect", options, ("state", "where", "store"))
    return cast("documents.Inspect", execute("inspect", [checkpoint], options))


def plan(
    checkpoint: str | os.PathLike[str] | None = None, *, to: str, **options: Option
) -> documents.PlanSummary:
    """Computes what must move to change `checkpoint`, or a model given by model= and from_=, to the layout `to`.

    `to` is one layout; tpx.run("plan", ..., to="auto") compares layouts. The options list, via and check also
    require tpx.run("plan", ...)."""
    if to == "auto":
        raise ValueError('to="auto" returns another document: use tpx.run("plan", ..., to="auto")')
    reject("plan", options, ("list", "via", "check"))
    return cast("documents.PlanSummary", execute("plan", [checkpoint], {"to": to, **options}))


def reshard(
    checkpoint: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    to: str,
    progress: Callable[[Progress], None] | None = None,
    launcher: Sequence[str] = (),
    **options: Option,
) -> documents.Reshard:
    """Converts `checkpoint` to the layout `to`, and to another format if format= is given, and writes it to `output`.

    `progress` is called from another thread while tpx runs, and once more when the output is complete; an exception in
    `progress` is raised again after tpx ends. `launcher` starts several processes, such as ["mpirun", "-n", "4"]. If Python is
    interrupted, tpx stops; the same call then continues its work. For the option clean, use tpx.run("reshard", ...)."""
    reject("reshard", options, ("clean",))
    result = execute("reshard", [checkpoint, output], {"to": to, **options}, progress, launcher)
    return cast("documents.Reshard", result)


def verify(
    a: str | os.PathLike[str],
    b: str | os.PathLike[str] | None = None,
    *,
    launcher: Sequence[str] = (),
    **options: Option,
) -> documents.Verify:
    """Checks whether `a` is intact, or whether `a` and `b` contain the same training state.

    A difference does not raise an exception: see the key "verdict" of the result."""
    return cast("documents.Verify", execute("verify", [a, b], options, launcher=launcher))
