"""The operators of torch that take functions (torch.cond and its like). Traced like the user's own code; pellucid.polyfills
hands these on."""

from __future__ import annotations

from math import log as _log
from math import sqrt as _sqrt

from torch import bool as _bool
from torch import int32 as _int32
from torch import is_tensor as _is_tensor
from torch import ones as _ones
from torch import where as _where
from torch import zeros as _zeros
from torch.utils._pytree import tree_flatten as _tree_flatten
from torch.utils._pytree import tree_unflatten as _tree_unflatten

from pellucid.polyfills_bodies import begin_body, distinct_tensors


def body_input(like, how, requires_grad):
    """A tensor that the operator makes when it calls the body. `how`: None, or "row" of the first dimension of `like`."""
    raise NotImplementedError("a rule of the core stands for this function")


def end_body(operator, tensors, gives_one):
    """The body is complete and gives these; what it is known by from here on."""
    raise NotImplementedError("a rule of the core stands for this function")


def discard_body(operator):
    """Nothing of what was followed since begin_body() is left."""
    raise NotImplementedError("a rule of the core stands for this function")


def call_operator(operator, bodies, arguments, likes, how, others):
    """A node. It gives tensors like these, which need gradients when one of them or of `others` does."""
    raise NotImplementedError("a rule of the core stands for this function")


def refuse_operator(operator, what):
    raise NotImplementedError("a rule of the core stands for this function")


def chooses_by_row(pred):
    """Whether the predicate has a value for each row of a torch.vmap."""
    raise NotImplementedError("a rule of the core stands for this function")


def begin_row(roots):
    """What follows is a branch that runs for every row. What end_row() asks for."""
    raise NotImplementedError("a rule of the core stands for this function")


def end_row(begun, result):
    """The branch gives this. Whether torch.vmap maps over it."""
    raise NotImplementedError("a rule of the core stands for this function")


def makes_region(given):
    """Whether a function that gets these leaves becomes a graph of its own."""
    raise NotImplementedError("a rule of the core stands for this function")


def fits_region(leaves):
    """Whether torch's operator can give what the body gives."""
    raise NotImplementedError("a rule of the core stands for this function")


class Slot:
    """In the arguments of a node: a body, or (`kind` is list or tuple) the tensors that it uses besides its own inputs."""

    def __init__(self, number, kind=None):
        self.number = number
        self.kind = kind


_MOST_TURNS = 64
_FIRST, _SECOND = Slot(0), Slot(1)
_USED, _USED_LIST = Slot(0, tuple), Slot(0, list)


def tensors_of(operator, value, what):
    """The tensors below a value that holds nothing else, and its structure."""
    leaves, spec = _tree_flatten(value)
    for leaf in leaves:
        if not _is_tensor(leaf):
            refuse_operator(operator, what)
    return leaves, spec


def _is_alike(one, other):
    return (
        one.dtype == other.dtype
        and one.device == other.device
        and one.layout == other.layout
        and one.shape == other.shape
        and one.stride() == other.stride()
    )


def check_alike(operator, ones, others, what):
    if len(ones) != len(others):
        refuse_operator(operator, what)
    for i in range(len(ones)):
        if not _is_alike(ones[i], others[i]):
            refuse_operator(operator, what)


# ---- torch.cond


def choose_branch(pred, true_fn, false_fn, operands=()):
    if isinstance(pred, (bool, int, float)):
        return true_fn(*operands) if pred else false_fn(*operands)
    if not _is_tensor(pred) or pred.dtype != _bool or pred.numel() != 1:
        refuse_operator("cond", "its predicate is no bool and no tensor of one bool")
    if not isinstance(operands, (tuple, list)) or not callable(true_fn) or not callable(false_fn):
        refuse_operator("cond", "with these arguments")
    given, _ = tensors_of("cond", operands, "its operands are not tensors alone")
    if chooses_by_row(pred):
        return _choose_by_row(pred, true_fn, false_fn, operands, given)
    true, true_tensors, true_leaves, true_spec = _branch("cond_true", true_fn, operands, given)
    false, false_tensors, false_leaves, false_spec = _branch("cond_false", false_fn, operands, given)
    what = "its branches give other structures, shapes, layouts or numbers"
    if true_spec != false_spec:
        refuse_operator("cond", what)
    check_alike("cond", true_tensors, false_tensors, what)
    for i in range(len(true_leaves)):
        one, other = true_leaves[i], false_leaves[i]
        if _is_tensor(one) != _is_tensor(other) or not (_is_tensor(one) or one == other):
            refuse_operator("cond", what)
    if not true_tensors:
        refuse_operator("cond", "its branches give no tensor")
    results = call_operator(
        "cond",
        (true, false),
        (pred, _FIRST, _SECOND, _USED),
        true_tensors,
        (None,) * len(true_tensors),
        (*false_tensors, *given),
    )
    at = iter(results)
    return _tree_unflatten([next(at) if _is_tensor(leaf) else leaf for leaf in true_leaves], true_spec)


def _choose_by_row(pred, true_fn, false_fn, operands, given):
    """Both branches, and of each row what its predicate says, as torch's operator does it below torch.vmap."""
    if not given:
        refuse_operator("cond", "without operands, below torch.vmap()")
    true, true_has_rows, true_spec = _row(true_fn, operands)
    false, false_has_rows, false_spec = _row(false_fn, operands)
    if not true_has_rows and not false_has_rows:
        refuse_operator("cond", "its branches use nothing that torch.vmap() maps over")
    what = "its branches give other structures, shapes, layouts or numbers"
    if true_spec != false_spec:
        refuse_operator("cond", what)
    check_alike("cond", (true,), (false,), what)
    return _tree_unflatten([_where(pred, true, false)], true_spec)


def _row(function, operands):
    begun = begin_row((function, operands))
    try:
        result = function(*operands)
    except BaseException:
        refuse_operator("cond", "a branch raises")
    leaves, spec = _tree_flatten(result)
    if len(leaves) != 1 or not _is_tensor(leaves[0]):
        refuse_operator("cond", "a branch gives more than one tensor, or none, below torch.vmap()")
    return leaves[0], end_row(begun, leaves[0]), spec


def _branch(kind, function, operands, given):
    begin_body(kind, distinct_tensors(given), (function, operands))
    try:
        result = function(*operands)
    except BaseException:
        refuse_operator("cond", "a branch raises")
    leaves, spec = _tree_flatten(result)
    tensors = []
    for leaf in leaves:
        if _is_tensor(leaf):
            tensors.append(leaf)
        elif leaf is not None and type(leaf) is not int:
            refuse_operator("cond", "a branch gives more than tensors and ints")
    tensors = (*tensors,)
    return end_body("cond", tensors, False), tensors, leaves, spec


# ---- torch.while_loop


def repeat_body(cond_fn, body_fn, carried_inputs):
    if not isinstance(carried_inputs, (tuple, list)) or not callable(cond_fn) or not callable(body_fn):
        refuse_operator("while_loop", "with these arguments")
    carried, spec = _carried("while_loop", carried_inputs, "it carries more than tensors and ints")
    tensors = [value for value in carried if _is_tensor(value)]
    if not tensors:
        refuse_operator("while_loop", "it carries no tensor")
    if len(tensors) < len(carried):
        return _repeat_counted(cond_fn, body_fn, carried, spec)
    needs = [value.requires_grad for value in carried]
    body, results = _loop_body(body_fn, carried_inputs, carried, spec, needs)
    begin_body("cond_fn", (), (cond_fn, carried_inputs))
    inside = [body_input(carried[i], None, needs[i]) for i in range(len(carried))]
    try:
        pred = cond_fn(*_tree_unflatten(inside, spec))
    except BaseException:
        refuse_operator("while_loop", "its condition raises")
    if not _is_tensor(pred) or pred.dtype != _bool or pred.dim() != 0:
        refuse_operator("while_loop", "its condition is no tensor of one bool")
    cond = end_body("while_loop", (pred,), True)
    return _tree_unflatten(
        [
            *call_operator(
                "while_loop",
                (cond, body),
                (_FIRST, _SECOND, (*carried,), _USED),
                results,
                (None,) * len(results),
                (*carried,),
            )
        ],
        spec,
    )


def _carried(operator, value, what):
    """What a loop may carry, and its structure."""
    leaves, spec = _tree_flatten(value)
    for leaf in leaves:
        if not _is_tensor(leaf) and type(leaf) is not int:
            refuse_operator(operator, what)
    return leaves, spec


def _repeat_counted(cond_fn, body_fn, carried, spec):
    """The condition goes by the ints that are carried: turn after turn, as torch's operator outside of a graph."""
    turns = 0
    while True:
        begin_body("cond_fn", (), (cond_fn, carried))
        try:
            goes_on = cond_fn(*_tree_unflatten(carried, spec))
        except BaseException:
            refuse_operator("while_loop", "its condition raises")
        if type(goes_on) is not bool:
            refuse_operator("while_loop", "it carries ints, and its condition is a tensor")
        discard_body("while_loop")
        if not goes_on:
            if turns == 0:
                carried = [value.clone() if _is_tensor(value) else value for value in carried]
            return _tree_unflatten(carried, spec)
        turns += 1
        if turns > _MOST_TURNS:
            refuse_operator("while_loop", "it carries ints, and has too many turns for one graph")
        # What the function may not do is found out in a body, which nothing calls.
        needs = [_is_tensor(value) and value.requires_grad for value in carried]
        _loop_body(body_fn, carried, carried, spec, needs)
        carried, _ = _tree_flatten(body_fn(*_tree_unflatten(carried, spec)))


def _loop_body(body_fn, carried_inputs, carried, spec, needs):
    begin_body("body_fn", (), (body_fn, carried_inputs))
    inside = [
        body_input(carried[i], None, needs[i]) if _is_tensor(carried[i]) else carried[i] for i in range(len(carried))
    ]
    try:
        result = body_fn(*_tree_unflatten(inside, spec))
    except BaseException:
        refuse_operator("while_loop", "its body raises")
    results, result_spec = _carried("while_loop", result, "its body gives more than tensors and ints")
    what = "its body gives another structure, shape or layout than it is given"
    if len(results) != len(carried) or (result_spec != spec and not isinstance(result, tuple)):
        refuse_operator("while_loop", what)
    for i in range(len(needs)):
        if _is_tensor(results[i]) != _is_tensor(inside[i]):
            refuse_operator("while_loop", what)
        if not _is_tensor(results[i]):
            continue
        check_alike("while_loop", (results[i],), (inside[i],), what)
        if results[i].requires_grad and not needs[i]:
            refuse_operator(
                "while_loop", "what it carries begins to need gradients, which torch's operator does not follow"
            )
    tensors = (*[value for value in results if _is_tensor(value)],)
    return end_body("while_loop", tensors, False), tensors


# ---- map of torch._higher_order_ops


def length_of(tensors, dim):
    length = None
    for tensor in tensors:
        if not 0 <= dim < tensor.dim() or tensor.shape[dim] == 0:
            return None
        if length is None:
            length = tensor.shape[dim]
        elif tensor.shape[dim] != length:
            return None
    return length


def map_rows(f, xs, *args):
    rows, spec = tensors_of("map_impl", xs, "it runs over more than tensors")
    length = length_of(rows, 0)
    if length is None or not callable(f):
        refuse_operator("map_impl", "over tensors of these shapes")
    begin_body("map_body", (), (f, xs, args))
    slices = [body_input(row, "row", row.requires_grad) for row in rows]
    try:
        result = f(_tree_unflatten(slices, spec), *args)
    except BaseException:
        refuse_operator("map_impl", "its function raises")
    results, out_spec = tensors_of("map_impl", result, "its function gives more than tensors")
    results = (*results,)
    body = end_body("map_impl", results, False)
    given = call_operator("map_impl", (body,), (_FIRST, rows, _USED_LIST), results, (length,) * len(results), (*rows,))
    return _tree_unflatten([*given], out_spec)


# ---- torch.compiler.nested_compile_region


_REGION = "invoke_subgraph"


def call_region(function, *args, **kwargs):
    if makes_region((*_tree_flatten((args, kwargs))[0],)):
        fits, result = region_as_operator(function, args, kwargs)
        if fits:
            return result
    return function(*args, **kwargs)


def region_as_operator(function, args, kwargs):
    begin_body("subgraph", (), (function, args, kwargs))
    try:
        result = function(*args, **kwargs)
    except BaseException:
        refuse_operator(_REGION, "its function raises")
    leaves, spec = _tree_flatten(result)
    if not fits_region((*leaves,)):
        discard_body(_REGION)  # nothing has been changed so far, so the function may be followed once more
        return False, None
    tensors = distinct_tensors(leaves)
    body = end_body(_REGION, tensors, False)
    results = call_operator(_REGION, (body,), (), tensors, (None,) * len(tensors), ())
    for i in range(len(leaves)):
        for j in range(len(tensors)):
            if leaves[i] is tensors[j]:
                leaves[i] = results[j]
                break
    return True, _tree_unflatten(leaves, spec)


# ---- torch.nn.attention.flex_attention


_LN2 = _log(2.0)
_MASK_USED = Slot(1, tuple)
_FLEX = "flex_attention"


def attend(
    query,
    key,
    value,
    score_mod=None,
    block_mask=None,
    scale=None,
    enable_gqa=False,
    return_lse=False,
    kernel_options=None,
    *,
    return_aux=None,
):
    import torch.nn.attention.flex_attention as flex

    try:
        flex._validate_no_nested_tensors(query, key, value)
        flex._validate_sdpa_input(query, key, value, allow_lowp_kv=True)
        flex._validate_embed_dim(query, key, value)
        flex._validate_device(query, key, value)
        query, key, value = flex._enforce_mem_layouts(query, key, value)
        kernel_options = flex._apply_kernel_options(query, key, value, return_lse, kernel_options, return_aux)
    except Exception:
        refuse_operator(_FLEX, "with these arguments")
    if return_lse and (return_aux is not None or "deprecated_return_lse" not in flex._WARNINGS_SHOWN):
        refuse_operator(_FLEX, "it warns of return_lse")
    if not _fits(query, key, value, block_mask, enable_gqa, flex):
        refuse_operator(_FLEX, "with tensors or a mask of these shapes")
    if scale is None:
        scale = 1.0 / _sqrt(query.size(-1))
    score = _attention_body("score_mod", flex._identity if score_mod is None else score_mod, query, True)
    (*blocks, mask_mod) = _empty_mask(query, flex) if block_mask is None else block_mask.as_tuple()
    mask = _attention_body("mask_fn", mask_mod, query, False)
    out, lse, maxima = call_operator(
        _FLEX,
        (score, mask),
        (
            query,
            key,
            value,
            _FIRST,
            (*blocks, _SECOND),
            scale,
            kernel_options,
            _USED,
            _MASK_USED,
        ),
        (query, key, value),
        "attention",
        (),
    )
    in_powers_of_two = kernel_options["BACKEND"] != "FLASH"
    wants_lse = return_lse or (return_aux is not None and return_aux.lse)
    lse = (lse * _LN2 if in_powers_of_two else lse) if wants_lse and lse.numel() > 0 else None
    if return_aux is not None:
        if return_aux.max_scores and maxima.numel() > 0:
            maxima = maxima * _LN2 if in_powers_of_two else maxima
        else:
            maxima = None
        return out, flex.AuxOutput(lse=lse, max_scores=maxima)
    return (out, lse) if return_lse else out


def _fits(query, key, value, block_mask, enable_gqa, flex):
    if query.dim() != 4 or key.dim() != 4 or value.dim() != 4:
        return False
    if query.size(1) % key.size(1) != 0 if enable_gqa else query.size(1) != key.size(1):
        return False
    if block_mask is None:
        return query.size(0) == key.size(0)
    if query.size(0) != key.size(0) and block_mask.kv_num_blocks.size(0) != query.size(0):
        return False
    if block_mask.mask_mod is flex._sliced_mask_mod_error or query.device != block_mask.kv_num_blocks.device:
        return False
    return query.size(2) == block_mask.shape[-2] and key.size(2) == block_mask.shape[-1]


def _empty_mask(query, flex):
    """A mask of one block, as flex_attention makes it where it is given none."""
    count = _ones((1, 1, 1), dtype=_int32, device=query.device)
    index = _zeros((1, 1, 1, 1), dtype=_int32, device=query.device)
    size = flex._LARGE_SPARSE_BLOCK_SIZE
    none = (None,) * 6
    return (1, 1, count, index, None, None, count.clone(), index.clone(), *none, size, size, flex.noop_mask)


def _attention_body(kind, function, query, with_score):
    begin_body(kind, (), (function,))
    inputs = [body_input(query, "number", query.requires_grad)] if with_score else []
    inputs += [body_input(query, "index", False) for _ in range(4)]
    try:
        result = function(*inputs)
    except BaseException:
        refuse_operator(_FLEX, "a function of scores or masks raises")
    if not _is_tensor(result) or result.dim() != 0:
        refuse_operator(_FLEX, "a function of scores or masks gives no tensor of one number")
    for value in inputs:
        if value is result:
            result = result.clone()
            break
    return end_body(_FLEX, (result,), True)
