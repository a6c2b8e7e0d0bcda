# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""The binary interface (ABI) of the libraries in an install prefix, a line for each thing on which a compiled program
depends: SONAMEs, functions with their types, structures with their members' offsets, enumerators, other names of types.

    abi.py PREFIX                 prints it
    abi.py PREFIX DESCRIPTION     compares it with that of a file. A line of the file that is missing is an error; new
                                  lines are not, as no program that was compiled before can use them
    abi.py PREFIX DESCRIPTION --exact     new lines are errors, too

It reads what g++ tells debuggers (DWARF) of a file that includes all public headers.
"""

import argparse
import itertools
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator

LIBRARIES = ("libaclgrad.so", "libc_sec.so")
RECORDS = {"DW_TAG_structure_type": "struct", "DW_TAG_class_type": "struct", "DW_TAG_union_type": "union"}
POINTERS = {"DW_TAG_pointer_type": "*", "DW_TAG_reference_type": "&", "DW_TAG_rvalue_reference_type": "&&"}
PREFIX_OF_VARIABLES = "abi_of_"
ENTRY = re.compile(r" <(\w+)><(\w+)>: Abbrev Number: \d+ \((\w+)\)")
# Newer versions of readelf write the form before the value; strings have their offset before them.
ATTRIBUTE = re.compile(r" +<\w+> +(DW_AT_\w+) *: (?:\(\w+\) ?)?(?:\([^)]*offset: \w+\): )?([^\t]*)")


def output(*command: object) -> str:
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout


class Entry:
    """An entry of the debugging information, with its attributes and the entries inside."""

    def __init__(self, tag: str, parent: "Entry | None") -> None:
        self.tag, self.parent = tag, parent
        self.attributes: dict[str, str] = {}
        self.children: list[Entry] = []

    def name(self) -> str:
        return self.attributes.get("DW_AT_name", "")

    def qualified_name(self) -> str:
        scope = self.parent.qualified_name() if self.parent and self.parent.tag != "DW_TAG_compile_unit" else ""
        return "::".join(filter(None, [scope, self.name()]))

    def of_kind(self, tag: str) -> "list[Entry]":
        return [child for child in self.children if child.tag == tag]


class DebuggingInformation:
    def __init__(self, file: pathlib.Path) -> None:
        self.entries: dict[int, Entry] = {}
        above: list[Entry] = []
        for line in output("readelf", "--wide", "--debug-dump=info", file).splitlines():
            if start := ENTRY.match(line):
                del above[int(start[1], 16):]
                entry = Entry(start[3], above[-1] if above else None)
                if above:
                    above[-1].children.append(entry)
                above.append(entry)
                self.entries[int(start[2], 16)] = entry
            elif above and (attribute := ATTRIBUTE.match(line)):
                above[-1].attributes[attribute[1]] = attribute[2]

    def type_of(self, entry: Entry) -> str:
        reference = entry.attributes.get("DW_AT_type")
        return self.written(self.entries[int(reference[1:].partition(">")[0], 16)]) if reference else "void"

    def written(self, entry: Entry) -> str:
        """A type, as C++ writes it; arrays and functions stand where their names would."""
        if entry.tag in POINTERS:
            return self.type_of(entry) + POINTERS[entry.tag]
        if entry.tag == "DW_TAG_const_type":
            return self.type_of(entry) + " const"
        if entry.tag == "DW_TAG_array_type":
            ranges = entry.of_kind("DW_TAG_subrange_type")
            return self.type_of(entry) + "".join(f"[{int(r.attributes['DW_AT_upper_bound'], 0) + 1}]" for r in ranges)
        if entry.tag == "DW_TAG_subroutine_type":
            parameters = [self.type_of(parameter) for parameter in entry.of_kind("DW_TAG_formal_parameter")]
            parameters += ["..."] * len(entry.of_kind("DW_TAG_unspecified_parameters"))
            return f"{self.type_of(entry)}({', '.join(parameters)})"
        return entry.qualified_name() or entry.tag

    def functions(self) -> Iterator[str]:
        """Those of C: the file has a variable with the type of each."""
        for entry in self.entries.values():
            if entry.tag == "DW_TAG_variable" and entry.name().startswith(PREFIX_OF_VARIABLES):
                result, _, parameters = self.type_of(entry).removesuffix("*").partition("(")
                yield f"function {result} {entry.name().removeprefix(PREFIX_OF_VARIABLES)}({parameters}"

    def types(self, words: set[str]) -> Iterator[str]:
        """Those whose names are among the words of the headers."""
        for entry in self.entries.values():
            name = entry.qualified_name()
            if name.startswith("std::") or not set(re.findall(r"\w+", name.partition("<")[0])) <= words:
                continue
            size = int(entry.attributes.get("DW_AT_byte_size", "0"), 0)
            if entry.tag in RECORDS and size and entry.name():
                members = [m for m in entry.children if "DW_AT_data_member_location" in m.attributes]
                if not members:
                    yield f"{RECORDS[entry.tag]} {name}, {size} bytes: no members"
                for member in members:
                    offset = int(member.attributes["DW_AT_data_member_location"], 0)
                    text = f"{self.type_of(member)} {member.name() or '(base class)'}"
                    yield f"{RECORDS[entry.tag]} {name}, {size} bytes: byte {offset} {text}"
            elif entry.tag == "DW_TAG_enumeration_type":
                for value in entry.of_kind("DW_TAG_enumerator"):
                    if value.name() in words:
                        number = int(value.attributes["DW_AT_const_value"], 0)
                        yield f"enum {name}, {size} bytes: {value.name()} = {number}"
            elif entry.tag == "DW_TAG_typedef" and (meaning := self.type_of(entry)) != name:
                if not meaning.startswith("__"):  # int8_t and its like are the C library's
                    yield f"type {name}: {meaning}"


def in_order(line: str) -> list[str]:
    """A key for sorting, in which byte 8 comes before byte 16."""
    return [part.zfill(12) if part.isdigit() else part for part in re.split(r"(\d+)", line)]


MEMBER = re.compile(r"((?:enum|struct|union) .*, \d+ bytes: )(.*)")


def as_text(lines: list[str]) -> str:
    """With the members of a type together behind its name."""
    text = ""
    for of, members in itertools.groupby(lines, lambda line: match[1] if (match := MEMBER.match(line)) else line):
        unbroken = [member.removeprefix(of).replace(" ", "\0") for member in members]
        whole = (of + "; ".join(unbroken)).replace(" ", " " if unbroken[0] else "\0")
        text += textwrap.fill(whole, 120, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False) + "\n"
    return text.replace("\0", " ")


def as_lines(text: str) -> list[str]:
    lines = []
    for paragraph in text.replace("\n  ", " ").splitlines():
        of, members = match.groups() if (match := MEMBER.match(paragraph)) else (paragraph, "")
        lines += [of + member for member in members.split("; ")]
    return lines


def symbols(library: pathlib.Path, *options: str) -> list[str]:
    listing = output("nm", "--dynamic", "--defined-only", *options, library)
    return [line.split(maxsplit=2)[2] for line in listing.splitlines()]


def describe(prefix: pathlib.Path) -> list[str]:
    include = (prefix / "include").resolve()
    headers = sorted(header.relative_to(include).as_posix() for header in include.rglob("*.h"))
    libraries = [prefix / "lib64" / name for name in LIBRARIES]
    c_functions = [name for library in libraries for name in symbols(library) if not name.startswith("_Z")]
    lines = {f"function {name}" for library in libraries for name in symbols(library, "--demangle") if "(" in name}
    for library in libraries:
        soname = re.search(r"\(SONAME\).*\[(.+)\]", output("readelf", "--wide", "--dynamic", library))
        lines.add(f"library {soname[1] if soname else library.name}")
    with tempfile.TemporaryDirectory() as folder:
        source, compiled = pathlib.Path(folder, "all.cpp"), pathlib.Path(folder, "all.o")
        source.write_text("\n".join([
            *(f'#include "{header}"' for header in headers),
            *(f"decltype(&{name}) {PREFIX_OF_VARIABLES}{name};" for name in c_functions), ""]))  # fmt: skip
        output("g++", "-std=c++17", "-g", "-fno-eliminate-unused-debug-types", "-I", include, "-c", source,
               "-o", compiled)  # fmt: skip
        information = DebuggingInformation(compiled)
    words = {word for header in headers for word in re.findall(r"\w+", (include / header).read_text())}
    return sorted(lines.union(information.functions(), information.types(words)), key=in_order)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prefix", type=pathlib.Path)
    parser.add_argument("description", type=pathlib.Path, nargs="?")
    parser.add_argument("--exact", action="store_true")
    arguments = parser.parse_args()
    lines = describe(arguments.prefix)
    if arguments.description is None:
        print(as_text(lines), end="")
        return 0
    wanted = as_lines(arguments.description.read_text())
    missing, new = [line for line in wanted if line not in lines], [line for line in lines if line not in wanted]
    print(*(f"missing: {line}" for line in missing), *(f"new: {line}" for line in new), sep="\n")
    print(f"{len(wanted)} lines in {arguments.description}: {len(missing)} are missing, {len(new)} are new")
    return 1 if missing or not wanted or (arguments.exact and new) else 0


if __name__ == "__main__":
    sys.exit(main())
