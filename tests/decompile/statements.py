"""Functions for every statement of the language; test_language.py decompiles each and compares the instructions."""
# ruff: noqa


def passes():
    pass


def expression_statements(f, x):
    f(x)
    x.y
    x[0]
    x + 1


def assignments(a, b):
    x = a
    x = y = b
    a.b = x
    a[0] = y
    a.b[x].c = z = w = 1
    p, q = a
    (p, (q, r)), s = a
    p, *q, r = b
    [p, q] = a
    a.x, a[1] = b
    return x, y, z, w, p, q, r, s


def swaps(a, b, c):
    a, b = b, a
    a, b, c = c, a, b
    a[0], b.x = b.x, a[0]
    a, b, c, d = b, c, a, 1
    return a, b, c, d


def augmented(a, x):
    x += 1
    x -= 1
    x *= 2
    x /= 2
    x //= 2
    x %= 3
    x **= 2
    x <<= 1
    x >>= 1
    x &= 1
    x |= 1
    x ^= 1
    x @= a
    a.b += 1
    a[x] -= 1
    a[x, 1:2].c *= 2
    return x


def annotated(a):
    x: int = 1
    y: "str"
    a.b: int = 2
    return x


def deletes(a, b):
    del a.x
    del a[0], a[1:2]
    del b


def returns_nothing(a):
    if a:
        return
    a.x()
    return None


def returns_tuple(a):
    return a, 1


def raises(a):
    if a == 1:
        raise
    if a == 2:
        raise ValueError
    if a == 3:
        raise ValueError("x") from a
    raise ValueError("y") from None


def asserts(a, b):
    assert a
    assert a and b, "both"
    assert not a, (a, b)
    assert a or b
    assert a is None


def imports():
    import os
    import os.path
    import os.path as p
    import xml.dom.minidom as m
    import sys as s, math
    from os import path
    from os import path as q, sep
    from . import x
    from .. import y as z
    from .a import b

    return os, p, m, s, math, path, q, sep, x, z, b


def global_names():
    global counter, other
    counter = 1
    other += counter
    del other
    global made

    def made():
        pass


def ifs(a, b, c):
    if a:
        x = 1
    if a:
        x = 1
    else:
        x = 2
    if a:
        x = 1
    elif b:
        x = 2
    elif c:
        x = 3
    else:
        x = 4
    if a:
        if b:
            x = 5
        else:
            x = 6
    return x


def nested_ifs(a, b, c, d):
    if a:
        if b:
            if c:
                return 1
            return 2
        elif d:
            return 3
    else:
        if c:
            return 4
    return 5


def conditions(a, b, c, d):
    if a and b or c and d:
        a()
    if (a or b) and (c or d):
        b()
    if not (a and b):
        c()
    if not a or not b and c:
        d()
    if a is None or b is not None:
        a()
    if a in b and c not in d:
        b()
    if not a is None:
        c()
    if a < b < c:
        d()
    if a < b <= c and not b < c < d:
        a()
    if a if b else c:
        b()
    if (a and b) if c else (b or d):
        c()
    if (x := a()) and x > 1:
        d(x)
    if a == b != c is d:
        a()


def whiles(a, b):
    while a:
        a = b()
    while a and b:
        a()
    while not a:
        a = b()
    while a < b < 3:
        a()
    while x := a():
        b(x)
    while a or b:
        if a:
            continue
        if b:
            break
        a()
    else:
        b()
    while True:
        a()
        if b:
            break
    while 1:
        if a():
            return b


def while_with_else(a):
    while a:
        if a.x:
            break
        a = a.y
    else:
        return 1
    return 2


def fors(a, b):
    for x in a:
        b(x)
    for x, y in a:
        b(x, y)
    for x, (y, *z) in a:
        b(x, y, z)
    for a.x in b:
        pass
    for a[0] in b:
        pass
    for x in a:
        if x:
            continue
        if b:
            break
        b(x)
    else:
        b()
    for x in (1, 2, 3):
        for y in range(x):
            if y:
                break
        else:
            continue
        break
    for x in a:
        return x


def for_returns(a, b):
    for x in a:
        if x > b:
            return x
        elif x < b:
            b += x
    return None


def tries(a, b):
    try:
        a()
    except ValueError:
        b()
    try:
        a()
    except (TypeError, KeyError) as e:
        b(e)
    except OSError:
        raise
    except:
        b()
    else:
        a(1)
    try:
        a()
    finally:
        b()
    try:
        a()
    except ValueError as e:
        b(e)
    else:
        a(2)
    finally:
        b(3)


def tries_with_returns(a, b):
    try:
        return a()
    except ValueError:
        return b()
    finally:
        b.close()


def try_in_loop(a, b):
    for x in a:
        try:
            b(x)
        except KeyError:
            continue
        except ValueError as e:
            print(e)
            break
        finally:
            a.done(x)
    else:
        return 1
    while b:
        try:
            b = b()
        except StopIteration:
            break


def nested_tries(a, b):
    try:
        try:
            a()
        except ValueError:
            b()
        else:
            a(1)
    except OSError as e:
        try:
            b(e)
        finally:
            a.close()
    finally:
        try:
            b.close()
        except Exception:
            pass


def try_return_else(a):
    try:
        x = a()
    except LookupError:
        return None
    else:
        return x


def groups(a, b):
    try:
        a()
    except* ValueError:
        b()
    try:
        a()
    except* (TypeError, KeyError) as e:
        b(e)
    except* OSError:
        a(1)
    else:
        b(2)
    finally:
        b(3)


def withs(a, b):
    with a:
        b()
    with a as x:
        b(x)
    with a as (x, y):
        b(x, y)
    with a as b.c, b.d as e:
        b(e)
    with a() as x, b(x):
        pass


def with_returns(a):
    with a as f:
        return f.read()


def with_in_loop(a, b):
    for x in a:
        with b(x) as y:
            if y:
                continue
            if x:
                break
            b(y)
    with a:
        for x in b:
            if x:
                return x
    return None


def with_try(a, b):
    with a:
        try:
            b()
        except ValueError:
            return 1
        finally:
            a.x()
    return 2


def functions(a):
    def plain():
        return a

    def defaults(x, y=1, *args, z, w=2, **kwargs):
        return x, y, args, z, w, kwargs

    def positional(x, /, y):
        return x, y

    def annotated(x: int, *args: str, y: "float" = a, **k: a.b) -> None:
        pass

    @a
    @a.b(1)
    def decorated():
        """Documentation."""
        return decorated

    return plain, defaults, positional, annotated, decorated


def closures():
    count = 0
    unused = 1

    def up():
        nonlocal count
        count += 1

        def inner():
            nonlocal count
            count = count * 2
            return count

        return inner

    return up, unused


def generator(a):
    yield
    yield 1
    x = yield a
    y = yield
    x += yield x, y
    yield from a
    z = yield from a
    return z


def endless(a):
    while True:
        x = yield a
        if x is None:
            return
        a = x


def generator_with_tries(a):
    try:
        yield a
    except GeneratorExit:
        raise
    finally:
        a.close()
    with a as b:
        yield b


async def coroutine(a, b):
    x = await a
    await a.b(x)
    async with a as c:
        await c
    async with a:
        pass
    async for y in b:
        if y:
            continue
        await y
    else:
        await b
    return await x


async def async_generator(a):
    async for x in a:
        yield x
    async with a as b:
        yield b
    yield


async def async_returns(a):
    async with a as b:
        return await b
    try:
        await a
    finally:
        await b


async def async_loops(a, b):
    async for x in a:
        async with b(x):
            if x:
                break
    while True:
        try:
            await a
        except TimeoutError:
            await b
        else:
            break


def classes(a):
    class Empty:
        pass

    class Documented(a, a.b, metaclass=a, key=1):
        """Documentation."""

        x: int
        y: "str" = "y"
        z = w = 1

        def method(self):
            return super().method() + self.__x

        @property
        def size(self):
            return __class__

        @staticmethod
        def make(x=y):
            return Documented(x)

        for i in range(3):
            if i:
                locals()[i] = i
        del i

        class Inner:
            v = a

    class Starred(*a, **a.k):
        pass

    @a
    class Decorated(Documented):
        x = a
        a = x

    return Empty, Documented, Starred, Decorated


def class_with_global(n):
    global Made

    class Made:
        global g
        g = n
        h = Made

        def get(self):
            return n


def matches(a, P):
    match a:
        case 1:
            return 1
        case "x" | b"y" | None | True:
            return 2
        case -1.5 | 2 + 3j:
            return 3
        case P.value:
            return 4
        case [x, y]:
            return x, y
        case [1, *rest]:
            return rest
        case (x, [y, *_], *z) if x > y:
            return z
        case {"a": x, "b": [y]}:
            return x, y
        case {"k": x, **rest}:
            return x, rest
        case P(x, y=1) | P(y=x):
            return x
        case P() as p:
            return p
        case str(s):
            return s
        case {}:
            return 5
        case []:
            return 6
        case x if x:
            return x
        case _:
            return 7


def match_falls_through(a):
    match a:
        case 1:
            x = 1
        case [_, _]:
            x = 2
        case {"x": 1}:
            x = 3
    return x


def match_in_loop(a):
    for x in a:
        match x:
            case 0:
                continue
            case 1:
                break
            case int():
                y = x
            case (1 | 2) as z, (3 as w):
                y = z + w
    return y


def match_expressions(a, b):
    match a, b:
        case 1, 2:
            return 1
        case x, y:
            return x + y


def constant_conditions(a):
    while 1:
        a()
        break
    if 1:
        a(1)
    if 0:
        a(2)
    if __debug__:
        a(3)
    while 0:
        a(4)


def never_stored():
    if 0:
        x = 1
    return x


def returns_in_all_branches(a, b):
    if a:
        return 1
    elif b:
        return 2
    else:
        return 3


def long_elif(a):
    if a == 1:
        a = 2
    elif a == 2:
        a = 3
    elif a == 3:
        a = 4
    if a:
        pass
    else:
        a = 1


def finally_leaves(a, b):
    while a:
        try:
            if b:
                break
            a()
        finally:
            b()
    for x in a:
        try:
            return x
        finally:
            if b:
                b(x)
    try:
        a()
    finally:
        with b:
            a(1)


def with_and_finally(a, b):
    try:
        with a as x:
            for y in x:
                if y:
                    return y
    finally:
        b()


def loops_that_begin_at_one_place(read, rest, limit):
    while 1:
        try:
            while limit < rest:
                read(limit)
        except KeyError:
            pass
        else:
            assert limit == rest
        limit -= 1
        while limit >= 0:
            if read(limit):
                break
        else:
            assert limit < 0
            break


def alternatives_that_bind(x):
    match x:
        case (0 as z) | (1 as z) | (2 as z) if z == x % 2:
            return z
    match x:
        case {"y": (0 as y) | (1 as y)}:
            return y
    match x:
        case [z] | [1, (0 | 1 as z)] | [z]:
            return z


def star_annotations(Ts):
    def first(*args: *tuple[int]):
        pass

    def second(*args: *Ts, **rest: int) -> int:
        pass

    return first, second


def classes_that_end_in_arms(a, b):
    class One:
        x = 1
        if a:
            y = 2
        else:
            y = x

    class Two:
        if a:
            y = 2
        elif b:
            y = 3
        z = 4

    return One, Two
