"""The samples that torch tests its own operators with, with every size open: at other sizes the results are what the
size rules say."""

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_unflatten

from support.replay import Layout, Like, closed_call, evaluate, open_call, other_values

torch.set_num_threads(1)
SAMPLES = 16


def places(sample, alike):
    """The sample's arguments with names for its sizes: one for each size, or for each dimension of each tensor."""
    leaves, tree = tree_flatten(((sample.input, *sample.args), sample.kwargs))
    names = 0
    for i, leaf in enumerate(leaves):
        if not isinstance(leaf, torch.Tensor):
            continue
        if leaf.layout != torch.strided:
            return None
        named = {}
        for d, size in enumerate(leaf.shape):
            if size >= 2 and leaf.numel() > 0:  # strides beside a size of 0 say nothing
                named[d] = f"n{size}" if alike else f"s{names}"
                names += 1
        leaves[i] = Like(leaf, named)
    return tree_unflatten(leaves, tree) if names else None


def replay(op, sample, alike):
    """None: this call has no fake without open sizes either."""
    found = places(sample, alike)
    if found is None:
        return None
    args, kwargs = found
    for leaf in tree_flatten(found)[0]:
        if isinstance(leaf, Like):
            leaf.layout = Layout(
                tuple(map(str, leaf.tensor.shape)),
                tuple(map(str, leaf.tensor.stride())),
                str(leaf.tensor.storage_offset()),
                leaf.tensor.dtype,
            )
    try:
        closed_call(op, args, kwargs, {})
    except Exception:
        return None
    opened = open_call(op, args, kwargs)
    for values in [opened.symbols, *other_values(opened, count=3, tries=300)]:
        assert opened.allows(values), (values, opened.decisions)
        said = [r.at(values) if isinstance(r, Layout) else evaluate(r, values) for r in opened.results]
        try:
            real = closed_call(op, args, kwargs, values)
        except Exception as error:
            raise AssertionError(f"{values}: raises {error!r:.200}; decisions {opened.decisions}") from error
        assert said == real, f"{values}: said {said}, found {real}; decisions {opened.decisions}"
    return opened


@pytest.mark.parametrize("op", [op for op in op_db if torch.float32 in op.dtypes], ids=lambda op: op.formatted_name)
def test_opinfo(op):
    for i, sample in enumerate(op.sample_inputs("cpu", torch.float32)):
        if i == SAMPLES:
            break
        replay(op, sample, alike=i % 2 == 0)
