"""The samples that torch tests its own operators with, with every size open: at other sizes the results are what the
size rules say."""

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_unflatten

from support.replay import Layout, Like, closed_call, evaluate, layout, open_call, other_values

torch.set_num_threads(1)
SAMPLES = 6

# Some sample of these makes open sizes constants: there is no size rule (some decompositions, most operators that only
# backward functions use), the number of results is a size, or torch's own code reads plain sizes.
PINNED = frozenset(
    """
_batch_norm_with_update _chunk_cat _native_batch_norm_legit _softmax_backward_data _unsafe_masked_index
_unsafe_masked_index_put_accumulate block_diag cholesky constant_pad_nd diagonal_scatter gather gradient hash_tensor
kron linalg_ldl_factor linalg_ldl_solve linalg_lu_factor linalg_matrix_rank linalg_matrix_rank_hermitian
linalg_multi_dot lu_unpack max_pool2d_with_indices_backward nn_functional_adaptive_max_pool2d
nn_functional_adaptive_max_pool3d nn_functional_bilinear nn_functional_embedding_bag
nn_functional_linear_cross_entropy_chunked nn_functional_linear_cross_entropy_chunked_none
nn_functional_multi_margin_loss nn_functional_multilabel_margin_loss nn_functional_pad_constant nn_functional_pdist
nn_functional_rrelu nn_functional_scaled_dot_product_attention normal resize_ resize_as_ take_along_dim unbind
unbind_copy
""".split()
)


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
            leaf.layout = layout(leaf.tensor, str)
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


# torch's Python class of symbolic numbers lacks a method that int() and math.trunc() of a SymFloat call. Captures have
# numbers of their own.
LACKS_TRUNC = "'torch._C._SymNode' object has no attribute 'trunc'"


@pytest.mark.parametrize("op", [op for op in op_db if torch.float32 in op.dtypes], ids=lambda op: op.formatted_name)
def test_opinfo(op):
    for i, sample in enumerate(op.sample_inputs("cpu", torch.float32)):
        if i == SAMPLES:
            break
        for alike in (True, False):
            try:
                opened = replay(op, sample, alike)
            except AttributeError as error:
                if LACKS_TRUNC not in str(error):
                    raise
                continue
            if opened is not None and op.formatted_name not in PINNED:
                assert not opened.fixed, (sample, opened.fixed, opened.decisions)
