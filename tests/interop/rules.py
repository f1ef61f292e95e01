# SPDX-License-Identifier: Apache-2.0
"""Models of unknown families: transformers builds a tiny model of each type, and tpx rules suggest drafts rules for it. With
these rules, the model converts to tp=2 (and pp=2) and back without loss, and tpx rules check passes."""
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import survey

# Types of decoders in transformers for which tpx has no rules.
TYPES = ["trocr", "bert-generation", "rembert", "roformer", "megatron-bert"]


def run(tpx, *words):
    done = subprocess.run([tpx, *map(str, words)], capture_output=True, text=True)
    return done.returncode, (done.stdout + done.stderr).strip()


def check(tpx, model_type, source, folder):
    """The first failure; empty if there is none; None if the family of the model is known."""
    rules, there, back = folder / "rules.toml", folder / "there", folder / "back"
    code, text = run(tpx, "rules", "suggest", source, "-o", rules)
    if "no rules are needed" in text:
        return None
    commands = [
        ("rules", "check", rules, source),
        ("reshard", source, there, "--to", "tp=2,pp=2", "--format", "dcp", "--dialect", "keep", "--rules", rules, "--quiet"),
        ("reshard", there, back, "--to", "tp=1", "--format", "safetensors", "--rules", rules, "--quiet"),
        ("verify", "--weights-only", source, back),
    ]
    for words in commands:
        if code:
            return text
        code, text = run(tpx, *words)
    return text if code else ""


def main(tpx):
    from transformers import logging
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    logging.set_verbosity_error()
    warnings.simplefilter("ignore")
    failures, drafted = [], 0
    for model_type in TYPES:
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            source = folder / "source"
            survey.make(model_type, dict(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES), source)
            failure = check(tpx, model_type, source, folder)
            drafted += failure is not None
            if failure:
                failures.append(f"{model_type}: {failure}")
    if drafted < 4:
        failures.append(f"only {drafted} of {len(TYPES)} models are unknown; add others to TYPES")
    print("\n".join(failures) or f"{drafted} drafts work unchanged")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
