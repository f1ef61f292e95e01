#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""family-table.py [--check]: writes formats/rules/README.md, a table of the model families and of what is tested for each. The
table is derived from the rules, the lists in tests/interop and the files of testdata; no framework is needed. With --check,
nothing is written, and the exit status is 1 if the table or the list of families in man/tpx-rules.5.in is not up to date."""
import ast
import json
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
INTEROP = ROOT / "tests/interop"
TABLE = ROOT / "formats/rules/README.md"
HEAD = """# Model families

Each file describes a family of models; tpx-rules(5) explains the notation. `scripts/family-table.py` writes this table from the
files, the lists of models in `tests/interop`, and `testdata`. "yes" means that a test covers the column, "rules" that the file
has rules for it but no test covers it, and an empty field that there are no rules or tests.

- HF: tiny random models of transformers are converted to another layout and back with the same bytes, and `from_pretrained` loads
  them.
- Megatron: the same through Megatron's names in `torch_dist`; "Bridge" means that Megatron Bridge builds the model, with its own
  layers or with settings that Megatron's args do not have.
- titan: the same through torchtitan's names; or names, shapes and values are those that torchtitan's code produces.
- tp, ep, pp: in these round trips, tensors are split by tensor, expert and pipeline parallelism of 2 or more.
- optimizer: state of Megatron's optimizer is converted, and compared with the state that Megatron writes.
- FP8: `testdata/quantized` contains quantized weights, in FP8 or another type.
- logits: with the converted weights, Megatron-core computes the same logits as transformers.
- Bridge: names, shapes and values of each rank are those that Megatron Bridge's code produces.

"""
OUTER_HEAD = """
tpx reads and writes these models under the names of Megatron Bridge (`torch_dist`) or torchtitan: the language model is
sharded; other parts, such as a vision tower, are on the first pipeline stage, and split by tensor parallelism where Megatron
Bridge splits them. Other vision-language and audio models keep their Hugging Face names; their language models are split under
these names.

"""
COLUMNS = ["HF", "Megatron", "titan", "tp", "ep", "pp", "optimizer", "FP8", "logits", "Bridge"]

# Classes of transformers whose names differ from their model_type without underscores.
TYPES = {"hunyuandensev1": "hunyuan_v1_dense", "hunyuanmoev1": "hunyuan_v1_moe", "flexolmo": "flex_olmo", "gemma3": "gemma3_text", "gemma4": "gemma4_text", "gemma3n": "gemma3n_text", "minimaxm3sparse": "minimax_m3_vl",
         "step3p7": "step3p5", "glm4v": "glm4v_text", "glm5next": "glm5_next_text", "museglimmer": "muse_glimmer_text", "qwen4exp": "qwen4_exp_text", "llama4": "llama4_text", "qwen35": "qwen3_5_text", "qwen35moe": "qwen3_5_moe_text",
         "gemma4unified": "gemma4_unified_text", "minicpmv46": "qwen3_5_text", "ovis2": "qwen2", "mllama": "mllama_text_model", "mistrallarge4": "mistral_large4_text",
         "dots3note": "dots3_note_text", "inkling": "inkling_text", "minimaxm3vl": "minimax_m3_vl_text",
         "fuyu": "persimmon", "openaigpt": "openai-gpt", "modernbertdecoder": "modernbert-decoder", "aria": "aria_text", "inkling2": "inkling2_text", "coherecompass": "cohere_compass_text",
         "unlimitedocr": "unlimited_ocr_text", "emu3": "emu3_text_model", "musespark": "muse_spark_text"}  # fmt: skip
# The family of each fixture of Megatron's optimizer state.
FIXTURES = {"llama": "llama", "gpt2": "gpt2", "moe": "qwen3moe"}


def families():
    """The families by name, without fragments: (names of their dialects, model types)."""
    files = {file.stem: tomllib.loads(file.read_text()) for file in sorted((ROOT / "formats/rules").glob("*.toml"))}

    def dialects(name):
        inherited = {dialect for parent in files[name].get("extends", []) for dialect in dialects(parent)}
        return (inherited - set(files[name].get("without", []))) | set(files[name].get("dialects", {}))

    return {name: (dialects(name), file.get("detect", {}).get("hf", [])) for name, file in files.items() if not file.get("fragment")}


def literal(file, name):
    """The value of the top-level variable `name` in a Python file, as a syntax tree."""
    for node in ast.parse((INTEROP / file).read_text()).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == name:
            return node.value
    raise KeyError(f"{file} has no {name}")


def models(name):
    """Key, class and layout ('' if none) of the models in a dictionary of families.py."""
    tree = literal("families.py", name)
    for key, value in zip(tree.keys, tree.values):
        yield key.value, value.elts[0].value, value.elts[2].value if len(value.elts) > 2 else ""


def model_type(kind, known):
    """The model_type of a class of transformers."""
    base = re.sub(r"(LMHeadModel|For[A-Z]\w+|EncoderModel|Model)$", "", kind)
    plain = base.replace("_", "").lower()
    found = next((word for word in known if word.replace("_", "") == plain), None) or TYPES.get(plain)
    if found not in known:
        raise ValueError(f"{kind}: no family has its model_type; add it to TYPES")
    return found


def read_titan():
    """The models that are converted to torchtitan's names."""
    text = (INTEROP / "hf_models.py").read_text()
    return re.findall(r'"([^"]+)"', re.search(r'torchtitan\'s names", titan.*? in \((.*?)\)\]', text)[1])


def bridge_configs():
    """The configurations of the models in testdata/bridge."""
    return [json.loads(table.read_text())["config"] for table in sorted((ROOT / "testdata/bridge").glob("*.json"))]


def titan_configs():
    """The configurations of the models in testdata/titan."""
    return [json.loads(table.read_text())["config"] for table in sorted((ROOT / "testdata/titan").glob("*.json"))]


def outer_types():
    """For each type of a model around a language model: (file that describes it, dialects that the file names other than hf)."""
    files = sorted((ROOT / "formats/rules").glob("*.toml"))
    outer = [(file.stem, model) for file in files for model in tomllib.loads(file.read_text()).get("outer", [])]
    return {word: (file, dialects) for file, model in outer if (dialects := set(model["nest"]) - {"hf"}) for word in model["types"]}


def language_config(config):
    """The configuration of the language model within `config`, or `config` itself if it describes no other model."""
    inner = config.get("thinker_config", config)
    return inner.get("text_config", inner)


def outer_table():
    """The table of models around language models: for each model type, the file that describes it, and what is tested."""
    compared = {config["model_type"] for config in bridge_configs() if language_config(config) is not config}
    known = outer_types()
    tried = {model_type(kind, known): layout for _, kind, layout in models("OUTER")}
    titan = {config["model_type"] for config in titan_configs()}
    lines = ["| model type | file | Megatron | Bridge | titan |", "|---|---|---|---|---|"]
    for word, (file, dialects) in sorted(known.items()):
        megatron = ("yes" if word in tried else "rules") if "mcore" in dialects else ""
        torchtitan = ("yes" if word in titan else "rules") if "titan" in dialects else ""
        lines.append(f"| `{word}` | {file} | {megatron} | {'yes' if word in compared else ''} | {torchtitan} |")
    return OUTER_HEAD + "\n".join(lines) + "\n"


def covered():
    """The families, and for each family its columns with their words ("yes", "Bridge" or "rules")."""
    rules = families()
    of_type = {word: name for name, (_, words) in rules.items() for word in words}
    found = {name: {} for name in rules}

    def mark(family, *columns, word="yes"):
        for column in columns:
            found[family].setdefault(column, word)

    of_key = {}
    without_logits = ast.literal_eval(literal("megatron_logits.py", "BRIDGE"))
    for group in ("MEGATRON", "NEWER", "BRIDGED", "KEPT"):
        for key, kind, layout in models(group):
            family = of_key[key] = of_type[model_type(kind, of_type)]
            own = group == "BRIDGED" or key in without_logits
            mark(family, "HF")
            mark(family, *(degree for degree in ("tp", "ep", "pp") if re.search(rf"\b{degree}=[2-9]", layout or "tp=2")))
            if layout:
                mark(family, "Megatron", word="Bridge" if own else "yes")
            if layout and not own:
                mark(family, "logits")
    for _, kind, layout in models("OUTER"):
        outer = model_type(kind, outer_types())
        family = of_type.get(f"{outer}_text", outer_types()[outer][0])
        if family:
            mark(family, "HF", *(degree for degree in ("tp", "ep", "pp") if re.search(rf"\b{degree}=[2-9]", layout)))
            mark(family, "Megatron", word="Bridge")
    for key in read_titan():
        mark(of_key[key], "titan")
    for config in titan_configs():
        mark(of_type[language_config(config)["model_type"]], "titan")
    for file in ("megatron_steps.py", "rank_files.py"):
        for fixture in re.findall(r'"(\w+)-(?:opt|x)-', (INTEROP / file).read_text()):
            mark(FIXTURES[fixture], "optimizer")
    for config in (ROOT / "testdata/quantized").glob("*/config.json"):
        settings = json.loads(config.read_text())
        if "quantization_config" in settings:
            mark(of_type[settings["model_type"]], "FP8")
    for config in bridge_configs():
        mark(of_type[language_config(config)["model_type"]], "Bridge")
    for name, (dialects, _) in rules.items():
        for column, dialect in (("HF", "hf"), ("Megatron", "mcore"), ("titan", "titan")):
            if dialect in dialects:
                mark(name, column, word="rules")
            elif column in found[name]:
                raise ValueError(f"{name} has no names of {dialect}, but a test of them")
    return rules, found


def table():
    rules, found = covered()
    lines = [f"| family | model types | {' | '.join(COLUMNS)} |", "|" + "---|" * (len(COLUMNS) + 2)]
    for name, (_, words) in rules.items():
        lines.append(f"| {name} | {', '.join(f'`{word}`' for word in words)} | {' | '.join(found[name].get(column, '') for column in COLUMNS)} |")
    counts = [sum(found[name].get(column, "rules") != "rules" for name in rules) for column in COLUMNS]
    lines.append(f"| {len(rules)} families, tested | | {' | '.join(map(str, counts))} |")
    return HEAD + "\n".join(lines) + "\n" + outer_table()


def man_page_faults():
    """Families that are missing in the lists of the man page, or listed there but unknown."""
    text = (ROOT / "man/tpx-rules.5.in").read_text()
    rules = families()
    start = text.index("The built-in families are")
    middle, last = text.index("Megatron's names are known for"), text.index("torchtitan's names for")
    end = text.index("Shapes alone do not determine", last)
    faults = []
    for part, dialect in ((text[start:middle], None), (text[middle:last], "mcore"), (text[last:end], "titan")):
        listed = set(re.findall(r"[\w.-]*\w", " ".join(re.findall(r"^\.Cm (.*)$", part, re.M))))
        expected = {name for name, (dialects, _) in rules.items() if dialect is None or dialect in dialects}
        faults += [f"man/tpx-rules.5.in: {name} is not in its list of {dialect or 'families'}" for name in sorted(expected - listed)]
        faults += [f"man/tpx-rules.5.in: {name} is in its list of {dialect or 'families'}" for name in sorted(listed - expected)]
    return faults


def main():
    made = table()
    if sys.argv[1:] != ["--check"]:
        TABLE.write_text(made)
        return 0
    faults = man_page_faults()
    if not TABLE.exists() or TABLE.read_text() != made:
        faults.append("formats/rules/README.md is not up to date; run scripts/family-table.py")
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
