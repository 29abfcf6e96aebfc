"""While nothing moves, a Watch stands for the ops of a large guard program (src/guards/watch.h). It must see whatever they see:
every change below is made when the watch is in use, and must be found at once, by a program that has just held."""

import gc
import random
import types

import pytest
import torch

import pellucid


class Leaf:
    def __init__(self, size):
        self.weight = torch.ones(size)
        self.hooks = {}
        self.scale = 2

    def run(self, x):
        if self.hooks:
            x = x + len(self.hooks)
        return x * self.weight[0] * self.scale + self.weight.numel()


def with_dicts(tree):
    """Objects whose attributes lie in no dict yet are asked for one by one; those of modules always lie in one."""
    for part in (tree, *tree.leaves.values(), *tree.rows, tree.extra, tree.extra.depth):
        vars(part)
    return tree


class Tree:
    """Instance dicts, dicts, lists, classes, functions and cells, some levels deep: more ops than a watch needs to be worth it."""

    def __init__(self):
        self.leaves = {name: Leaf(2) for name in "abcdefgh"}
        self.rows = [Leaf(2) for _ in range(4)]
        self.function = made_function(1)
        self.extra = types.SimpleNamespace(depth=types.SimpleNamespace(value=3))

    def run(self, x):
        for leaf in self.leaves.values():
            x = leaf.run(x)
        for leaf in self.rows:
            x = leaf.run(x)
        return self.function(x) + self.extra.depth.value


def made_function(bound):
    def function(x, default=1):
        return x + bound + default

    return function


def other_function(bound):
    def function(x, default=1):
        return x - bound

    return function


class OtherLeaf(Leaf):
    def run(self, x):
        return super().run(x) + 7


def set_cell(tree):
    tree.function.__closure__[0].cell_contents = 5


def move_to_another_dict(tree):
    tree.leaves["c"].__dict__ = {**tree.leaves["c"].__dict__, "scale": 9}


def replace_at_its_address(tree):
    """The leaf goes, and the next one is likely to lie where it lay."""
    del tree.leaves["d"]
    made = OtherLeaf(2)
    tree.leaves["d"] = made


CHANGES = {
    "attribute": lambda tree: setattr(tree.leaves["b"], "scale", 3),
    "deep attribute": lambda tree: setattr(tree.extra.depth, "value", 4),
    "attribute of the root": lambda tree: setattr(tree, "function", made_function(2)),
    "entry of a dict": lambda tree: tree.leaves["e"].hooks.update(h=1),
    "item of a list": lambda tree: tree.rows.__setitem__(1, OtherLeaf(2)),
    "length of a list": lambda tree: tree.rows.pop(),
    "class of an instance": lambda tree: setattr(tree.rows[2], "__class__", OtherLeaf),
    "class of an instance in a dict": lambda tree: setattr(tree.leaves["g"], "__class__", OtherLeaf),
    "another instance dict": move_to_another_dict,
    "another object in its place": replace_at_its_address,
    "cell": set_cell,
    "defaults": lambda tree: setattr(tree.function, "__defaults__", (4,)),
    "code": lambda tree: setattr(tree.function, "__code__", other_function(0).__code__),
    "another tensor": lambda tree: setattr(tree.leaves["a"], "weight", torch.ones(2, dtype=torch.float64)),
    "size of a tensor": lambda tree: tree.rows[0].weight.resize_(3).fill_(1),
    "size of a tensor of a dict": lambda tree: tree.leaves["f"].weight.resize_(3).fill_(1),
    "requires_grad": lambda tree: tree.rows[3].weight.requires_grad_(True),
    "method of a class": lambda tree: setattr(Leaf, "run", lambda self, x: x - 1),
}


@pytest.fixture
def leaf_class():
    run = Leaf.run
    yield
    Leaf.run = run


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("calls", [1, 2, 3, 10])
@pytest.mark.parametrize("make", [Tree, lambda: with_dicts(Tree())])
def test_a_change_is_seen_at_once(name, calls, make, leaf_class):
    tree = make()
    compiled = pellucid.compile(lambda t, x: t.run(x), backend="eager", fullgraph=True)
    x = torch.ones(2)
    for _ in range(calls):
        assert torch.equal(compiled(tree, x), tree.run(x))
    CHANGES[name](tree)
    for _ in range(4):
        found, expected = compiled(tree, x), tree.run(x)
        assert torch.equal(found, expected) and found.dtype == expected.dtype
        assert found.requires_grad == expected.requires_grad


def test_what_moves_at_each_call_hides_no_other_change():
    """After a few moves what is restless runs as ops, and the rest is watched again."""
    tree = with_dicts(Tree())
    compiled = pellucid.compile(lambda t, x: t.run(x), backend="eager", fullgraph=True)
    x = torch.ones(2)
    for i in range(200):
        tree.leaves["a"].note = i  # nobody reads it, but the dict is another version
        if i == 150:
            tree.leaves["h"].scale = 11
        assert torch.equal(compiled(tree, x), tree.run(x))


def test_random_changes():
    """Any of them, in any order, with calls in between, by two trees in turn."""
    choice = random.Random(3)
    trees = [with_dicts(Tree()), with_dicts(Tree())]
    compiled = pellucid.compile(lambda t, x: t.run(x), backend="eager", fullgraph=True)
    x = torch.ones(2)
    names = [name for name in CHANGES if name not in ("code", "method of a class", "length of a list")]
    for _ in range(60):
        for _ in range(choice.randrange(5)):
            tree = choice.choice(trees)
            assert torch.equal(compiled(tree, x), tree.run(x))
        CHANGES[choice.choice(names)](choice.choice(trees))
        if choice.random() < 0.1:
            trees[choice.randrange(2)] = with_dicts(Tree())
            gc.collect()
        with pellucid.config.patch(recompile_limit=1000):
            for tree in trees:
                assert torch.equal(compiled(tree, x), tree.run(x))
