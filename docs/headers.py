# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""The directive `header`: an entry for each function, type and constant of a public header, from its declarations and
comments. Sphinx's domains of C and C++ parse the declarations, and `./dev docs` fails where they cannot.

A comment is about the declarations that follow it without an empty line. `// ---- Title: text ----` begins a section.
Lines in columns become parameters, statuses or a list, other indented lines stay as they are.
"""

import itertools
import pathlib
import re
import textwrap

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

INCLUDE = pathlib.Path(__file__).parent.parent / "include"
SECTION = re.compile(r"// ---- (.*?)(?:: (.*?))? ----$")
COMMENT = re.compile(r" *//[/<]* ?")
MACRO = re.compile(r"#define (?!\w+_H$)(?!.*__attribute__)(\w+(?:\([^)]*\))?) ([^/]*)(.*)")
SKIPPED = re.compile(r"template <>|friend |(template <.*>\s+)?struct \w+;|struct \w+_format")
BRACED = re.compile(r"(?P<head>[^({=]*)\{(?P<body>.*)\}(?P<tail>[^}]*);", re.DOTALL)
EXPORTS = re.compile(r"\b(?:ACL_FUNC_VISIBILITY|ACLNN_API|ACLGRAD_API|ACLGRAD_SECUREC_API|static inline|inline) ")
FORMAT = re.compile(r" *ACLGRAD_SECUREC_FORMAT\(.*\)")
NAME = re.compile(r"\b(?:acl|Acl|ACL|Hccl|HCCL)\w+|\b\w+_s\b")
ROW = re.compile(r"(\S+(?:, \S+)*)  +(?!=)(\S.*)")
LABEL = re.compile(r"(?<=\n)(?=[A-Z]\w+(?: \w+){0,2}: )")


def flat(lists):
    return list(itertools.chain.from_iterable(lists))


def without_comment(line):
    code, _, comment = line.partition("//")
    return code.rstrip(), comment.lstrip("/<").strip()


def declaration_in(lines):
    """The lines of the first declaration, up to a semicolon or the end of a function's body."""
    depth = 0
    for count, line in enumerate(lines, 1):
        code = without_comment(line)[0]
        depth += code.count("{") + code.count("(") - code.count("}") - code.count(")")
        if depth == 0 and code.endswith((";", "}")):
            return lines[:count]
    raise ValueError(f"no end of the declaration: {lines[0]}")


def kind_of(code, is_cpp):
    if code.startswith(("using ", "typedef ")):
        return "type"
    if "(" in signature_of(code).partition(" = ")[0]:
        return "function"
    return "member" if is_cpp else "var"


def signature_of(code):
    """A declaration as Sphinx takes it: without bodies, initialisers of members and marks of exported functions."""
    code = EXPORTS.sub("", FORMAT.sub("", " ".join(code.split()))).removeprefix("static const ").rstrip(";")
    code = re.sub(r"\) (const )?(: .*)?\{.*\}$", lambda match: f") {match[1] or ''}", code).strip()
    code = re.sub(r"(template <class \w+), .*::(?:type|value)> ", r"\1> ", code)  # what only chooses the overload
    return re.sub(r"^typedef (?:struct \w+ )?|^using ", "", code)


class Reader:
    """Makes reStructuredText of the lines of a header or of a type's body."""

    def __init__(self, is_cpp, names=()):
        self.domain, self.is_cpp, self.names = ("cpp" if is_cpp else "c"), is_cpp, names

    def read(self, lines, in_type=False):
        text, comment, group, position = [], [], None, 0
        while position < len(lines):
            line = lines[position].strip()
            position += 1
            if not line or SECTION.match(line):
                text += self.prose(comment)
                comment, group = [], None
                if line:
                    text.append(line)
            elif line.startswith("//"):
                comment, group = [*comment, COMMENT.sub("", lines[position - 1], count=1)], None
            elif match := MACRO.match(line):
                value, note = match[2].strip(), COMMENT.sub("", match[3])
                if comment and position < len(lines) and lines[position].startswith("#define"):
                    text, comment = text + self.prose(comment), []
                text += self.entry("macro", [match[1]], [*comment, f"`{value}`: {note}" if note else f"`{value}`"])
                comment, group = [], None
            elif line.startswith(("#", 'extern "C"')):
                text += [] if "__attribute__" in line else self.prose(comment)
                comment, group = [], None
            elif match := re.match(r"namespace (\w+) \{", line):
                text += [f"// ---- Namespace {match[1]} ----"] if match[1] == "cuda" else []
                text += [*self.prose(comment), "", f".. cpp:namespace-push:: {match[1]}", ""]
                comment = []
            elif line.startswith("}"):
                text += ["", ".. cpp:namespace-pop::", ""] if "namespace" in line else []
            elif match := re.match(r"(public|private):", line):
                if match[1] == "private":
                    break
            else:
                declared = declaration_in(lines[position - 1 :])
                position += len(declared) - 1
                group = self.declaration(declared, comment, group, in_type, text)
                comment = []
        text += self.prose(comment)
        return flat(self.entry(*item[0], item[1]) if isinstance(item, tuple) else [item] for item in text)

    def declaration(self, lines, comment, group, in_type, text):
        """Adds to the text, and returns the entry to which the next declaration may belong."""
        note = without_comment(lines[-1])[1]
        code = "\n".join(without_comment(line)[0] for line in lines).strip()
        whole = BRACED.fullmatch("\n".join(lines)) or BRACED.fullmatch(code)
        if SKIPPED.match(code):
            return None
        if whole and re.search(r"\b(enum|struct|class)\b", whole["head"]):
            text += self.braced(whole, comment)
            return None
        kind = kind_of(code, self.is_cpp or in_type)
        if group and group[0] == kind and not comment and not note:
            group[1].append(signature_of(code))
            return group
        if comment and note:
            text += self.prose(comment)
        group = (kind, [signature_of(code)])
        text.append((group, [note] if note else comment))
        return None if note else group

    def braced(self, whole, comment):
        """An enumeration, a structure or a class with its members."""
        head = " ".join(re.sub("//.*", "", whole["head"]).split()).removeprefix("typedef ")
        template, head = re.fullmatch(r"(template <.*?> )?(.*)", head).groups("")
        kind = re.match(r"enum class|enum|struct|class", head)[0]
        body = whole["body"]
        if "enum" in kind:
            lines = (body if "\n" in body else body.replace(", ", ",\n")).splitlines()
            members = self.enumerators([without_comment(line) for line in lines if line.strip()])
        else:
            if kind == "class":
                body = body[body.index("public:") + 7 :]
            members = self.read(textwrap.dedent(body).splitlines(), in_type=True)
        name = whole["tail"].strip() or head.removeprefix(kind).strip()
        if re.match(r"\W", name):  # an enumeration without a name
            return members
        return self.entry(kind.replace(" ", "-"), [template + name], comment, members)

    def enumerators(self, members):
        """Those without a comment share an entry."""
        text = []
        for note, group in itertools.groupby(members, key=lambda member: member[1]):
            text += self.entry("enumerator", [code.strip().rstrip(",") for code, _ in group], [note] if note else [])
        return text

    def entry(self, kind, signatures, comment, members=()):
        option = ["   :no-contents-entry:"] if kind in ("enumerator", "member", "macro", "var") else []
        first = f".. {self.domain if kind != 'macro' else 'c'}:{kind}:: "
        parameters = {name for signature in signatures for name in re.findall(r"(\w+)(?:\[\])*(?=[,)])", signature)}
        content = textwrap.indent("\n".join([*self.prose(comment, parameters), "", *members]), "   ").splitlines()
        others = [" " * len(first) + signature for signature in signatures[1:]]
        return ["", first + signatures[0], *others, *option, "", *content, ""]

    def prose(self, lines, parameters=()):
        """A comment as reStructuredText."""
        blocks = [(False, [])]
        for line in lines:
            in_columns = bool(line.startswith("  ") or ROW.match(line)) and bool(line.strip())
            if not line.strip() or in_columns != blocks[-1][0]:
                blocks.append((in_columns, []))
            blocks[-1][1].append(line)
        return flat(self.columns(block, parameters) if columns else self.paragraphs(block) for columns, block in blocks)

    def paragraphs(self, lines):
        return ["", *(self.escaped(part).strip() for text in LABEL.split("\n".join(lines)) for part in (text, "\n"))]

    def columns(self, lines, parameters):
        lines = textwrap.dedent("\n".join(lines)).splitlines()
        rows = []
        for line in lines:
            if match := ROW.fullmatch(line):
                rows.append(list(match.groups()))
            elif rows and line.startswith("    "):
                rows[-1][1] += " " + line.strip()
            else:
                rows = []
                break
        rows = [(name, re.sub(" {3,}", ", ", text) if name in parameters else text) for name, text in rows]
        if not rows or any("   " in text for _, text in rows):
            text = textwrap.indent("\n".join(lines), "   ").splitlines()
            return ["", ".. code-block:: text", "   :class: header-text", "", *text, ""]
        return ["", *(self.field(name, self.escaped(text), parameters) for name, text in rows), ""]

    def field(self, name, text, parameters):
        if name in parameters:
            return f":param {name}: {text}"
        if re.fullmatch(r"\d{6}", name) and isinstance(parameters, set):  # of an entry
            return f":retval {name}: {text}"
        return f"{self.escaped(name)}\n   {text}"

    def escaped(self, text):
        """Code between backticks is set as such, and names of other entries lead to them."""
        parts = re.split(r"`([^`]*)`", text)
        parts[1::2] = (f"\\ ``{part}``\\ " for part in parts[1::2])
        parts[0::2] = (self.with_links(part) for part in parts[0::2])
        return "".join(parts)

    def with_links(self, text):
        parts = NAME.split(text)
        names = NAME.findall(text)
        links = [f"\\ :c:data:`{name}`\\ " if name in self.names else name.replace("_", r"\_") for name in names]
        plain = [re.sub(r"([\\*_|])", r"\\\1", part) for part in parts]
        return "".join(part + link for part, link in zip(plain, [*links, ""], strict=True))


class Header(SphinxDirective):
    required_arguments = 1

    def run(self):
        path = INCLUDE / self.arguments[0]
        self.env.note_dependency(str(path))
        is_cpp = "namespace" in path.read_text() and "version.h" not in path.name
        reader = Reader(is_cpp, names_of_headers())
        include = f'#include "{self.arguments[0]}"'
        parent = nodes.Element("", nodes.literal_block(include, include, language="c"))
        for title, lines in sections(reader.read(path.read_text().splitlines()[1:])):
            part = nodes.section() if title else parent
            if title:
                part += nodes.title(text=title)
                part["ids"].append(nodes.make_id(f"{path.stem} {title}"))
                parent += part
            text = "\n".join(lines).splitlines()
            self.state.nested_parse(StringList(text, source=str(path)), 0, part)
        return parent.children


def sections(lines):
    """(title or None, lines) for each section."""
    found = [(None, [])]
    for line in lines:
        if match := SECTION.match(line):
            about = [match[2][0].upper() + match[2][1:] + "."] if match[2] else []
            found.append((match[1], about))
        else:
            found[-1][1].append(line)
    return found


def names_of_headers():
    text = "\n".join(path.read_text() for path in INCLUDE.rglob("*.h"))
    function, typedef = r"(?:API|VISIBILITY|static inline) [^(;]*?(\w+)\(", r"typedef .*?(\w+);"
    constant = r"#define (\w+)|const \w+ (\w+) =|^  ((?:ACL|HCCL)_\w+)"
    return set(flat(re.findall(f"{function}|{typedef}|{constant}", text, re.MULTILINE))) - {""}


def check_completeness(app, env):
    """No header of functions is forgotten."""
    objects = itertools.chain(env.domains["c"].get_objects(), env.domains["cpp"].get_objects())
    entries = {entry[0].split("::")[-1].split("(")[0] for entry in objects}
    for path in INCLUDE.rglob("*.h"):
        for name in re.findall(r"^(?:\w+_API|ACL_FUNC_VISIBILITY) [^(;]*?(\w+)\(", path.read_text(), re.MULTILINE):
            if name not in entries:
                logging.getLogger(__name__).warning("%s: no page has an entry for %s", path, name)


def setup(app):
    app.add_directive("header", Header)
    app.connect("env-check-consistency", check_completeness)
