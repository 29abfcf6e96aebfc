"""PYTEST_DONT_REWRITE

Exceptions: except*, groups, chaining, finally, context managers, generators that are thrown into."""

import contextlib

import pytest

from support.programs import Programs, check

PROGRAMS = program = Programs()


# ---- except* and groups


@program
def star_all_match(s, x):
    try:
        raise ExceptionGroup("g", [ValueError(1), ValueError(2)])
    except* ValueError as group:
        s.log.append([type(group).__name__, str(group), [str(e) for e in group.exceptions]])
    return x + 1


@program
def star_several_clauses(s, x):
    try:
        raise ExceptionGroup("g", [ValueError(1), TypeError(2), ExceptionGroup("inner", [KeyError(3), ValueError(4)])])
    except* ValueError as group:
        s.log.append(("value", str(group), [str(e) for e in group.exceptions]))
    except* (TypeError, KeyError) as group:
        s.log.append(("others", str(group), [type(e).__name__ for e in group.exceptions]))
    else:
        s.log.append("else")
    finally:
        s.log.append("finally")
    return x + 1


@program
def star_rest_goes_on(s, x):
    try:
        try:
            raise ExceptionGroup("g", [ValueError(1), OSError(2)])
        except* ValueError:
            s.log.append("value")
    except ExceptionGroup as rest:
        return str(rest), [repr(e) for e in rest.exceptions], x + 1


@program
def star_of_a_naked_exception(s, x):
    try:
        raise ValueError("naked")
    except* ValueError as group:
        s.log.append((type(group).__name__, str(group), [repr(e) for e in group.exceptions]))
    return x + 1


@program
def star_naked_no_match(s, x):
    try:
        try:
            raise KeyError("naked")
        except* ValueError:
            s.log.append("no")
    except KeyError as error:
        return repr(error), x + 1


@program
def star_nothing_raised(s, x):
    try:
        y = x + 1
    except* ValueError:
        y = x
    else:
        s.log.append("else")
    return y


@program.breaks
def star_handler_raises(s, x):
    try:
        try:
            raise ExceptionGroup("g", [ValueError(1), TypeError(2)])
        except* ValueError:
            raise KeyError("new")
    except ExceptionGroup as error:
        inner = error.exceptions
        return str(error), [type(e).__name__ for e in inner], type(inner[0].__context__).__name__, x + 1


@program
def star_two_handlers_raise(s, x):
    try:
        try:
            raise ExceptionGroup("g", [ValueError(1), TypeError(2), LookupError(3)])
        except* ValueError:
            raise KeyError("one")
        except* TypeError:
            raise IndexError("two") from None
    except ExceptionGroup as error:
        return str(error), [repr(e) for e in error.exceptions], x + 1


@program
def star_reraised(s, x):
    try:
        try:
            raise ExceptionGroup("g", [ValueError(1), TypeError(2)])
        except* ValueError:
            raise
        except* TypeError as e:
            s.log.append(str(e))
    except ExceptionGroup as error:
        return str(error), [repr(e) for e in error.exceptions], x + 1


@program.breaks
def star_naked_handler_raises(s, x):
    try:
        try:
            raise ValueError("naked")
        except* ValueError:
            raise KeyError("new")
    except BaseException as error:
        return type(error).__name__, str(error), type(error.__context__).__name__, x + 1


@program
def star_with_a_bad_type(s, x):
    out = []
    for kind in (int, ExceptionGroup, (ValueError, ExceptionGroup), (ValueError, 3)):
        try:
            try:
                raise ValueError(1)
            except* kind:
                pass
        except TypeError as error:
            out.append(str(error))
    return out, x + 1


@program
def star_in_a_loop(s, x):
    for i in range(3):
        try:
            raise ExceptionGroup("g", [ValueError(i), TypeError(i)])
        except* ValueError as g:
            x = x + g.exceptions[0].args[0]
        except* TypeError:
            x = x * 2
    return x


@program
def splitting_groups(s, x):
    group = ExceptionGroup("g", [ValueError(1), ExceptionGroup("h", [TypeError(2), ValueError(3)])])
    match, rest = group.split(ValueError)
    sub = group.subgroup((TypeError, KeyError))
    none = group.subgroup(OSError)
    return match, rest, sub, none, group.message, group.derive([KeyError(1)]), x + 1


@program
def splitting_by_a_function(s, x):
    group = ExceptionGroup("g", [ValueError(1), ExceptionGroup("h", [TypeError(2), ValueError(3)])])
    small, large = group.split(lambda e: isinstance(e, ValueError) and e.args[0] < 2)
    return small, large, group.subgroup(lambda e: False), x + 1


@program
def wrong_groups(s, x):
    out = []
    for make in (
        lambda: ExceptionGroup("g", []),
        lambda: ExceptionGroup("g", [1]),
        lambda: ExceptionGroup(1, [ValueError()]),
        lambda: ExceptionGroup("g", 3),
        lambda: ExceptionGroup("g", [KeyboardInterrupt()]),
    ):
        try:
            make()
        except (TypeError, ValueError) as error:
            out.append((type(error).__name__, str(error)))
    base = BaseExceptionGroup("g", [ValueError(1)])
    return out, type(base).__name__, x + 1


@program.breaks
def own_group_class(s, x):
    class Mine(ExceptionGroup):
        def derive(self, exceptions):
            s.log.append("derive")
            return Mine(self.message, exceptions)

    try:
        raise Mine("m", [ValueError(1), TypeError(2)])
    except* ValueError as group:
        s.log.append(type(group).__name__)
    except* TypeError as group:
        s.log.append(type(group).__name__)
    return x + 1


@program
def notes_and_groups(s, x):
    error = ValueError("v")
    error.add_note("one")
    error.add_note("two")
    return error.__notes__, x + 1


# ---- chaining, finally


@program.breaks
def chained(s, x):
    try:
        try:
            raise ValueError("first")
        except ValueError as error:
            raise KeyError("second") from error
    except KeyError as error:
        return type(error.__cause__).__name__, error.__suppress_context__, error.__context__ is error.__cause__, x + 1


@program.breaks
def implicit_context(s, x):
    try:
        try:
            {}["k"]
        except KeyError:
            [][0]
    except IndexError as error:
        return repr(error.__context__), error.__cause__, x + 1


@program.breaks
def from_none_and_from_class(s, x):
    out = []
    for cause in (None, OSError, OSError("o")):
        try:
            try:
                raise ValueError(1)
            except ValueError:
                raise KeyError(2) from cause
        except KeyError as error:
            out.append((repr(error.__cause__), error.__suppress_context__, repr(error.__context__)))
    return out, x + 1


@program
def bad_raises(s, x):
    out = []
    for bad in (1, "text", int, None, [ValueError]):
        try:
            raise bad
        except TypeError as error:
            out.append(str(error))
        try:
            raise ValueError from bad
        except TypeError as error:
            out.append(str(error))
        except ValueError as error:
            out.append(repr(error.__cause__))
    return out, x + 1


class WithInit(Exception):
    def __init__(self, log, text="default"):
        log.append("made")
        super().__init__(text)


@program
def raise_class_with_python_init(s, x):
    class Made(Exception):
        def __init__(self):
            s.log.append("made")
            super().__init__("made here")

    out = []
    try:
        raise Made
    except Made as error:
        out.append(str(error))
    try:
        raise Made from KeyError("cause")
    except Made as error:
        out.append(repr(error.__cause__))
    try:
        raise ValueError from Made
    except ValueError as error:
        out.append(repr(error.__cause__))
    return out, x + 1


@program.breaks
def reraise_without_exception(s, x):
    try:
        raise
    except RuntimeError as error:
        return str(error), x + 1


@program
def raise_class_that_makes_something_else(s, x):
    class Odd(Exception):
        def __new__(cls):
            return 5

    out = []
    for f in (lambda: raising(Odd), lambda: raising_from(Odd)):
        try:
            f()
        except TypeError as error:
            out.append(str(error)[-75:])
    return out, x + 1


def raising(kind):
    raise kind


def raising_from(kind):
    raise kind from None


@program
def finally_overrides(s, x):
    def returns():
        try:
            return "try"
        finally:
            return "finally"

    def swallows():
        try:
            raise ValueError
        finally:
            return "swallowed"

    def loops():
        for i in range(5):
            try:
                continue
            finally:
                if i == 2:
                    break
        return i

    def order():
        out = []
        try:
            try:
                out.append(1)
                raise ValueError
            except ValueError:
                out.append(2)
                return out
            finally:
                out.append(3)
        finally:
            out.append(4)

    return returns(), swallows(), loops(), order(), x + 1


@program
def exception_variable_is_deleted(s, x):
    try:
        raise ValueError(1)
    except ValueError as error:
        kept = error
    try:
        error  # noqa: F821
    except UnboundLocalError as e:
        return str(e), kept.args, x + 1


@program
def exception_matching(s, x):
    out = []
    for error in (
        KeyError(1),
        IndexError(2),
        OSError(3),
        FileNotFoundError(2, "no"),
        StopIteration(4),
        ZeroDivisionError(),
    ):
        try:
            raise error
        except (KeyError, IndexError) as e:
            out.append(("lookup", e.args))
        except OSError as e:
            out.append(("os", e.args, e.errno))
        except Exception as e:
            out.append(("other", e.args))
    return out, x + 1


@program.breaks
def bad_except_clauses(s, x):
    out = []
    for kind in (1, (ValueError, 2), "text", int):
        try:
            try:
                raise ValueError("v")
            except kind:
                out.append("caught")
        except TypeError as error:
            out.append((str(error), repr(error.__context__)))
    return out, x + 1


@program
def metaclass_does_not_matter_for_except(s, x):
    class Meta(type):
        def __instancecheck__(cls, other):
            return True

        def __subclasscheck__(cls, other):
            return True

    class Odd(Exception, metaclass=Meta):
        pass

    try:
        try:
            raise ValueError("v")
        except Odd:
            return "wrong"
    except ValueError:
        return "right", x + 1


@program
def stop_iteration_in_generator(s, x):
    def g():
        yield 1
        raise StopIteration("inner")

    try:
        list(g())
    except RuntimeError as error:
        return str(error), repr(error.__cause__), x + 1


@program
def assertions(s, x):
    out = []
    for true in (lambda: 1 == 1, lambda: 1 == 2):
        try:
            assert true(), "message"
            out.append("fine")
        except AssertionError as error:
            out.append(str(error))
    return out, x + 1


@program
def error_messages(s, x):
    out = []
    for f in (
        lambda: 1 + "a",
        lambda: "a" + 1,
        lambda: [] + (),
        lambda: None.thing,
        lambda: s.n[0],
        lambda: {}["missing"],
        lambda: [][3],
        lambda: ()[1],
        lambda: "abc"[9],
        lambda: 1 / 0,
        lambda: 1 % 0,
        lambda: 1.0 // 0,
        lambda: 2**-1 << 1,
        lambda: int("x"),
        lambda: float("y"),
        lambda: len(5),
        lambda: iter(5),
        lambda: next(5),
        lambda: s.n(),
        lambda: [1, 2] < [1, "a"],
        lambda: 1 < "a",
        lambda: -"a",
        lambda: ~1.5,
        lambda: {[]: 1},
        lambda: {1: 2}[[]],
        lambda: {[]},
        lambda: hash([]),
        lambda: hash(([],)),
        lambda: "a" in 5,
        lambda: 5 in "abc",
        lambda: (lambda a: a)(),
        lambda: (lambda a: a)(1, 2),
        lambda: (lambda *, a: a)(),
        lambda: (lambda a, b, c: a)(),
        lambda: (lambda a: a)(b=1),
        lambda: (lambda a: a)(1, a=1),
        lambda: (lambda **k: k)(**{1: 2}),
        lambda: (lambda **k: k)(**{"a": 1}, **{"a": 2}),
        lambda: int.nothing,
        lambda: s.nothing,
        lambda: s.n.nothing,
        lambda: "%d" % "a",
        lambda: "{}".format(),  # noqa: F524
        lambda: "{x}".format(),  # noqa: F524
        lambda: range(1, 2, 0),
        lambda: [1, 2, 3].index(9),
        lambda: [].pop(),
        lambda: [1].remove(2),
        lambda: {}.popitem(),
        lambda: set().pop(),
        lambda: {1}.remove(2),
        lambda: {"a": 1}.pop("b"),
        lambda: sum(["a"]),
        lambda: max([]),
        lambda: chr(-1),
        lambda: "".join([1]),
        lambda: [1, 2, 3][1:2:0],
        lambda: isinstance(1, 2),
        lambda: issubclass(1, int),
        lambda: getattr(1, "zz"),
        lambda: divmod(1, 0),
        lambda: pow(2, -1, 4),
        lambda: round("a"),
        lambda: abs("a"),
        lambda: reversed(5),
        lambda: list(zip([1], [1, 2], strict=True)),
        lambda: complex("x"),
        lambda: bytes([300]),
        lambda: ord("ab"),
        lambda: undefined_name,  # noqa: F821
    ):
        try:
            out.append(("value", f()))
        except Exception as error:
            out.append((type(error).__name__, str(error), error.args))
    return out, x + 1


# ---- with


class Manager:
    def __init__(self, log, name, swallow=False, fails=None):
        self.log = log
        self.name = name
        self.swallow = swallow
        self.fails = fails

    def __enter__(self):
        self.log.append("enter " + self.name)
        if self.fails == "enter":
            raise OSError("enter")
        return self

    def __exit__(self, kind, value, traceback):
        self.log.append(("exit " + self.name, kind.__name__ if kind else None, str(value)))
        if self.fails == "exit":
            raise OSError("exit")
        return self.swallow


@program.breaks
def with_statements(s, x):
    out = []
    with Manager(s.log, "a") as a, Manager(s.log, "b"):
        out.append(a.name)
    with Manager(s.log, "c", swallow=True):
        raise ValueError("inside")
    try:
        with Manager(s.log, "d", fails="exit"):
            raise ValueError("first")
    except OSError as error:
        out.append((str(error), repr(error.__context__)))
    try:
        with Manager(s.log, "outer", swallow=True), Manager(s.log, "e", fails="enter"):
            pass
    except OSError as error:
        out.append(str(error))
    for i in range(2):
        with Manager(s.log, f"loop{i}"):
            if i == 0:
                continue
            break
    return out, x + 1


@program
def with_wrong_objects(s, x):
    class NoExit:
        def __enter__(self):
            return self

    out = []
    for bad in (5, NoExit()):
        try:
            with bad:
                out.append("in")
        except TypeError as error:
            out.append(str(error))
    return out, x + 1


@program
def exit_result_by_bool(s, x):
    class Truthy:
        def __bool__(self):
            s.log.append("bool")
            return True

    class M:
        def __enter__(self):
            return self

        def __exit__(self, *args):
            return Truthy()

    with M():
        raise ValueError
    return x + 1


@program
def contextmanagers(s, x):
    @contextlib.contextmanager
    def managed(name, swallow=False):
        s.log.append("enter " + name)
        try:
            yield name
        except ValueError as error:
            s.log.append(repr(error))
            if not swallow:
                raise
        finally:
            s.log.append("exit " + name)

    with managed("a") as a:
        s.log.append(a)
    with managed("b", swallow=True):
        raise ValueError("b")
    try:
        with managed("c"):
            raise ValueError("c")
    except ValueError as error:
        s.log.append(str(error))
    with contextlib.suppress(KeyError, IndexError):
        {}["z"]
    with contextlib.nullcontext(5) as five:
        s.log.append(five)
    return x + 1


@program.breaks
def exit_stacks(s, x):
    with contextlib.ExitStack() as stack:
        stack.enter_context(Manager(s.log, "in stack"))
        stack.callback(s.log.append, "callback")
    return x + 1


# ---- generators


@program
def throw_into_generators(s, x):
    def g():
        while True:
            try:
                value = yield x + 1
                s.log.append(value)
            except ValueError as error:
                s.log.append(repr(error))
                yield "handled"

    it = g()
    first = next(it)
    out = [it.throw(ValueError("in")), it.send("after")]
    try:
        it.throw(KeyError("out"))
    except KeyError as error:
        out.append(repr(error))
    try:
        next(it)
    except StopIteration:
        out.append("done")
    return first, [o if isinstance(o, str) else "tensor" for o in out]


@program
def throw_through_delegation(s, x):
    def inner():
        try:
            got = yield 1
            s.log.append(("got", got))
            yield 2
        except ValueError as error:
            s.log.append(repr(error))
            yield "handled inside"
        finally:
            s.log.append("inner finally")
        return "inner result"

    def outer():
        try:
            result = yield from inner()
            s.log.append(result)
            yield "after"
        finally:
            s.log.append("outer finally")

    it = outer()
    out = [next(it), it.send("sent"), it.throw(ValueError("v")), next(it)]
    it.close()
    it = outer()
    next(it)
    it.close()
    it = outer()
    next(it)
    try:
        it.throw(KeyError("k"))
    except KeyError as error:
        out.append(repr(error))
    return out, x + 1


@program
def delegation_to_plain_iterators(s, x):
    def g():
        r = yield from [1, 2]
        s.log.append(r)
        yield from range(2)
        yield from "ab"
        yield from (v * 2 for v in (x, 3))

    it = g()
    out = [next(it)]
    try:
        it.throw(ValueError("into a list iterator"))
    except ValueError as error:
        out.append(str(error))
    rest = list(g())
    it = g()
    next(it)
    it.close()
    try:
        it = g()
        next(it)
        it.send(5)
    except AttributeError as error:
        out.append(str(error))
    return out, rest


@program
def delegation_to_own_iterators(s, x):
    class It:
        def __init__(self):
            self.n = 0

        def __iter__(self):
            return self

        def __next__(self):
            self.n += 1
            if self.n > 3:
                raise StopIteration("result")
            return self.n

        def send(self, value):
            s.log.append(("send", value))
            return value

        def throw(self, *args):
            s.log.append(("throw", [repr(a) for a in args]))
            return "thrown"

        def close(self):
            s.log.append("close")

    def g():
        r = yield from It()
        yield r

    it = g()
    out = [next(it), it.send("v"), it.throw(ValueError("e")), next(it), next(it), next(it)]
    it = g()
    next(it)
    it.close()
    return out, x + 1


@program
def close_in_many_states(s, x):
    def g(swallow):
        try:
            yield 1
        except GeneratorExit:
            s.log.append("exit")
            if swallow == "yield":
                yield 2
            if swallow == "raise":
                raise ValueError("in close") from None
            if swallow == "return":
                return
            raise

    out = []
    for how in ("plain", "yield", "raise", "return"):
        it = g(how)
        next(it)
        try:
            out.append(it.close())
        except (RuntimeError, ValueError) as error:
            out.append(repr(error))
        out.append(it.close())
    fresh = g("plain")
    fresh.close()
    try:
        next(fresh)
    except StopIteration:
        out.append("stopped")
    return out, x + 1


@program.breaks
def generator_attributes(s, x):
    def g():
        yield x

    it = g()
    return it.__name__, it.__qualname__, it.gi_running, x + 1


@program
def generator_is_running(s, x):
    def g():
        try:
            next(it)
        except ValueError as error:
            yield str(error)

    it = g()
    return next(it), x + 1


@program
def generator_misuse(s, x):
    def g():
        yield 1

    out = []
    it = g()
    for f in (
        lambda: it.send(1),
        lambda: it.throw(1),
        lambda: it.throw(ValueError, "text"),
        lambda: it.throw(KeyError),
    ):
        try:
            out.append(f())
        except Exception as error:
            out.append(repr(error))
    return out, x + 1


@pytest.mark.parametrize("f", PROGRAMS, ids=PROGRAMS.names)
def test_same_as_eager(f):
    check(f)
