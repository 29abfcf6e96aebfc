"""Makes random programs: `program(seed)` gives the text of a module for runner.py.

Every program uses a random part of the templates only, so that programs differ in kind and not only in detail.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import re

import areas
import blocks
import expressions
import keys
import library
import statements

TOKEN = re.compile(
    r"(?P<open>\{\{)|(?P<close>\}\})|\{(?P<outer>\^?)(?P<hole>\w+)(?P<mark>[!@]?)(?P<label>\w*)\}|<(?P<inside>~?)(?P<bound>\w+):(?P<type>\w+)>|<(?P<use>[a-z])>"
)
TAG = re.compile(r"\s*\|([A-Z]+)$")
GLOBALS = {
    "int": ["G_INT"],
    "lint": ["G_LIST"],
    "dsi": ["G_DICT"],
    "sint": ["G_SET"],
    "T": ["G_TENSOR"],
    "R": ["KEPT['rows']", "MODULE.kept"],
    "rate": ["MODULE.rate", "G_RATE[0]"],
    "obj": ["G_OBJ"],
    "gen": ["count_up"],
}
KEYWORDS = {"flag": "bool", "more": "lT", "grown": "R", "rate": "rate"}
SELF = {"int": ["self.count"], "lint": ["self.items"], "T": ["self.buf"]}


class NoName(Exception):
    """A template needs a name of a type that there is none of."""


def enclosed(text: str) -> bool:
    """The first parenthesis ends with the text."""
    depth = list(itertools.accumulate((one == "(") - (one == ")") for one in text))
    return text.startswith("(") and 0 not in depth[:-1] and depth[-1] == 0


class Scope:
    """The names in reach, by type. `own`: the function may assign them."""

    def __init__(self, outer: Scope | None = None, function: bool = False, loop: bool = False) -> None:
        self.outer, self.function, self.loop = outer, function, loop
        self.names: dict[str, list[str]] = {}

    def bind(self, kind: str, name: str) -> None:
        if kind == "any":
            return
        names = self.names.setdefault(kind, [])
        if name not in names:
            names.append(name)

    def visible(self, kind: str) -> list[str]:
        found = list(self.names.get(kind, ()))
        return found + self.outer.visible(kind) if self.outer else found

    def own(self, kind: str) -> list[str]:
        found = [name for name in self.names.get(kind, ()) if name.isidentifier()]
        return found if self.function or self.outer is None else found + self.outer.own(kind)


def rows(text: str) -> list[tuple[str, str]]:
    """(template, tag) of each line."""
    found = []
    for line in text.strip().splitlines():
        tag = TAG.search(line)
        found.append((TAG.sub("", line), tag[1] if tag else ""))
    return found


def paragraphs(text: str) -> list[tuple[str, str]]:
    found = []
    for part in text.strip("\n").split("\n\n"):
        tag = re.match(r"# ([A-Z]+)\n", part)
        found.append((part[tag.end() :] if tag else part, tag[1] if tag else ""))
    # a class body holds an empty line: its paragraphs belong together
    joined: list[tuple[str, str]] = []
    for part, tag in found:
        if part.startswith(" "):
            joined[-1] = (joined[-1][0] + "\n" + part, joined[-1][1])
        else:
            joined.append((part, tag))
    return joined


EXPRESSIONS = {kind: rows(text) for kind, text in expressions.TEMPLATES.items()}
SIMPLE, COMPOUND = paragraphs(statements.SIMPLE), paragraphs(blocks.COMPOUND)
KEY_EXPRESSIONS = {kind: rows(text) for kind, text in keys.EXPRESSIONS.items()}
KEY_SIMPLE, KEY_COMPOUND = paragraphs(keys.SIMPLE), paragraphs(keys.COMPOUND)
AREA_EXPRESSIONS = {kind: rows(text) for kind, text in areas.EXPRESSIONS.items()}
AREA_SIMPLE, AREA_COMPOUND = paragraphs(areas.SIMPLE), paragraphs(areas.COMPOUND)
LEAVES = expressions.LEAVES | keys.LEAVES | areas.LEAVES
RESULTS = [
    "({T}, {int}, {lint})",
    "{T}",
    "[{T}, {V}, {dsi}]",
    '{{"x": {T}, "y": {obj}, "z": {any}}}',
    "({T}, {T}, {any}, {any})",
    "({T}, {fint}, {sint})",
    "({R}, {T}, {float})",
    "({R}, {int})",
]


class Generator:
    """One program in the making."""

    def __init__(
        self, seed: int, size: int = 18, always: frozenset[str] = frozenset(), never: frozenset[str] = frozenset()
    ) -> None:
        self.random = random.Random(seed)
        self.used = 0
        self.left = self.random.randint(5, size)
        self.in_class = False
        shares = {"BREAK": 0.15, "WRONG": 0.12, "RARE": 0.12, "FAILS": 0.15, "KEYS": 0.4, "AREAS": 0.3}
        self.tags = {tag for tag, share in shares.items() if self.random.random() < share}
        self.tags = (self.tags | always) - never
        self.expressions = {kind: self.some(table, 0.5, 4) for kind, table in EXPRESSIONS.items()}
        self.simple, self.compound = self.some(SIMPLE, 0.4, 10), self.some(COMPOUND, 0.4, 6)
        self.about_keys = "KEYS" in self.tags
        self.key_simple, self.key_compound = self.some(KEY_SIMPLE, 0.4, 10), self.some(KEY_COMPOUND, 0.4, 4)
        if self.about_keys:
            for kind, table in KEY_EXPRESSIONS.items():
                self.expressions.setdefault(kind, []).extend(self.some(table, 0.4, 6))

        self.about_areas = "AREAS" in self.tags
        if self.about_areas:
            for kind, table in AREA_EXPRESSIONS.items():
                self.expressions.setdefault(kind, []).extend(self.some(table, 0.3, 3))
            self.simple += self.some(AREA_SIMPLE, 0.4, 3)
            self.compound += self.some(AREA_COMPOUND, 0.4, 2)

    def some(self, table: list[tuple[str, str]], share: float, least: int) -> list[str]:
        allowed = [template for template, tag in table if not tag or tag in self.tags]
        chosen = [template for template in allowed if self.random.random() < share]
        return chosen if len(chosen) >= least else self.random.sample(allowed, min(least, len(allowed)))

    def name(self, kind: str) -> str:
        self.used += 1
        return f"{kind[0].lower() if kind != 'cls' else 'C'}{self.used}"

    # ---- templates

    def fill(self, template: str, scope: Scope, inner: Scope, depth: int, bound: dict[str, str] | None = None) -> str:
        """Puts something into the holes; names that the template binds go to `inner`."""
        bound = {} if bound is None else bound
        for match in TOKEN.finditer(template):
            if match["bound"]:
                bound[match["bound"]] = name = self.name(match["type"])
                inner.bind(match["type"], name)

        def token(match: re.Match) -> str:
            if match["open"] or match["close"]:
                return match[0][0]
            if match["bound"] or match["use"]:
                return bound[match["bound"] or match["use"]]
            hole = match["hole"]
            if hole in bound:
                return bound[hole]
            where = scope if match["outer"] else inner
            if match["mark"]:
                name = self.old_name(hole, where, assignable=match["mark"] == "@")
                if match["label"]:
                    bound[match["label"]] = name
                return name
            return self.expression(hole, where, depth)

        return TOKEN.sub(token, template)

    def old_name(self, kind: str, scope: Scope, assignable: bool) -> str:
        kinds = ["T", "int", "lint", "obj"] if kind == "any" else [kind]
        names = [name for one in kinds for name in (scope.own(one) if assignable else scope.visible(one))]
        if not names:
            raise NoName(kind)
        return self.random.choice(names)

    def expression(self, kind: str, scope: Scope, depth: int) -> str:
        if kind == "any":
            more = ["key", "key", "dk", "lk"] if self.about_keys else []
            kind = self.random.choice(["int", "T", "lint", "dsi", "lT", "V", "I", "R", "str", "obj", "tint", *more])
        if kind == "result":
            results = keys.RESULTS if self.about_keys and self.random.random() < 0.5 else RESULTS
            return self.fill(self.random.choice(results), scope, scope, 1)
        if self.in_class and kind in ("obj", "cls"):  # its methods would call themselves
            raise NoName(kind)
        names = scope.visible(kind)
        if kind in ("cls", "gen"):
            return self.random.choice(names or LEAVES[kind])
        if depth <= 0 or self.random.random() < 0.25:
            return (
                self.random.choice(names) if names and self.random.random() < 0.8 else self.random.choice(LEAVES[kind])
            )
        for _ in range(5):
            template = self.random.choice(self.expressions[kind])
            try:
                text = self.fill(template, scope, Scope(scope), depth - 1)
            except NoName:
                continue
            return text if re.fullmatch(r"[\w.]+", text) or enclosed(text) else f"({text})"
        return self.random.choice(LEAVES[kind])

    # ---- statements

    def block(self, scope: Scope, indent: str, depth: int, least: int = 1, most: int = 3) -> list[str]:
        lines: list[str] = []
        for _ in range(self.random.randint(least, most)):
            lines += self.statement(scope, indent, depth)
            if self.left <= 0:
                break
        return lines or [indent + "pass"]

    def statement(self, scope: Scope, indent: str, depth: int) -> list[str]:
        self.left -= 1
        for _ in range(8):
            compound = depth > 0 and self.random.random() < 0.4
            if self.about_keys and self.random.random() < 0.5:
                template = self.random.choice(self.key_compound if compound else self.key_simple)
            else:
                template = self.random.choice(self.compound if compound else self.simple)
            names = {key: list(value) for key, value in scope.names.items()}
            try:
                return self.expand(template, scope, indent, depth - 1)
            except NoName:
                scope.names = names
        return [indent + "pass"]

    def expand(self, template: str, scope: Scope, indent: str, depth: int) -> list[str]:
        function = template.lstrip("@").startswith(("def ", "functools.wraps")) or "\n    def " in template
        inner, bound, lines = Scope(scope, function=function), {}, []
        for line in template.splitlines():
            space = indent + line[: len(line) - len(line.lstrip())]
            word = line.strip()
            if word.startswith(("else", "elif", "except", "finally", "case")):
                inner.names.clear()  # what the part before has bound may not be there
            if word in ("BLOCK", "LOOP", "DEF", "METHOD"):
                body = Scope(inner, loop=word == "LOOP" or (inner.loop and word == "BLOCK"))
                lines += self.block(body, space, depth if word != "METHOD" else 0, most=3 if word != "METHOD" else 2)
                if word == "LOOP" and self.random.random() < 0.4:
                    test = self.expression("bool", body, 1)
                    lines += [f"{space}if {test}:", f"{space}    {self.random.choice(['break', 'continue'])}"]
            elif word == "NONLOCAL":
                lines += self.nonlocal_line(inner, space)
            else:
                target = scope if not function or line == line.lstrip() else inner
                lines.append(space + self.line(word, target, inner, bound))
        return lines

    def line(self, text: str, scope: Scope, inner: Scope, bound: dict[str, str]) -> str:
        """One line of a statement. Names without ~ are bound in `scope`, those with it in `inner`, for the lines that follow."""
        later = []
        for match in TOKEN.finditer(text):
            if match["bound"] and match["bound"] not in bound:
                kind = match["type"]
                old = [] if match["inside"] or kind in ("fint", "fT", "gen", "cls", "any") else scope.own(kind)
                name = self.random.choice(old) if old and self.random.random() < 0.35 else self.name(kind)
                bound[match["bound"]] = name
                later.append((inner if match["inside"] else scope, kind, name))
        text = TOKEN.sub(lambda match: bound[match["bound"]] if match["bound"] else match[0], text)
        text = self.fill(text, scope, inner, 2, bound)
        for where, kind, name in later:
            where.bind(kind, name)
        return text

    def nonlocal_line(self, inner: Scope, space: str) -> list[str]:
        if self.random.random() < 0.3:
            inner.bind("int", "G_INT")
            return [space + "global G_INT"]
        outer = inner.outer
        names = [
            (kind, name)
            for kind in ("int", "T", "lint")
            for name in (outer.own(kind) if outer and not self.is_module(outer) else ())
        ]
        if not names or self.random.random() < 0.4:
            return []
        kind, name = self.random.choice(names)
        inner.bind(kind, name)
        return [f"{space}nonlocal {name}"]

    def is_module(self, scope: Scope) -> bool:
        while not scope.function and scope.outer is not None:
            scope = scope.outer
        return scope.outer is None

    # ---- the program

    def classes(self, module: Scope) -> list[str]:
        lines: list[str] = []
        for number in range(self.random.randint(1, 3)):
            kind = self.random.choice(
                library.KINDS if number else [library.PLAIN, library.SLOTS, library.DATACLASS, library.LAZY]
            )
            bound = {"c": "A" if number == 0 else f"C{number}", "d": f"D{number}"}
            head = re.sub(r"<(\w):\w+>", r"<\1>", kind)
            lines += [self.fill(line, module, Scope(module), 0, bound) for line in head.splitlines()]
            for part in library.METHODS.strip("\n").split("\n\n"):
                scope = Scope(Scope(function=True), function=True)
                scope.names = {key: list(value) for key, value in SELF.items()}
                lines += ["", *self.member(part, scope)]
            module.bind("cls", bound["c"])
        return lines

    def member(self, template: str, scope: Scope) -> list[str]:
        kept, self.left, self.in_class = self.left, 3, True
        while True:
            attempt = Scope(scope.outer, function=True)
            attempt.names = {key: list(value) for key, value in scope.names.items()}
            with contextlib.suppress(NoName):
                lines = self.expand(template, attempt, "", 0)
                self.left, self.in_class = kept, False
                return lines

    def result(self, scope: Scope) -> str:
        """What the function made, and something more."""
        names = [
            name
            for kind in (
                "T",
                "V",
                "I",
                "R",
                "int",
                "lint",
                "dsi",
                "lT",
                "dsT",
                "obj",
                "str",
                "sint",
                "fint",
                *keys.LEAVES,
            )
            for name in scope.own(kind)
        ]
        chosen = self.random.sample(names, min(len(names), self.random.randint(2, 7)))
        if self.about_keys:
            chosen += [self.fill(probe, scope, Scope(scope), 1) for probe in self.random.sample(keys.PROBES, 2)]
        return ", ".join(["(" + self.expression("result", scope, 2), *chosen]) + ")"

    def program(self) -> str:
        module = Scope(function=True)
        lines = self.classes(module)
        shared = str(self.random.random() < 0.3)
        start, later = self.random.randint(0, 4), self.random.choice(["{cls}", "A"])
        state = (
            library.STATE.replace("{int}", str(start))
            .replace("{shared}", shared)
            .replace("{grad}", str(self.random.random() < 0.15))
            .replace("{takes}", str(self.random.random() < 0.75))
            .replace("{length}", str(self.random.choice((0, 1, 1, 3))))
            .replace("{growth}", str(self.random.choice((0, 1, 1, 2))))
        )
        state = state.replace("{cls}", self.fill(later, module, module, 0))
        head, state = self.with_keys(module, state)
        lines += state.splitlines()
        for kind, names in GLOBALS.items():
            for name in names:
                module.bind(kind, name)
        parameters = [
            ("x", "T"),
            ("y", "V"),
            ("n", "int"),
            ("items", "lint"),
            ("table", "dsi"),
            ("obj", "obj"),
            ("others", "lint"),
        ]
        scope = Scope(module, function=True)
        about_keys = keys.PARAMETERS if self.about_keys else []
        for name, kind in [*parameters, *KEYWORDS.items(), *about_keys]:
            scope.bind(kind, name)
        body = self.block(scope, "    ", 3, self.left, self.left)
        more = "".join(f", {name}=None" for name in [*KEYWORDS, *dict(about_keys)])
        first = f"def f(x, y, n, items, table, obj, others, *{more}):"
        lines += ["", "", first, *body, "    return " + self.result(scope)]
        if self.about_areas:
            head = areas.HEAD.replace("{{", "{").replace("}}", "}").lstrip("\n") + "\n\n" + head
        return library.HEAD.lstrip("\n") + head + "\n".join(lines) + "\n"

    def with_keys(self, module: Scope, state: str) -> tuple[str, str]:
        """What comes before the classes, and the functions of the state, in a program about keys or another."""
        parts = {"KEYS_RESET": keys.RESET, "KEYS_CHANGE": keys.CHANGE, "KEYS_INPUTS": keys.INPUTS}
        for place, part in parts.items():
            state = state.replace(place, part.strip("\n") if self.about_keys else "")
        for place, part in {"AREAS_RESET": areas.RESET, "AREAS_CHANGE": areas.CHANGE}.items():
            state = state.replace(place, part.strip("\n") if self.about_areas else "")
        if not self.about_keys:
            return "", state
        for kind, names in keys.GLOBALS.items():
            for name in names:
                module.bind(kind, name)
        head, _, state = keys.filled(f"{keys.HEAD}\0{state}", self.random).partition("\0")
        return head + "\n\n", state


def program(seed: int, always: frozenset[str] = frozenset(), never: frozenset[str] = frozenset()) -> str:
    """`always`, `never`: tags of templates that may be used in every case, in none."""
    return Generator(seed, always=always, never=never).program()
