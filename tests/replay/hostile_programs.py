"""Programs whose code would leave a file behind if any of it ran while their records are loaded and replayed."""

import json
import os
import sys

import torch

import pellucid
from pellucid.control import assume_constant_result

MARK = os.environ["MARK"]


def ran(*_args, **_kwargs):
    with open(MARK, "a") as file:
        file.write("ran\n")
    return 1


class Meta(type):
    def mro(cls):
        ran()
        return super().mro()

    def __call__(cls, *args):
        ran()
        return super().__call__(*args)

    def __setattr__(cls, name, value):
        ran()
        super().__setattr__(name, value)


class Base(metaclass=Meta):
    def __init_subclass__(cls):
        ran()

    def __class_getitem__(cls, item):
        return ran()


class Named:
    def __set_name__(self, owner, name):
        ran()

    def __get__(self, instance, owner):
        return ran()


class Everything(Base):
    named = Named()

    def __getattribute__(self, name):
        ran()
        return super().__getattribute__(name)

    def __setattr__(self, name, value):
        ran()
        super().__setattr__(name, value)

    def __bool__(self):
        return ran()

    def __len__(self):
        return ran()

    def __repr__(self):
        return str(ran())

    def __new__(cls):
        ran()
        return super().__new__(cls)


class Hashed:
    def __hash__(self):
        return ran()

    def __eq__(self, other):
        return bool(ran())


class Finalized:
    def __del__(self):
        ran()


THINGS = [Everything(), {Hashed(): 1}, {Hashed()}, Finalized(), Base]


@assume_constant_result
def constant():
    return ran()


@torch.compiler.assume_constant_result
def constant_of_torch():
    return ran()


@pellucid.allow_in_graph
def allowed(x):
    ran()
    return x


def holds_everything(x):
    return x + len(THINGS)


def asks_everything(x):
    return x + bool(THINGS[0])


def asks_for_constants(x):
    return x * constant() * constant_of_torch() + allowed(x)


def asks_the_capture(x):
    pellucid.comptime(ran)
    return x + 1


def imports(x):
    import leaves_a_file

    return x + leaves_a_file.ONE


def calls_the_system(x):
    os.system(f"touch {MARK}")
    return x


class Computed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ran()
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        ran()
        return gradient


def computes(x):
    x = x.clone().requires_grad_()
    for _ in range(3):
        try:
            x = Computed.apply(x * 2)
        except BaseException:
            x = Computed.apply(x * 3)
    return x


def replaced(self):
    ran()
    return 3


def calls_what_it_replaced(x):
    return x.sin() + len(torch.Size([1])) + LAYER(x).numel()


LAYER = torch.nn.Linear(3, 3)


def writes(x):
    ran()
    return x


if __name__ == "__main__":
    x = torch.ones(3)
    torch.nn.Linear.reset_parameters = replaced
    torch.nn.Module.extra_repr = replaced
    told = {}
    for function in (
        holds_everything,
        asks_everything,
        asks_for_constants,
        asks_the_capture,
        imports,
        calls_the_system,
        calls_what_it_replaced,
        computes,
        writes,
    ):
        made = pellucid.record(function, f"{sys.argv[1]}/{function.__name__}.rec")(x)
        told[function.__name__] = made.outcome.summary()
    print(json.dumps(told))
