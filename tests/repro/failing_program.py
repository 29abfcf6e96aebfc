"""A program that is compiled with a backend of the command line: python programs.py NAME BACKEND."""

import sys

import planted_faults  # noqa: F401  (registers its backends)
import torch

import pellucid


def long(x, w):
    """Fourteen operations, among them sin, tanh, sigmoid and relu once each."""
    a = torch.matmul(x, w)
    b = torch.sin(a)
    c = torch.exp(b * 0.1)
    d = torch.relu(c - 1)
    e = torch.tanh(d + a)
    f = torch.cat([e, b], dim=0)
    g = f.mean(dim=1, keepdim=True)
    h = torch.sigmoid(g)
    return h.sum() + e.abs().sum(), (f * h).cos()


def with_views(x, w):
    """A result of the middle is laid out otherwise than its input."""
    a = torch.matmul(x, w).sin()
    return (a.t() * 2).cos().relu().sum(dim=0)


def short(x, w):
    a = torch.matmul(x, w)
    b = torch.tanh(a)
    return (b + a).sum()


def product(x, w):
    return torch.mm(x, w).float().sin()


def arguments():
    torch.manual_seed(0)
    return torch.randn(6, 4, requires_grad=True), torch.randn(4, 8, requires_grad=True)


if __name__ == "__main__":
    function = globals()[sys.argv[1]]
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=function is product):
        result = pellucid.compile(function, backend=sys.argv[2])(*arguments())
    (result[0] if isinstance(result, tuple) else result).sum().backward()
    print("done")
