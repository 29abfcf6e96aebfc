"""What tests ask of captured graphs."""

from __future__ import annotations

import torch
from torch import nn

import pellucid


class Recording:
    """A backend that keeps what it got."""

    def __init__(self):
        self.seen = []

    def __call__(self, gm, example_inputs):
        self.seen.append((gm, list(example_inputs)))
        return gm.forward

    @property
    def graphs(self):
        return [gm for gm, _ in self.seen]


def compiled_for(recording, function):
    return pellucid.compile(function, backend=recording, fullgraph=True)


def placeholders(gm):
    return gm.graph.find_nodes(op="placeholder")


def nodes_of(gm):
    return {node.name: node for node in gm.graph.nodes}


def calls(gm):
    return [node for node in gm.graph.nodes if node.op.startswith("call_")]


def targets(gm):
    return [node.target for node in calls(gm)]


class Block(nn.Module):
    """Two parameters and a buffer."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)
        self.register_buffer("b", torch.ones(3))

    def forward(self, x):
        return self.lin(x) + self.b
