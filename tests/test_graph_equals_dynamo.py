"""Our graph of a program and torch._dynamo's, node for node. What differs on purpose is in docs/graph-differences.md."""

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
    """Every node but the inputs, which are numbered by first use."""
    inputs = {}
    for node in gm.graph.nodes:
        for used in node.all_input_nodes:
            if used.op == "placeholder":
                inputs.setdefault(used, f"input {len(inputs)}")
    found = []
    for n in gm.graph.nodes:
        if n.op != "placeholder" and n.target is not torch._C._log_api_usage_once:
            args, kwargs = torch.fx.node.map_arg((n.args, n.kwargs), lambda m: Named(inputs[m]) if m in inputs else m)
            found.append((n.op, n.name, text_of(n.target), text_of(args), text_of(kwargs)))
    assert len(inputs) == len(gm.graph.find_nodes(op="placeholder"))
    return found, list(inputs)


class Named(str):
    __repr__ = str.__str__


def assert_same_graphs(make, *args, **kwargs):
    """`make()` gives a fresh function or module, so that neither compiler sees the other's traces."""
    torch._dynamo.reset()
    theirs, expected = graphs_of(torch.compile, make(), *args, **kwargs)
    torch._dynamo.reset()
    ours, got = graphs_of(pellucid.compile, make(), *args, **kwargs)
    assert len(theirs) == 1
    assert_equal(got, expected)
    if len(ours) != 1:
        pytest.xfail(f"not one graph yet: {pellucid.break_reasons()[-1:]}")
    (mine, my_inputs), (other, their_inputs) = rows(ours[0][0]), rows(theirs[0][0])
    assert mine == other
    compare_inputs(my_inputs, their_inputs)
    compare_metadata(ours[0][0], theirs[0][0])


def assert_equal(got, expected):
    got, expected = torch.utils._pytree.tree_leaves(got), torch.utils._pytree.tree_leaves(expected)
    for a, b in zip(got, expected, strict=True):
        assert torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b


def tensor_facts(value):
    tensors = [x for x in torch.utils._pytree.tree_leaves(value) if isinstance(x, torch.Tensor)]
    strides = [
        [stride for size, stride in zip(x.shape, x.stride()) if size != 1] for x in tensors
    ]  # the others mean nothing
    return [(x.shape, stride, x.dtype, x.device, x.requires_grad) for x, stride in zip(tensors, strides)]


def compare_inputs(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        assert a.type is b.type and a.meta["tensor_dict"] == b.meta["tensor_dict"]
        assert tensor_facts(a.meta["example_value"]) == tensor_facts(b.meta["example_value"])
        if not a._dynamo_source.name.startswith(("L['args']", "L['kwargs']")):  # see docs: the call of a module
            assert a._dynamo_source.name == b._dynamo_source.name
            assert (a.name, a.target) == (b.name, b.target)


def without_carets(trace):
    return [line for line in trace.splitlines() if not set(line.strip()) <= {"~", "^"}]


def calls(gm):
    return [n for n in gm.graph.nodes if n.op not in ("placeholder", "output")]


def compare_metadata(ours, theirs):
    for a, b in zip(calls(ours), calls(theirs), strict=True):
        assert tensor_facts(a.meta.get("example_value")) == tensor_facts(b.meta.get("example_value")), a
        if "stack_trace" in b.meta:
            theirs = without_carets(b.meta["stack_trace"])
            assert without_carets(a.meta["stack_trace"])[-len(theirs) :] == theirs, a


def arithmetic(x, y):
    z = x + y
    z = z * 2 - y / 3
    w = -(z**2)
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
    return t.to(torch.float64), t.T, y.mean(), x.size(1), y.dtype


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


@pytest.mark.parametrize(
    "function", [arithmetic, torch_functions, methods_and_attributes, indexing, grad_modes, factories, unused, inlined]
)
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
        self.features = nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2)
        )
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


@pytest.mark.xfail(reason="the executor does not note yet which module a frame runs", strict=True)
def test_module_stacks():
    ((ours, _),) = graphs_of(pellucid.compile, build(ConvNet), torch.rand(2, 3, 8, 8))[0]
    ((theirs, _),) = graphs_of(torch.compile, build(ConvNet), torch.rand(2, 3, 8, 8))[0]
    for a, b in zip(calls(ours), calls(theirs), strict=True):
        assert text_of(a.meta["source_fn_stack"]) == text_of(b.meta["source_fn_stack"]), a
        stacks = [text_of(list(n.meta.get("nn_module_stack", {}).values())) for n in (a, b)]
        assert stacks[0] == stacks[1], a


def hugging_face(name):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    if name == "gpt2":
        config = transformers.GPT2Config(n_layer=2, n_embd=32, n_head=2, vocab_size=64, n_positions=32)
        return transformers.GPT2LMHeadModel(config).eval()
    if name == "bert":
        config = transformers.BertConfig(
            num_hidden_layers=2, hidden_size=32, num_attention_heads=2, intermediate_size=64, vocab_size=64
        )
        return transformers.BertModel(config).eval()
    config = transformers.LlamaConfig(
        num_hidden_layers=2,
        hidden_size=32,
        num_attention_heads=2,
        intermediate_size=64,
        vocab_size=64,
        max_position_embeddings=32,
    )
    return transformers.LlamaForCausalLM(config).eval()


# A `.to()` that changes nothing gives the same tensor: torch._dynamo's variables go on naming the older node, ours name the newer one.
LLAMA = pytest.param(
    "llama", marks=pytest.mark.xfail(reason="no-op .to(): later uses name the newest node of the tensor", strict=True)
)


@pytest.mark.parametrize("name", ["gpt2", "bert", LLAMA])
def test_hugging_face_models(name):
    ids = torch.arange(10).view(1, 10)
    assert_same_graphs(lambda: hugging_face(name), input_ids=ids, use_cache=False, return_dict=False)
