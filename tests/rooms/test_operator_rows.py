"""The rows of src/aten/operators.def: each names something of the installed torch, none stands twice."""

import pathlib
import re

import torch

TABLE = pathlib.Path(__file__).parents[2] / "src" / "aten" / "operators.def"
ROWS = re.findall(r'^OPERATOR\( "([^"]+)"', TABLE.read_text(), re.M)


def known_names():
    """Every name that a row may have: "scatter_.src", "scatter_", and "scatter" for it and for "_foreach_scatter"."""
    names = set()
    for schema in torch._C._jit_get_all_schemas():
        if not schema.name.startswith("aten::"):
            continue
        base = schema.name.removeprefix("aten::")
        plain = base.removeprefix("_foreach_")
        if plain.endswith("_") and not plain.endswith("__"):
            plain = plain[:-1]
        names |= {base, plain, f"{base}.{schema.overload_name}"}
    return names


def test_every_row_names_an_operator():
    assert len(ROWS) > 300
    assert sorted(set(ROWS) - known_names()) == []


def test_no_row_stands_twice():
    assert sorted(set(ROWS)) == ROWS
