# SPDX-License-Identifier: Apache-2.0
"""Inspects, plans, converts and verifies training checkpoints by running the program tpx.

Each function runs one command of tpx and returns its JSON document, which tpx-json(7) describes, as a dict. The types are
in tpx.documents. Options of the command are keyword arguments: weights_only=True stands for --weights-only, shard_size="5GB"
for --shard-size 5GB, from_="tp=4" for --from tp=4, and a list repeats its option. A command that fails raises tpx.Error.
The environment variable TPX_PROGRAM names another program than the one that is installed with the module.
"""
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Callable, Sequence, cast

from tpx._run import Error, Option, Progress, execute, run

if TYPE_CHECKING:
    from tpx import documents

__all__ = ["Error", "Option", "Progress", "inspect", "plan", "reshard", "run", "verify"]

def inspect(checkpoint: str | os.PathLike[str], **options: Option) -> documents.Inspect:
    """What `checkpoint` contains, how it is split, and whether it is complete; tensors=True lists its tensors."""
    return cast("documents.Inspect", execute("inspect", [checkpoint], options))


def plan(
    checkpoint: str | os.PathLike[str] | None = None, *, to: str, **options: Option
) -> documents.PlanSummary:
    """What must move to change `checkpoint`, or a model given by model= and from_=, to the layout `to`.

    `to` is one layout; tpx.run("plan", ..., to="auto") compares layouts."""
    if to == "auto":
        raise ValueError('to="auto" has another result: use tpx.run("plan", ..., to="auto")')
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

    `progress` is called while tpx runs, and once at the end. `launcher` starts several processes, such as
    ["mpirun", "-n", "4"]. If Python is interrupted, tpx stops; the same call then continues its work."""
    result = execute("reshard", [checkpoint, output], {"to": to, **options}, progress, launcher)
    return cast("documents.Reshard", result)


def verify(
    a: str | os.PathLike[str],
    b: str | os.PathLike[str] | None = None,
    *,
    launcher: Sequence[str] = (),
    **options: Option,
) -> documents.Verify:
    """Whether `a` is intact, or whether `a` and `b` contain the same training state.

    A difference is a result, not an exception: see its key "verdict"."""
    return cast("documents.Verify", execute("verify", [a, b], options, launcher=launcher))
