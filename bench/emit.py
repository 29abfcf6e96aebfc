"""What emitted code costs: loading the inputs of a 12-layer GPT-2, and building usual results.

PYTHONPATH=python python bench/emit.py
"""

import timeit

import torch
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.modeling_outputs import BaseModelOutputWithPast

from pellucid import _core

Capture = _core._codegen.Capture


class Fake:
    pass


def forward(self, input_ids):
    pass


def least_us(call, number=1000, repeat=40):
    times = timeit.repeat(call, number=number, repeat=repeat)
    return min(times) / number * 1e6  # the machine may be busy with something else


def parameters_of(module, path):
    """(parameter, path) in the order of named_parameters(), tied ones once."""
    modules = ("attr", path, "_modules")
    for name, value in module._parameters.items():
        if value is not None:
            yield value, ("key", ("attr", path, "_parameters"), name)
    for name, child in module._modules.items():
        yield from parameters_of(child, ("key", modules, name))


def known_modules(module, path):
    yield module, path
    yield module._modules, ("attr", path, "_modules")
    for name, child in module._modules.items():
        yield from known_modules(child, ("key", ("attr", path, "_modules"), name))


def bench_inputs():
    model = GPT2LMHeadModel(GPT2Config(n_embd=48, n_layer=12, n_head=4, vocab_size=100, n_positions=64))
    root = ("local", 0, "self")
    capture = Capture(forward)
    seen, inputs = set(), []
    for value, path in parameters_of(model, root):
        if id(value) not in seen:
            seen.add(id(value))
            inputs.append(value)
            capture.input(value, path)
    for module, path in known_modules(model, root):
        capture.source(module, path)
    capture.node(result := Fake(), len, tuple(inputs))
    capture.finish(result)
    compiled = stub(torch.ones(1))
    emitted = capture.emit(compiled)
    print(f"emit:          {least_us(lambda: capture.emit(compiled), number=20):6.0f} us")
    print(f"{len(inputs)} parameters, {len(emitted.__code__.co_code)} bytes of code")
    return emitted, model


def stub(value):
    stored = (value,)

    def compiled(*arguments):
        return stored

    return compiled


def bench_result(value, fakes):
    def g(x):
        pass

    capture = Capture(g)
    capture.input(x := Fake(), ("local", 0, "x"))
    for fake in fakes:
        capture.node(fake, len, (x,))
    capture.finish(value)
    stored = tuple(range(len(fakes)))
    emitted = capture.emit(lambda x: stored)
    return least_us(lambda: emitted(1))


def main():
    emitted, model = bench_inputs()
    print(f"load and call: {least_us(lambda: emitted(model, None)):6.2f} us")
    call = emitted.__globals__["__compiled_fn_0"]
    values = tuple(model.parameters())
    print(f"the call:      {least_us(lambda: call(*values)):6.2f} us")
    a, b = Fake(), Fake()
    print(f"one tensor:    {bench_result(a, [a]):6.2f} us")
    print(f"tuple of two:  {bench_result((a, b), [a, b]):6.2f} us")
    output = BaseModelOutputWithPast(last_hidden_state=a, past_key_values=b)
    print(f"ModelOutput:   {bench_result(output, [a, b]):6.2f} us")


if __name__ == "__main__":
    main()
