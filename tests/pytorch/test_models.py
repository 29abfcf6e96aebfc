"""Architectures of transformers with random weights: one graph each, equal to eager on every call.

models/architectures.json holds a tiny configuration and input recipes for each; text, vision, audio, encoder-decoder, mixture of experts
and state-space models are among them.
"""

import dataclasses
import importlib
import json
import pathlib

import pytest
import torch

import pellucid

transformers = pytest.importorskip("transformers")

SPECS = json.loads((pathlib.Path(__file__).parent.parent / "models" / "architectures.json").read_text())


def model_of(spec):
    torch.manual_seed(0)
    cls = getattr(transformers, spec["model"].rpartition(":")[2], None)
    if cls is None:
        module, _, name = spec["model"].partition(":")
        cls = getattr(importlib.import_module("transformers.models." + module), name)
    config = getattr(transformers, spec["config"])(**spec["kwargs"])
    model = cls._from_config(config) if hasattr(cls, "_from_config") else cls(config)
    model.eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():  # what a class leaves uninitialised would differ between runs
        for parameter in model.parameters():
            bad = ~torch.isfinite(parameter)
            if bad.any():
                parameter[bad] = 0.02 * torch.randn(int(bad.sum()), generator=generator)
    return model


def value_of(recipe, generator):
    kind, shape = recipe["op"], recipe.get("shape")
    dtype = getattr(torch, recipe["dtype"]) if "dtype" in recipe else None
    if kind == "int":
        value = torch.randint(recipe["low"], recipe["high"], shape, generator=generator, dtype=dtype or torch.int64)
        for start, count, token in recipe.get("put", []):
            value[:, start : start + count] = token
        return value
    if kind == "normal":
        return (torch.randn(shape, generator=generator) * recipe.get("scale", 1.0)).to(dtype or torch.float32)
    if kind == "mask":
        value = torch.ones(shape, dtype=dtype or torch.int64)
        value[1:, -1] = 0
        return value
    if kind == "full":
        return torch.full(shape, recipe["value"], dtype=dtype or torch.int64)
    if kind == "data":
        return torch.tensor(recipe["value"], dtype=dtype)
    if kind == "value":
        return recipe["value"]
    raise ValueError(kind)


def inputs_of(spec, seed):
    generator = torch.Generator().manual_seed(seed)
    return {name: value_of(recipe, generator) for name, recipe in spec["inputs"].items()}


def leaves(value, path="out"):
    """Every tensor and plain value below an output, with its path."""
    if isinstance(value, torch.Tensor) or value is None or isinstance(value, (bool, int, float, str)):
        return [(path, value)]
    if isinstance(value, dict):
        return [leaf for key, item in value.items() for leaf in leaves(item, f"{path}[{key!r}]")]
    if isinstance(value, (list, tuple)):
        return [leaf for i, item in enumerate(value) for leaf in leaves(item, f"{path}[{i}]")]
    if dataclasses.is_dataclass(value):
        return [leaf for f in dataclasses.fields(value) for leaf in leaves(getattr(value, f.name), f"{path}.{f.name}")]
    if hasattr(value, "__dict__"):
        return [leaf for key, item in vars(value).items() for leaf in leaves(item, f"{path}.{key}")]
    return [(path, type(value))]


def assert_same(want, got):
    want, got = leaves(want), leaves(got)
    assert [path for path, _ in want] == [path for path, _ in got]
    for (path, a), (_, b) in zip(want, got, strict=True):
        if isinstance(a, torch.Tensor):
            assert (a.dtype, a.shape, a.stride(), a.requires_grad) == (b.dtype, b.shape, b.stride(), b.requires_grad), (
                path
            )
            torch.testing.assert_close(
                b, a, rtol=1e-5, atol=1e-6, equal_nan=True, msg=lambda m, path=path: f"{path}: {m}"
            )
        else:
            assert a == b, path


@pytest.mark.parametrize("spec", SPECS, ids=[spec["name"] for spec in SPECS])
def test_architecture(spec):
    pellucid.reset()
    model = model_of(spec)
    kept_before = pellucid.counters()["kept_bytes"]
    graphs = []

    def backend(gm, example_inputs):
        graphs.append(sum(node.op.startswith("call_") for node in gm.graph.nodes))
        return gm.forward

    compiled = pellucid.compile(model, backend=backend, fullgraph=True)
    with torch.no_grad():
        for seed in (0, 0, 1):
            torch.manual_seed(seed)
            want = model(**inputs_of(spec, seed))
            torch.manual_seed(seed)
            got = compiled(**inputs_of(spec, seed))
            assert type(want) is type(got)
            assert_same(want, got)
    assert pellucid.counters()["kept_bytes"] == kept_before, "something is copied at each call in case the graph raises"
    assert len(graphs) == 1, f"{len(graphs)} graphs"
    assert graphs[0] >= 5
