"""Between calls classes that a region read may change: the result equals eager's every time (support/changes.py)."""

import types

import pytest
import torch

from support.changes import Cases, X

case = CASES = Cases()


# ---- classes and instances


class Base:
    base = 2.0

    def work(self, x):
        return x * 2


def fresh_class(**body):
    return types.new_class("C", (Base,), {}, lambda space: space.update(body))


@case
def class_attribute():
    C = fresh_class(scale=2.0)
    c = C()

    def f(c, x):
        return x * c.scale

    yield f, c, X
    C.scale = 3.0
    yield f, c, X
    c.scale = 4.0
    yield f, c, X
    del c.scale
    yield f, c, X


@case
def class_attribute_read_from_the_class():
    C = fresh_class(scale=2.0)

    def f(x):
        return x * C.scale

    yield f, X
    C.scale = 3.0
    yield f, X
    del C.scale
    yield f, X


@case
def class_attribute_list_contents():
    C = fresh_class(scales=[2.0])

    def f(c, x):
        return x * c.scales[0] + len(c.scales)

    c = C()
    yield f, c, X
    C.scales[0] = 5.0
    yield f, c, X
    C.scales.append(1)
    yield f, c, X


@case
def base_class_attribute():
    class A:
        scale = 2.0

    class B(A):
        pass

    b = B()

    def f(x):
        return x * b.scale

    yield f, X
    A.scale = 3.0
    yield f, X
    B.scale = 4.0
    yield f, X


@case
def method_replaced():
    C = fresh_class()
    c = C()

    def f(c, x):
        return c.work(x)

    yield f, c, X
    C.work = lambda self, x: x * 3
    yield f, c, X
    c.work = lambda x: x * 4
    yield f, c, X


@case
def classmethod_and_staticmethod():
    class C:
        n = 2

        @classmethod
        def a(cls, x):
            return x * cls.n

        @staticmethod
        def b(x):
            return x + 1

    def f(x):
        return C.a(x) + C().b(x)

    yield f, X
    C.n = 3
    yield f, X
    C.b = staticmethod(lambda x: x + 9)
    yield f, X
    C.a = classmethod(lambda cls, x: x * 7)
    yield f, X


@case
def property_replaced():
    class C:
        @property
        def scale(self):
            return 2.0

    c = C()

    def f(x):
        return x * c.scale

    yield f, X
    C.scale = property(lambda self: 3.0)
    yield f, X
    C.scale = 4.0
    yield f, X


@case
def instance_attribute():
    class C:
        pass

    c = C()
    c.n = 2

    def f(c, x):
        return x * c.n if hasattr(c, "n") else x

    yield f, c, X
    c.n = 3
    yield f, c, X
    del c.n
    yield f, c, X
    c.n = torch.ones(3)
    yield f, c, X


@case
def class_assigned():
    class A:
        def work(self, x):
            return x * 2

    class B:
        def work(self, x):
            return x * 3

    a = A()

    def f(x):
        return a.work(x)

    yield f, X
    a.__class__ = B
    yield f, X


@case
def instance_dict_assigned():
    class C:
        def __init__(self):
            self.n = 2

    c = C()

    def f(x):
        return x * c.n

    yield f, X
    c.__dict__ = {"n": 3}
    yield f, X
    c.__dict__["n"] = 4
    yield f, X


@case
def instance_dict_read():
    class C:
        def __init__(self):
            self.n = 2

    c = C()

    def f(x):
        for value in c.__dict__.values():
            x = x * value
        return x

    yield f, X
    c.m = 5
    yield f, X
    c.m = 6
    yield f, X
    del c.n
    yield f, X


@case
def vars_of_an_instance():
    c = types.SimpleNamespace(a=2, b=3)

    def f(x):
        return x * sum(vars(c).values())

    yield f, X
    c.b = 4
    yield f, X


@case
def slots():
    class C:
        __slots__ = ("n",)

    c = C()
    c.n = 2

    def f(c, x):
        return x * c.n

    yield f, c, X
    c.n = 3
    yield f, c, X
    del c.n
    yield f, c, X


@case
def descriptor_state():
    class Scale:
        def __init__(self):
            self.n = 2

        def __get__(self, obj, owner):
            return self.n

    class C:
        scale = Scale()

    c = C()

    def f(x):
        return x * c.scale

    yield f, X
    C.__dict__["scale"].n = 3
    yield f, X
    Scale.__get__ = lambda self, obj, owner: 9
    yield f, X


@case
def descriptor_becomes_data_descriptor():
    class Scale:
        def __get__(self, obj, owner):
            return 2

    class C:
        scale = Scale()

    c = C()
    c.scale = 5

    def f(x):
        return x * c.scale

    yield f, X
    Scale.__set__ = lambda self, obj, value: None
    yield f, X


@case
def getattr_fallback():
    class C:
        def __getattr__(self, name):
            return 2

    c = C()

    def f(x):
        return x * c.anything

    yield f, X
    C.__getattr__ = lambda self, name: 3
    yield f, X
    c.anything = 4
    yield f, X
    del c.anything
    C.anything = 5
    yield f, X


@case
def getattribute_added():
    class C:
        n = 2

    c = C()

    def f(x):
        return x * c.n

    yield f, X
    C.__getattribute__ = lambda self, name: 7
    yield f, X


@case
def super_and_bases():
    class A:
        def work(self, x):
            return x * 2

    class B:
        def work(self, x):
            return x * 3

    class C(A):
        def work(self, x):
            return super().work(x) + 1

    c = C()

    def f(x):
        return c.work(x)

    yield f, X
    C.__bases__ = (B,)
    yield f, X
    B.work = lambda self, x: x * 5
    yield f, X


@case
def super_gets_a_class_between():
    class A:
        def work(self, x):
            return x * 2

    class Middle(A):
        pass

    class Other(A):
        def work(self, x):
            return x * 9

    class C(Middle):
        def work(self, x):
            return super().work(x) + 1

    c = C()

    def f(x):
        return c.work(x)

    yield f, X
    Middle.work = lambda self, x: x * 5
    yield f, X
    del Middle.work
    yield f, X
    C.__bases__ = (Other,)
    yield f, X


@case
def metaclass_attribute():
    class Meta(type):
        n = 2

        @property
        def scale(cls):
            return cls.n

    class C(metaclass=Meta):
        pass

    def f(x):
        return x * C.scale

    yield f, X
    Meta.n = 3
    yield f, X
    Meta.scale = property(lambda cls: 4)
    yield f, X


@pytest.mark.parametrize("make", CASES, ids=CASES.names)
def test_B01_change(make, counting):
    CASES.check(make, counting)
