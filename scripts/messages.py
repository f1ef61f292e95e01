# SPDX-License-Identifier: Apache-2.0
"""messages.py [--check]: lists all messages of tpx for review, one per line: errors and notes in the transcripts of
tests/cli, then those in the sources, with {} where values are inserted. With --check, it instead prints messages and
lines of standard output in the transcripts that look wrong, for example because of a wrong plural, and exits with 1 if
there are any."""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CALLS = r"\b(?:failure|usage_error|mistake|refusal|note|notes\.push_back|bad|Error\s*\{\s*Exit::\w+\s*,|fail)\s*\(?"
LITERALS = re.compile(CALLS + r'[^;"]*?((?:"(?:[^"\\]|\\.)*"\s*)+)')
# Words that end in s but can follow a 1 because they are not plurals.
SINGULAR = {"as", "bias", "bytes/s", "class", "does", "has", "is", "less", "pass", "process", "this", "us", "was", "zeros", "s"}


def of_transcripts():
    """(file, message) of each line on standard error that begins with "tpx: "."""
    found = set()
    for path in sorted((ROOT / "tests/cli").glob("*.transcript")):
        for line in path.read_text().splitlines():
            if line.startswith("2> tpx: "):
                found.add((path.stem, line[len("2> tpx: "):]))
    return sorted(found, key=lambda each: each[1].removeprefix("note: "))


def of_output():
    """(file, line) of each line of prose on standard output: not of commands' input, JSON or CSV."""
    found = set()
    for path in sorted((ROOT / "tests/cli").glob("*.transcript")):
        for line in path.read_text().splitlines():
            if line and not line.startswith(("$ ", "# ", "2> ", "=> ", "{", "[", '"')) and line.count(",") < 12:
                found.add((path.stem, line))
    return sorted(found)


def of_sources():
    """Yields (file, text) for each string literal of an error or a note."""
    for folder in ("cmd", "formats", "lib"):
        for path in sorted((ROOT / folder).rglob("*.cpp")):
            for match in LITERALS.finditer(path.read_text()):
                text = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', match[1]))
                if " " in text:
                    yield path.relative_to(ROOT), text


def wrong_numbers(message):
    """Yields each number in a message whose noun or verb does not match, as in "1 faults", "1 tensor ranks" or "1 of 6
    files are"."""
    message = re.sub(r"'[^']*'", "'...'", message)  # quoted names are not checked
    for words in re.findall(r"(?<![\w.,=:/\[-])1 ([a-z-]+(?:/s)?)\b(?: ([a-z]+)\b)?(?![=.(])", message):
        if any(word.endswith("s") and word not in SINGULAR for word in words):
            yield f"wrong plural '1 {' '.join(words).strip()}'"
    if found := re.search(r"\b1 of \d+ [a-z -]*?\b(are|do|have|were)\b", message):
        yield f"wrong verb '{found[0]}'"


def faults_of(message):
    """Yields a description of each thing that looks wrong in a message."""
    yield from wrong_numbers(message)
    message = re.sub(r"'[^']*'", "'...'", message)
    if re.search(r"\band 0 more\b", message):
        yield "'and 0 more'"
    if twice := re.search(r"(?<![\w.])([a-z]+) \1\b(?![.=_])", message):
        yield f"'{twice[0]}'"
    if re.search(r"\{(\d|:[^}\"]*)?\}", message):
        yield "a value is not inserted"


def main():
    if "--check" in sys.argv[1:]:
        wrong = [f"{file}: {line}: {fault}" for file, line in of_transcripts() for fault in faults_of(line)]
        wrong += [f"{file}: {line}: {fault}" for file, line in of_output() for fault in wrong_numbers(line)]
        print("\n".join(wrong))
        return bool(wrong)
    for file, message in [*of_transcripts(), *of_sources()]:
        print(f"{file}: {message}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
