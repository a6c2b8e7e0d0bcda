"""Holds docs/checking.md against the code: it must name every kind of finding and every program with a mistake, and
the code that it shows must be that of the program."""

import pathlib
import re
import sys


def kinds_in(folders):
    for folder in folders:
        for source in pathlib.Path(folder).glob("*.cpp"):
            for arguments in re.findall(r"\breport(?:_refusal)?\(([^;]*?),\s*(?:fmt|text)", source.read_text()):
                yield from re.findall(r'"([a-z0-9-]+)"', arguments)


def main(page, programs, *folders):
    text = pathlib.Path(page).read_text()
    kinds = set(kinds_in(folders))
    described = set(re.findall(r"^### `([a-z0-9-]+)`$", text, re.MULTILINE))
    mistakes = [f"not described: {kind}" for kind in sorted(kinds - described)]
    mistakes += [f"described, but never reported: {kind}" for kind in sorted(described - kinds)]

    for program in pathlib.Path(programs).glob("*.cpp"):
        if not program.name.startswith("right_") and f"({program.name})" not in text.replace("../tests/check/programs/", ""):
            mistakes.append(f"no link to {program.name}")

    for name, code in re.findall(r"^\[(\w+\.cpp)\][^\n]*:\n```cpp\n(.*?)```$", text, re.MULTILINE | re.DOTALL):
        indented = re.sub(r"^(?=.)", "  ", code, flags=re.MULTILINE)
        if indented not in (pathlib.Path(programs) / name).read_text():
            mistakes.append(f"the code shown is not that of {name}")

    print(*mistakes, sep="\n")
    return 1 if mistakes or not kinds else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
