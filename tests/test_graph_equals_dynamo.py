"""Our graph of a program and torch._dynamo's, node for node. What differs on purpose is in docs/graph-differences.md."""

import functools
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import pellucid


def graphs_of(compiler, function, *args, **kwargs):
    found = []

    def backend(gm, example_inputs):
        found.append((gm, [tuple(x.shape) for x in example_inputs]))
        return gm.forward

    torch.manual_seed(0)
    result = compiler(function, backend=backend)(*args, **kwargs)
    return found, result


def text_of(value):
    """Arguments with nodes by name; callables by what they are."""
    if isinstance(value, torch.fx.Node):
        return f"%{value.name}"
    if isinstance(value, (list, tuple)):
        return [text_of(item) for item in value]
    if isinstance(value, dict):
        return {key: text_of(item) for key, item in value.items()}
    if isinstance(value, slice):
        return ("slice", text_of(value.start), text_of(value.stop), text_of(value.step))
    return repr(value)


def rows(gm):
    return [(n.op, n.name, text_of(n.target), text_of(n.args), text_of(n.kwargs)) for n in gm.graph.nodes]


def assert_same_graphs(make, *args, skip_names=False, **kwargs):
    """`make()` gives a fresh function or module, so that neither compiler sees the other's traces."""
    torch._dynamo.reset()
    theirs, expected = graphs_of(functools.partial(torch.compile), make(), *args, **kwargs)
    torch._dynamo.reset()
    ours, got = graphs_of(pellucid.compile, make(), *args, **kwargs)
    assert len(ours) == len(theirs) == 1
    mine, other = rows(ours[0][0]), rows(theirs[0][0])
    assert mine == other
    assert ours[0][1] == theirs[0][1]
    compare_metadata(ours[0][0], theirs[0][0])
    for a, b in zip(torch.utils._pytree.tree_leaves(got), torch.utils._pytree.tree_leaves(expected)):
        assert torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b


def compare_metadata(ours, theirs):
    for a, b in zip(ours.graph.nodes, theirs.graph.nodes):
        value, expected = a.meta.get("example_value"), b.meta.get("example_value")
        for x, y in zip(torch.utils._pytree.tree_leaves(value), torch.utils._pytree.tree_leaves(expected), strict=True):
            if isinstance(y, torch.Tensor):
                assert (x.shape, x.stride(), x.dtype, x.device, x.requires_grad) == (y.shape, y.stride(), y.dtype, y.device, y.requires_grad), a
        if b.op in ("call_function", "call_method") and "stack_trace" in b.meta:
            assert a.meta["stack_trace"] == b.meta["stack_trace"], a
            assert text_of(a.meta["source_fn_stack"]) == text_of(b.meta["source_fn_stack"]), a
            assert text_of(list(a.meta.get("nn_module_stack", {}).values())) == text_of(list(b.meta.get("nn_module_stack", {}).values())), a
        if b.op == "placeholder":
            assert a._dynamo_source.name == b._dynamo_source.name
            assert a.type is b.type
            assert a.meta["tensor_dict"] == b.meta["tensor_dict"]
    assert ours.meta["dynamo_flat_name_to_original_fqn"].items() <= theirs.meta["dynamo_flat_name_to_original_fqn"].items()


def arithmetic(x, y):
    z = x + y
    z = z * 2 - y / 3
    w = -z ** 2
    w += 1
    return (w @ z.T).sum(dim=-1, keepdim=True), z[0], 3 - w


def torch_functions(x, y):
    a = torch.cat([x, y], dim=0)
    b = F.relu(a)
    first, second = b.chunk(2, 0)
    m = torch.max(first, dim=1)
    return F.layer_norm(second, (4,)), m.values, torch.stack((first, second)), a.view(-1).unsqueeze(0)


def methods_and_attributes(x, y):
    n = x.shape[0]
    t = x.transpose(0, 1).contiguous().view(-1, n)
    return t.to(torch.float64), x.T, y.mean(), x.size(1), y.dtype


def indexing(x, y):
    a = x[:, 1:3]
    b = x[..., None]
    c = y[x > 0.5 if False else 1]
    return a, b, c, x[-1, ::2]


def grad_modes(x, y):
    with torch.no_grad():
        a = x * 2
    with torch.no_grad():
        pass
    return a + y


def factories(x, y):
    mask = torch.ones(4, 4, dtype=torch.bool).tril()
    positions = torch.arange(x.shape[1], device=x.device)
    z = torch.zeros(2)
    z[0] = 1.0
    return x.masked_fill(~mask[:3], -1.0) + positions, z


def unused(x, y):
    pair = (x, y)
    torch.sin(x)
    return pair[0] + 1


def inlined(x, y):
    def helper(a, scale=2):
        s = a * scale
        return s.cos()

    return helper(x) + helper(y, scale=math.pi)


@pytest.mark.parametrize("function", [arithmetic, torch_functions, methods_and_attributes, indexing, grad_modes, factories, unused, inlined])
def test_functions(function):
    torch.manual_seed(1)
    assert_same_graphs(lambda: function, torch.rand(3, 4), torch.rand(3, 4))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.up = nn.Linear(8, 16)
        self.down = nn.Linear(16, 8)
        self.drop = nn.Dropout(0.1)
        self.register_buffer("scale", torch.tensor(2.0))

    def forward(self, x):
        h = self.norm(x)
        q, k, v = h.chunk(3, 1) if h.shape[1] == 3 else (h, h, h)
        a = F.scaled_dot_product_attention(q, k, v)
        x = x + self.drop(a) * self.scale
        return x + self.down(F.gelu(self.up(x)))


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2))
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        x = self.features(x)
        return self.head(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


def build(kind, train=False):
    torch.manual_seed(0)
    return kind().train(train)


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("kind, shape", [(Block, (2, 5, 8)), (ConvNet, (2, 3, 8, 8))])
def test_modules(kind, shape, train):
    assert_same_graphs(lambda: build(kind, train), torch.rand(*shape))


def hugging_face(name):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    if name == "gpt2":
        config = transformers.GPT2Config(n_layer=2, n_embd=32, n_head=2, vocab_size=64, n_positions=32)
        return transformers.GPT2LMHeadModel(config).eval()
    if name == "bert":
        config = transformers.BertConfig(num_hidden_layers=2, hidden_size=32, num_attention_heads=2, intermediate_size=64, vocab_size=64)
        return transformers.BertModel(config).eval()
    config = transformers.LlamaConfig(
        num_hidden_layers=2, hidden_size=32, num_attention_heads=2, intermediate_size=64, vocab_size=64, max_position_embeddings=32
    )
    return transformers.LlamaForCausalLM(config).eval()


@pytest.mark.parametrize("name", ["gpt2", "bert", "llama"])
def test_hugging_face_models(name):
    ids = torch.arange(10).view(1, 10)
    assert_same_graphs(lambda: hugging_face(name), input_ids=ids, use_cache=False, return_dict=False)
