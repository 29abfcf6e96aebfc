"""What a script does in a process without pellucid. Its text stands in every script, behind the attempt to import pellucid; it
needs torch alone."""

from __future__ import annotations

import os
import sys

import torch


class Reader:
    """Makes the inputs of a script: with the saved values, or with random ones of the same layout."""

    def __init__(self, file=None):
        torch.manual_seed(0)
        self.args, self._storages, self.saved = [], {}, {}
        if file is not None and os.path.exists(file):
            self.saved = torch.load(file, weights_only=True)
        elif file is not None:
            print(f"repro: there is no {file}: inputs have random values", file=sys.stderr)

    def tensor(
        self,
        shape,
        stride=None,
        dtype=torch.float32,
        device="cpu",
        is_leaf=True,
        requires_grad=False,
        storage=None,
        offset=0,
    ):
        stride = torch.empty(shape, device="meta").stride() if stride is None else stride
        length = 0 if 0 in shape else offset + 1 + sum((n - 1) * step for n, step in zip(shape, stride))
        known = self._storages.get(storage)
        if known is None or known.untyped_storage().nbytes() < length * dtype.itemsize:
            flat = self._storage(storage, length, dtype).to(device)
            self._storages[storage] = flat
        base = self._storages.pop(None) if storage is None else self._storages[storage]
        made = torch.empty(0, dtype=dtype, device=device).set_(base.untyped_storage(), offset, shape, stride)
        made.requires_grad_(requires_grad)
        self.args.append(made if is_leaf or not requires_grad else Computed.apply(made))

    def _storage(self, name, length, dtype):
        if name is not None and name in self.saved:
            return self.saved[name]
        if dtype.is_floating_point or dtype.is_complex:
            wide = torch.randn(length, dtype=dtype if dtype.is_complex else torch.float32)
            return wide.to(dtype)
        return torch.zeros(length, dtype=dtype)

    def value(self, value):
        self.args.append(value)

    def saved_value(self, name):
        if name not in self.saved:
            raise RuntimeError(f"repro: the value {name!r} is only in the file of inputs, which is not there")
        self.args.append(self.saved[name])


class Computed(torch.autograd.Function):
    """The same memory as a tensor that is no leaf."""

    @staticmethod
    def forward(ctx, x):
        return torch.empty(0, dtype=x.dtype, device=x.device).set_(
            x.untyped_storage(), x.storage_offset(), x.size(), x.stride()
        )

    @staticmethod
    def backward(ctx, grad):
        return grad


def run_repro(mod, load_args, *, backend, inputs=None, after="dynamo", dynamic=None, accuracy=False, **more):
    """The failing call, by torch alone."""
    if backend is None:
        raise RuntimeError("this script has no backend: put the one that fails into the line that sets BACKEND")
    reader = Reader(inputs)
    load_args(reader)
    state = {name[6:]: value for name, value in reader.saved.items() if name.startswith("state:")}
    if state:
        mod.load_state_dict(state)
    if after == "dynamo":
        results = torch.compile(mod, backend=backend, dynamic=dynamic)(*reader.args)
        wanted = mod(*reader.args) if accuracy else results
        differentiable = [r for r in results if isinstance(r, torch.Tensor) and r.requires_grad]
        torch.autograd.backward(differentiable, [torch.ones_like(r) for r in differentiable])
    else:
        from torch._inductor.compile_fx import compile_fx_inner
        from torch.fx.experimental.proxy_tensor import make_fx

        wanted = mod(*reader.args)
        compiler = compile_fx_inner if backend == "inductor" else backend
        compiled = compiler(make_fx(mod)(*reader.args), reader.args)
        boxed = getattr(compiled, "_boxed_call", False)
        results = compiled(list(reader.args)) if boxed else compiled(*reader.args)
    if accuracy:
        torch.testing.assert_close(results, wanted, rtol=1e-3, atol=1e-3, equal_nan=True)
    print("repro: nothing failed")
