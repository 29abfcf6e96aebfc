"""While pellucid is installed torch._dynamo is given no frame, whoever asks for it."""

import contextlib
import warnings

import pytest
import torch
import torch._dynamo
from torch._dynamo import convert_frame
from torch._higher_order_ops.map import map as hop_map
from torch._higher_order_ops.scan import scan
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import pellucid

X = torch.arange(6.0).reshape(2, 3)


@contextlib.contextmanager
def watched():
    """The names of the functions that torch._dynamo is asked to capture, by the frame evaluator or otherwise."""
    frames = []
    compile_frame, call = convert_frame.compile_frame, convert_frame.CatchErrorsWrapper.__call__

    def of_capture(code, *args, **kwargs):  # install() puts an error in its place
        frames.append(code.co_name)
        return compile_frame(code, *args, **kwargs)

    def of_callback(self, frame, *args, **kwargs):
        frames.append(frame.f_code.co_name)
        return call(self, frame, *args, **kwargs)

    convert_frame.compile_frame, convert_frame.CatchErrorsWrapper.__call__ = of_capture, of_callback
    try:
        yield frames
    finally:
        convert_frame.compile_frame, convert_frame.CatchErrorsWrapper.__call__ = compile_frame, call


def optimizer_step():
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.Adam([weight], lr=0.1)
    weight.sum().backward()
    torch.compile(optimizer.step, backend="eager")()
    return weight.detach()


def module():
    net = torch.nn.Linear(3, 3)
    net.compile(backend="eager")
    return net(X).shape


def breaks():
    @torch.compile(backend="eager")
    def f(x):
        y = x.sin()
        torch._dynamo.graph_break()
        return inner(y) + 1

    def inner(x):
        print(end="")
        return x.cos()

    return f(X)


def attention():
    q = torch.ones(1, 1, 128, 16)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return flex_attention(q, q, q, score_mod=lambda score, b, h, i, j: score + i).shape


def block_mask():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mask = create_block_mask(lambda b, h, i, j: i >= j, 1, 1, 128, 128, device="cpu", _compile=True)
    return mask.shape


PROGRAMS = {
    "function": lambda: torch.compile(lambda x: x + 1, backend="eager")(X),
    "fullgraph": lambda: torch.compile(lambda x: x + 1, backend="eager", fullgraph=True)(X),
    "module": module,
    "breaks": breaks,
    "cond": lambda: torch.cond(X.sum() > 0, lambda x: x + 1, lambda x: x - 1, (X,)),
    "while_loop": lambda: torch.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (torch.tensor(0), X)),
    "scan": lambda: scan(lambda carry, x: (carry + x, carry * x), torch.zeros(3), X),
    "map": lambda: hop_map(lambda x: x * 2, X),
    "flex_attention": attention,
    "create_block_mask": block_mask,
    "optimizer": optimizer_step,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_frame_is_given_to_torch_dynamo(name):
    with watched() as frames:
        want = PROGRAMS[name]()
    assert frames, "the watch sees nothing"
    torch._dynamo.reset()
    with pellucid.installed(), watched() as frames:
        got = PROGRAMS[name]()
        assert torch._C._dynamo.eval_frame.get_eval_frame_callback() in (None, False)
    assert not frames
    torch.testing.assert_close(got, want)


def test_a_compiled_function_around_install_hands_on_no_frame():
    def inner(x):
        return x * 2

    def outer(x):
        with pellucid.installed():
            seen.append(torch._C._dynamo.eval_frame.get_eval_frame_callback())
            return inner(x)

    seen = []
    with watched() as frames:
        result = torch.compile(outer, backend="eager")(X)
    assert torch.equal(result, X * 2) and "inner" not in frames and seen == [None]


@pytest.mark.parametrize(
    "capture",
    [
        lambda: torch.export.export(torch.nn.Linear(3, 3), (X,), strict=True),
        lambda: torch._dynamo.export(lambda x: x + 1)(X),
        lambda: torch.export.export(Chooses(), (X,)),
    ],
    ids=["strict", "dynamo", "cond inside of export"],
)
def test_what_cannot_do_without_says_so(capture):
    with watched() as frames:
        capture()
    assert frames
    torch._dynamo.reset()
    with pellucid.installed(), pytest.raises(pellucid.errors.CaptureTakenOver, match="pellucid"):
        capture()


class Chooses(torch.nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))


def test_export_that_needs_no_capture_works():
    with pellucid.installed(), watched() as frames:
        exported = torch.export.export(torch.nn.Linear(3, 3), (X,))
    assert not frames and exported.module()(X).shape == (2, 3)
