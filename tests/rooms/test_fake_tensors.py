"""Fake tensors against eager and against FakeTensorMode: everything that can be known of a tensor without its values."""

import collections
import gc
import itertools
import threading
import time
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_unflatten

from pellucid import _core

torch.set_num_threads(1)
A = _core._aten
SAMPLES = 2

# What an operator may do instead of agreeing with eager, and why. "data": eager itself looks at the values.
EXCUSED = {
    "item": "data",
    "allclose": "data",
    "equal": "data",
    "combinations": "data",
    "masked_select": "data",
    "linspace": "data",  # only with tensors as end points
    "logspace": "data",
    "narrow": "data",  # only with a tensor as start
    "tensor_split": "data",  # only with a tensor of indices
    "unique": "data",
    "unique_consecutive": "data",
    "bincount": "data",
    "nonzero": "data",
    "argwhere": "data",
    "nn.functional.one_hot": "data",  # only without a number of classes
    "nn.functional.gaussian_nll_loss": "data",  # checks that the variance is positive
    "linalg.lstsq": "data",  # the rank decides the shape of the residuals
    "histogram": "unsupported",
    "histogramdd": "unsupported",
    "geqrf": "unsupported",
    "to_sparse": "unsupported",  # how many elements there are is up to the values
    "sparse.mm": "unsupported",
    "nonzero_static": "column-major result on the CPU, meta function says row-major",
}

FIELDS = ("sizes", "strides", "storage_offset", "dtype", "device", "requires_grad", "is_leaf", "conj", "neg")


def describe(tensor):
    meta = A.meta_of(tensor)
    known = [
        meta["sizes"],
        meta["strides"],
        meta["storage_offset"],
        tensor.dtype,
        str(tensor.device),
        tensor.requires_grad,
    ]
    return (*known, tensor.is_leaf, tensor.is_conj(), tensor.is_neg())


def aliasing(tensors):
    first = {}
    return [first.setdefault(A.meta_of(t)["storage"] or id(t), len(first)) for t in tensors]  # sparse ones have none


def only_tensors(flat):
    return [x for x in flat if isinstance(x, torch.Tensor)]


def attempt(call):
    try:
        return call(), None
    except Exception as error:
        return None, error


def is_unsupported(error):
    """The exception is ours, not the program's."""
    return "pellucid: " in str(error) or "data pointer of Storage that is invalid" in str(error)


def differences(function, args, kwargs):
    """Runs the function on real tensors and on fakes; what differs, as texts."""
    flat, spec = tree_flatten((args, kwargs))
    scope = A.FakeScope()
    fake_flat = [scope.fake_of(x) if isinstance(x, torch.Tensor) else x for x in flat]
    fake_args, fake_kwargs = tree_unflatten(fake_flat, spec)
    want, want_error = attempt(lambda: function(*args, **kwargs))
    got, got_error = attempt(lambda: scope.call(function, *fake_args, **fake_kwargs))
    if got_error is not None and want_error is None:
        kind = (
            "data" if scope.is_data_dependent(got_error) else "unsupported" if is_unsupported(got_error) else "raises"
        )
        return [f"{kind}: {type(got_error).__name__}: {got_error}"]
    if want_error is not None:
        return [] if got_error is not None else [f"did not raise {want_error}"]
    real_out, fake_out = tree_flatten(want)[0], tree_flatten(got)[0]
    found = [] if len(real_out) == len(fake_out) else ["number of results"]
    for real, fake in zip(real_out, fake_out):
        if not isinstance(real, torch.Tensor):
            found += [] if real == fake else [f"{real} != {fake}"]
        elif not A.is_fake(fake):
            found.append("a real tensor came out")
    if found:
        return found
    reals = only_tensors(flat) + only_tensors(real_out)
    fakes = only_tensors(fake_flat) + only_tensors(fake_out)
    for real, fake in zip(reals, fakes):
        found += [f"{n}: {r} in eager, {f} here" for n, r, f in zip(FIELDS, describe(real), describe(fake)) if r != f]
    if aliasing(reals) != aliasing(fakes):
        found.append("aliasing")
    if [A.version_of(x) for x in only_tensors(flat)] != [A.version_of(x) for x in only_tensors(fake_flat)]:
        found.append("versions")
    return found


def samples_of(op):
    if not op.dtypes:
        return
    dtype = next((d for d in (torch.float32, torch.int64) if d in op.dtypes), None) or sorted(op.dtypes, key=str)[0]
    for grad in (True, False) if op.supports_autograd and dtype.is_floating_point else (False,):
        for sample in itertools.islice(
            op.sample_inputs("cpu", dtype, requires_grad=grad), SAMPLES if grad or not op.supports_autograd else 1
        ):
            yield op.op, (sample.input, *sample.args), sample.kwargs
            if op.inplace_variant is not None and not grad:
                flat, spec = tree_flatten(((sample.input, *sample.args), sample.kwargs))
                copies = [x.detach().clone() if isinstance(x, torch.Tensor) else x for x in flat]
                yield op.inplace_variant, *tree_unflatten(copies, spec)


def test_every_operator_agrees_with_eager():
    wrong, used, runs = [], set(), 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op in op_db:
            for function, args, kwargs in samples_of(op):
                runs += 1
                found, error = attempt(lambda: differences(function, args, kwargs))
                if error is not None:
                    found = [f"unsupported: {error}" if is_unsupported(error) else repr(error)]
                if not found:
                    continue
                excuse = EXCUSED.get(op.name)
                if excuse is None or (
                    excuse in ("data", "unsupported") and not all(f.startswith(excuse) for f in found)
                ):
                    wrong.append((op.name, op.variant_test_name, found[:3]))
                else:
                    used.add(op.name)
    assert not wrong, wrong[:10]
    assert runs > 1500
    assert sorted(set(EXCUSED) - used) == [], sorted(set(EXCUSED) - used)


def test_agrees_with_fake_tensor_mode():
    from torch._subclasses.fake_tensor import FakeTensorMode

    # One operator per family; FakeTensorMode is slow. Each entry: function on three tensors.
    programs = {
        "add": lambda x, y, w: x + y * 2.5,
        "matmul": lambda x, y, w: x @ w,
        "linear": lambda x, y, w: F.linear(x, w.t()),
        "softmax": lambda x, y, w: F.softmax(x, -1),
        "layer_norm": lambda x, y, w: F.layer_norm(x, (4,)),
        "cat": lambda x, y, w: torch.cat([x, y], 1),
        "views": lambda x, y, w: x[:, 1:].transpose(0, 1).unsqueeze(1).expand(2, 5, 2, 4),
        "where": lambda x, y, w: torch.where(x > 0, x, y),
        "to": lambda x, y, w: x.to(torch.float16),
        "factory": lambda x, y, w: torch.arange(4, dtype=x.dtype) + torch.zeros_like(x),
        "einsum": lambda x, y, w: torch.einsum("bij,jk->bik", x, w),
        "topk": lambda x, y, w: x.topk(2),
        "gather": lambda x, y, w: x.gather(-1, torch.zeros(2, 3, 2, dtype=torch.long)),
        "pool": lambda x, y, w: F.adaptive_avg_pool2d(x, 1),
        "interpolate": lambda x, y, w: F.interpolate(x[None], scale_factor=2.0, mode="bilinear"),
        "attention": lambda x, y, w: F.scaled_dot_product_attention(x[None], y[None], x[None]),
    }
    for name, program in programs.items():
        reals = [torch.randn(2, 3, 4), torch.randn(2, 3, 4), torch.randn(4, 5)]
        scope, mode = A.FakeScope(), FakeTensorMode()
        ours = tree_flatten(scope.call(program, *[scope.fake_of(t) for t in reals]))[0]
        with mode:
            theirs = tree_flatten(program(*[mode.from_tensor(t) for t in reals]))[0]
        for a, b in zip(ours, theirs):
            assert (a.shape, a.stride(), a.dtype, a.device) == (b.shape, b.stride(), b.dtype, b.device), name


def agree(function, *args, **kwargs):
    assert differences(function, args, kwargs) == []


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("training", [False, True])
def test_layouts_of_convolutional_networks(layout, training):
    x = torch.randn(2, 8, 6, 6).to(memory_format=layout)
    w = torch.randn(4, 8, 3, 3)
    p = torch.rand(8)
    agree(F.conv2d, x, w)
    agree(F.conv2d, x, w.to(memory_format=torch.channels_last), torch.randn(4), 2, 1)
    agree(F.conv2d, x, torch.randn(8, 1, 3, 3), None, 1, 1, 1, 8)
    agree(F.conv_transpose2d, x, torch.randn(8, 4, 2, 2), None, 2)
    agree(F.batch_norm, x, p.clone(), p.clone(), p, p, training)
    agree(F.group_norm, x, 4, p, p)
    agree(F.max_pool2d, x, 2)
    agree(F.avg_pool2d, x, 2)
    agree(F.adaptive_avg_pool2d, x, (1, 1))
    agree(F.interpolate, x, scale_factor=2, mode="bilinear")
    agree(F.interpolate, x, size=(9, 9), mode="nearest")
    agree(F.pixel_shuffle, x, 2)
    agree(F.pad, x, (1, 1, 1, 1))
    agree(F.conv1d, torch.randn(2, 8, 9), torch.randn(4, 8, 3))
    agree(F.conv3d, torch.randn(1, 2, 5, 5, 5), torch.randn(3, 2, 2, 2, 2))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_dtypes(dtype):
    x, w = torch.randn(3, 4, dtype=dtype), torch.randn(4, 4, dtype=dtype)
    half_statistics = torch.ones(4) if dtype == torch.bfloat16 else w[0]
    for function in (torch.softmax, torch.cumsum, torch.argmax, torch.logsumexp):
        agree(function, x, -1)
    agree(F.linear, x, w)
    agree(torch.native_layer_norm, x, (4,), half_statistics, half_statistics, 1e-5)
    agree(lambda a, b: (a * 2, a + 1.5, a // 2, a > 0, a.float(), a * b.double(), a.sum(), a.mean(0), a.std()), x, w)
    agree(F.scaled_dot_product_attention, x[None, None], x[None, None], x[None, None])


def test_recurrent_networks():
    for cls in (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN):
        module = cls(4, 5, num_layers=2, bidirectional=True)
        names = [n for n, _ in module.named_parameters()]

        def run(x, *params, module=module, names=names):
            return torch.func.functional_call(module, dict(zip(names, params)), (x,))

        agree(run, torch.randn(3, 2, 4), *[p.detach().requires_grad_() for p in module.parameters()])


def test_searchsorted():
    rows, values = torch.arange(12.0).reshape(2, 6), torch.rand(2, 3) * 12
    agree(torch.searchsorted, rows, values)
    agree(torch.searchsorted, rows, torch.rand(3, 2).t(), out_int32=True)
    agree(torch.searchsorted, rows[0], torch.rand(4, 3).t(), right=True)
    agree(torch.searchsorted, rows[0], torch.tensor(3), side="right", right=True)
    agree(torch.searchsorted, rows, values, sorter=torch.arange(6).expand(2, 6))
    # what eager refuses
    agree(torch.searchsorted, rows, values[:1])
    agree(torch.searchsorted, rows, torch.tensor(3.0))
    agree(torch.searchsorted, torch.tensor(3.0), values)
    agree(torch.searchsorted, rows, values, side="left", right=True)
    agree(torch.searchsorted, rows, values, side="middle")
    agree(torch.searchsorted, rows, values, sorter=torch.arange(5))


# --- autograd ---


def test_views_and_in_place_keep_eager_rules():
    def program(leaf):
        x = leaf * 2
        view = x[0]
        view.add_(1)  # rebases the history of x
        y = x.view(-1)
        y.mul_(2)
        with torch.no_grad():
            z = leaf * 3
            z.t_()
        return x, view, y, z, x.detach(), z.requires_grad_()

    agree(program, torch.randn(3, 4, requires_grad=True))
    agree(program, torch.randn(3, 4))


@pytest.mark.parametrize(
    "make",
    [lambda: torch.randn(3, 4), lambda: torch.randn(4, 3, requires_grad=True).t() * 1, lambda: torch.randn(6, 4)[::2]],
)
def test_inputs_that_are_views_or_not_leaves(make):
    agree(lambda t: (t + 1, t.detach(), t.view_as(t)), make())


def test_input_views_share_storage_and_versions():
    base = torch.randn(3, 4)
    base.add_(1)
    scope = A.FakeScope()
    view, whole = scope.fake_of(base[1]), scope.fake_of(base)
    assert view._base is whole and A.meta_of(view)["storage"] == A.meta_of(whole)["storage"]
    scope.call(view.zero_)
    assert (whole._version, view._version, base._version) == (2, 2, 1)
    assert scope.fake_of(base) is whole


def test_in_place_on_a_leaf_raises_as_eager():
    leaf = torch.nn.Parameter(torch.ones(3))
    scope = A.FakeScope()
    for tensor, call in ((leaf, lambda t: t.add_(1)), (scope.fake_of(leaf), lambda t: scope.call(t.add_, 1))):
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
            call(tensor)
        row = tensor[0] if tensor is leaf else scope.call(tensor.__getitem__, 0)
        with pytest.raises(RuntimeError, match="a view of a leaf Variable"):
            row.add_(1) if tensor is leaf else scope.call(row.add_, 1)


def test_inference_mode():
    with torch.inference_mode():
        real = torch.ones(2, 3)
        scope = A.FakeScope()
        out = scope.call(lambda t: (t + 1, t[0], t.mul_(2)), scope.fake_of(real))
        assert [t.is_inference() for t in out] == [True, True, True]
    outside = torch.ones(2, 3, requires_grad=True)
    with torch.inference_mode():
        got = A.FakeScope().call(lambda t: (t[0], t + 1), A.fake_like(outside))
        want = (outside[0], outside + 1)
        assert [(t.is_inference(), t.requires_grad) for t in got] == [(t.is_inference(), t.requires_grad) for t in want]


def test_autocast_is_chosen_as_in_eager():
    x, w = torch.randn(2, 3), torch.randn(4, 3, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        agree(lambda a, b: (F.linear(a, b), F.softmax(a @ b.t(), -1), a + 1), x, w)
        scope = A.FakeScope()
        assert scope.call(F.linear, scope.fake_of(x), scope.fake_of(w)).dtype == torch.bfloat16
        assert torch.is_autocast_cache_enabled()


# --- values, real tensors, factories ---


@pytest.mark.parametrize(
    "read",
    [
        lambda t: t.sum().item(),
        lambda t: bool(t.any()),
        lambda t: int(t[0, 0]),
        lambda t: t.tolist(),
        lambda t: t.numpy(),
        lambda t: t.nonzero(),
        lambda t: t[t > 0],
        lambda t: torch.equal(t, t),
        lambda t: t.data_ptr(),
        lambda t: torch.tensor([t[0, 0], t[0, 1]]),
        lambda t: torch.masked_select(t, t > 0),
        lambda t: repr(t),
        lambda t: torch.utils.dlpack.to_dlpack(t),
        lambda t: t.untyped_storage().data_ptr(),
        lambda t: "x" if t.max() > 0 else "y",
    ],
)
def test_reading_values_is_recognised(read):
    scope = A.FakeScope()
    fake = scope.fake_of(torch.randn(2, 3))
    with pytest.raises(Exception) as caught:  # noqa: PT011
        scope.call(read, fake)
    assert scope.is_data_dependent(caught.value), caught.value


def test_errors_of_the_program_are_not_ours():
    scope = A.FakeScope()
    fake = scope.fake_of(torch.randn(2, 3))
    for call in (
        lambda: fake @ fake,
        lambda: fake + torch.ones(5),
        lambda: fake.view(7),
        lambda: fake[5],
        lambda: fake.nope,
    ):
        with pytest.raises(Exception) as caught:  # noqa: PT011
            scope.call(call)
        assert not scope.is_data_dependent(caught.value) and not is_unsupported(caught.value)


def test_a_real_tensor_is_never_written():
    scope = A.FakeScope()
    real, fake = torch.zeros(3), scope.fake_of(torch.ones(3))

    def store():
        real[0] = fake[0]

    for write in (lambda: real.add_(fake), lambda: torch.add(fake, fake, out=real), store, lambda: real.copy_(fake)):
        with pytest.raises(RuntimeError, match="real") as caught:
            scope.call(write)
        assert is_unsupported(caught.value)
    assert real.tolist() == [0, 0, 0] and real._version == 0


def test_constants_may_be_read():
    scope = A.FakeScope()
    fake = scope.fake_of(torch.ones(2, 3))
    assert A.is_fake(scope.call(lambda: fake * torch.tensor(2.0)))
    assert scope.call(lambda: fake[:, torch.tensor([True, False, True])]).shape == (2, 2)
    assert scope.call(lambda: fake[[0, 1, 1]]).shape == (3, 3)


def test_factories_give_fakes_only_inside():
    scope = A.FakeScope()
    factories = [
        lambda: torch.zeros(2, 3),
        lambda: torch.ones(2, device="cpu", dtype=torch.int8),
        lambda: torch.full((2,), 1.5),
        lambda: torch.arange(1, 9, 2),
        lambda: torch.linspace(0, 1, 5),
        lambda: torch.eye(3),
        lambda: torch.rand(2, 2),
        lambda: torch.randn(2, 2),
        lambda: torch.randint(0, 5, (3,)),
        lambda: torch.randperm(4),
        lambda: torch.empty(2, 3).uniform_(),
        lambda: torch.empty_strided((2, 3), (1, 2)),
        lambda: torch.tril_indices(3, 3),
        lambda: torch.scalar_tensor(2.0),
        lambda: torch.hann_window(8),
        lambda: torch.zeros(2, 3, requires_grad=True),
    ]
    generator = torch.get_rng_state()
    for factory in factories:
        inside = scope.call(factory)
        assert A.is_fake(inside)
        assert torch.equal(torch.get_rng_state(), generator)
        outside = factory()
        torch.set_rng_state(generator)
        assert not A.is_fake(outside) and describe(inside) == describe(outside)


def test_devices_do_not_mix():
    scope = A.FakeScope()
    here, meta = scope.fake_of(torch.ones(2)), scope.fake_of(torch.ones(2, device="meta"))
    assert scope.call(lambda: meta + 1).device.type == "meta"
    with pytest.raises(RuntimeError, match="same device"):
        scope.call(lambda: here + meta)


def test_user_modes_hooks_and_profiler_see_nothing():
    seen = []

    class Function(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    class Dispatch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    x = torch.ones(2, requires_grad=True)
    scope = A.FakeScope()
    fake = scope.fake_of(x)
    with Function(), Dispatch(), torch.autograd.graph.saved_tensors_hooks(seen.append, seen.append):
        out = scope.call(torch.mul, fake, fake)
        assert A.is_fake(out) and not seen
        torch.mul(x, x)
        assert seen
    with torch.device("meta"):
        assert scope.call(torch.zeros, 2).device.type == "meta"


# --- guards ---


def test_B06_tensor_spec_sees_every_property():
    make = lambda: torch.ones(2, 3)  # noqa: E731
    spec = A.TensorSpec.of(make())
    assert spec.matches(make()) and spec.mismatch(make()) == ""
    assert spec.text() == "f32[2, 3] cpu requires_grad=False"
    other = {
        "type": torch.nn.Parameter(make(), requires_grad=False),
        "dtype": make().double(),
        "device": make().to("meta"),
        "requires_grad": make().requires_grad_(),
        "size": torch.ones(2, 4),
        "stride": torch.ones(3, 2).t(),
        "rank": torch.ones(6),
        "dispatch key": torch.ones(2, 3).to_sparse(),
    }
    for word, tensor in other.items():
        assert not spec.matches(tensor) and word in spec.mismatch(tensor), word
    assert spec.mismatch(torch.ones(2, 4)) == "size mismatch at index 1, expected 3, actual 4"
    with torch.inference_mode():
        assert not spec.matches(make())
    complex_spec = A.TensorSpec.of(torch.ones(2, dtype=torch.complex64))
    assert not complex_spec.matches(torch.ones(2, dtype=torch.complex64).conj())
    assert not spec.matches(3) and not spec.matches(None)


def test_B03_B04_global_state_sees_every_change():
    def changed(context):
        state = A.GlobalState.now()
        assert state.matches() and state.mismatch() == ""
        with context:
            assert not state.matches()
            text = state.mismatch()
        assert state.matches(), state.mismatch()
        return text

    import contextlib

    @contextlib.contextmanager
    def undo(do, value, back):
        do(value)
        try:
            yield
        finally:
            do(back)

    class Mode(torch.overrides.TorchFunctionMode):
        pass

    assert changed(torch.no_grad()) == "grad mode: expected on, found off"
    assert "mode" in changed(torch.inference_mode())
    assert "deterministic" in changed(undo(torch.use_deterministic_algorithms, True, False))
    assert changed(undo(torch.set_default_dtype, torch.float64, torch.float32)) == (
        "default dtype: expected torch.float32, found torch.float64"
    )
    assert "torch function modes: expected as before, found others" in changed(Mode())
    assert "default device: expected None, found device(type='meta')" in changed(torch.device("meta"))
    assert "__torch_function__: expected on, found off for subclasses" in changed(
        torch._C.DisableTorchFunctionSubclass()
    )
    assert changed(torch.autocast("cpu")) == "autocast for cpu: expected off, found on with torch.bfloat16"
    graph = torch.fx.symbolic_trace(lambda t: t)
    assert "saved tensor hooks: expected 0, found 1" in changed(torch.autograd.graph.saved_tensors_hooks(graph, graph))
    state = A.GlobalState.now()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        assert state.matches() and state.mismatch() == ""  # functions are called while the graph runs
    assert "no more allowed" in changed(torch.autograd.graph.disable_saved_tensors_hooks("not here"))
    assert "mkldnn" in changed(undo(torch.backends.mkldnn.set_flags, False, True))
    with torch.device("cpu"):
        inside = A.GlobalState.now()
    with torch.device("meta"):
        assert "default device" in inside.mismatch()
    state = A.GlobalState.now()
    torch._C._set_grad_enabled(False)
    state.restore()
    assert torch.is_grad_enabled()


# --- life time, threads, speed ---


def test_nothing_is_left_behind():
    gc.collect()
    before = A.live_fakes()
    real = torch.randn(4, 4, requires_grad=True)
    for _ in range(50):
        scope = A.FakeScope()
        fake = scope.fake_of(real)
        out = scope.call(lambda f: F.layer_norm(torch.cat([f, f.t()]) @ f, (4,)).sum(), fake)
        with pytest.raises(RuntimeError):
            scope.call(out.item)
        del fake, out, scope
    assert A.live_fakes() == before
    assert real._version == 0 and real.grad_fn is None


def test_threads_have_their_own_scope():
    failures = collections.deque()

    def work(size):
        try:
            scope = A.FakeScope()
            x = scope.fake_of(torch.randn(size, 8))
            for _ in range(200):
                y = scope.call(lambda: F.gelu(F.linear(x, torch.zeros(3, 8))) + torch.ones(3))
                assert y.shape == (size, 3) and A.is_fake(y)
                assert not A.is_fake(torch.zeros(1))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i + 1,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_common_operators_need_no_python():
    A.reset_ops_without_rule()
    scope = A.FakeScope()
    x = scope.fake_of(torch.randn(2, 8, 16))
    w = scope.fake_of(torch.randn(16, 16))
    image = scope.fake_of(torch.randn(1, 8, 8, 8))

    def network():
        h = F.layer_norm(F.linear(x, w), (16,))
        q = h.view(2, 8, 4, 4).transpose(1, 2)
        h = F.scaled_dot_product_attention(q, q, q).transpose(1, 2).reshape(2, 8, 16)
        h = F.dropout(F.gelu(h) + F.silu(h) * F.relu(h), 0.1)
        h = torch.where(h > 0, h, h.abs()).masked_fill(h > 1, 0.0)
        h = h.softmax(-1).to(torch.float64).cumsum(1)[:, -1:].repeat(1, 2, 1)
        i = F.batch_norm(F.conv2d(image, torch.randn(8, 8, 3, 3)), torch.zeros(8), torch.ones(8), training=True)
        i = F.interpolate(F.max_pool2d(F.group_norm(i, 2), 2), scale_factor=2)
        e = F.embedding(torch.arange(4), w)
        s = torch.searchsorted(torch.arange(4.0), x, right=True)
        return h, i, e, s, F.one_hot(torch.arange(3), 4), h.std(), h.max(), h.topk(1), torch.roll(h, 1, 0)

    scope.call(network)
    assert A.ops_without_rule() == {}


def test_an_operator_costs_microseconds():
    scope = A.FakeScope()
    fake = scope.fake_of(torch.randn(3, 4))
    best = float("inf")
    for _ in range(20):
        start = time.perf_counter()
        for _ in range(500):
            scope.call(torch.add, fake, fake)
        best = min(best, (time.perf_counter() - start) / 500)
    assert best < 10e-6  # 2 µs on an idle machine; the Python meta function takes 200
