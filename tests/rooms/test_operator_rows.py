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


def is_pointwise(name):
    overloads = torch._C._jit_get_schemas_for_operator(f"aten::{name}")
    tags = [torch._C._get_operation_overload(f"aten::{name}", one.overload_name)[2] for one in overloads]
    return any(torch.Tag.pointwise in of_one for of_one in tags)


HOSTILE = torch.tensor([0.0, -0.0, -1.0, 1e38, -1e38, 1e-45, float("inf"), float("-inf"), float("nan")])


def hostile_argument(argument):
    kind = str(argument.type)
    if kind == "List[Tensor]":
        return [HOSTILE.clone(), HOSTILE.clone().flip(0)]
    if kind in ("List[number]", "List[Scalar]"):
        return [float("nan"), -3.0]
    return {"number": -0.5, "Tensor": torch.tensor(float("inf"))}[kind]


def foreach_operators():
    for schema in torch._C._jit_get_all_schemas():
        base = schema.name.removeprefix("aten::_foreach_").rstrip("_")
        reads_numbers = any(a.name == "scalars" and str(a.type) == "Tensor" for a in schema.arguments)
        if schema.name.startswith("aten::_foreach_") and "out" not in schema.overload_name and not reads_numbers:
            if torch._C._jit_get_schemas_for_operator(f"aten::{base}") and is_pointwise(base):
                yield schema


def test_foreach_operators_never_raise_on_the_values_of_floats():
    """Where the operator for one tensor is pointwise nothing is kept to be put back (`is_pointwise` of the core)."""
    tried = 0
    for schema in foreach_operators():
        positional = [a for a in schema.arguments if not a.has_default_value()]
        operator = getattr(torch.ops.aten, schema.name.removeprefix("aten::"))
        getattr(operator, schema.overload_name or "default")(*map(hostile_argument, positional))
        tried += 1
    assert tried > 100
