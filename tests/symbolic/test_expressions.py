"""The room `symbolic` against Python's own arithmetic, and against sympy's algebra.

An operation is captured at one pair of values and looked at from others: where its decisions hold, Python must do the
same there, and its value must be the expression's, bit for bit."""

import itertools
import math
import operator
import random
import struct

import pytest
import sympy

from pellucid import _core

Space, Program, FUNCTIONS = _core._symbolic.Space, _core._symbolic.Program, _core._symbolic.FUNCTIONS

LEAST, MOST = -(2**63), 2**63 - 1
INTS = [
    0,
    1,
    -1,
    2,
    -2,
    3,
    7,
    -7,
    10,
    63,
    64,
    1023,
    2**31,
    2**53 - 1,
    2**53,
    2**53 + 1,
    -(2**53) - 1,
    3**39,
    2**62,
    MOST - 1,
]
INTS += [MOST, LEAST, LEAST + 1]
FLOATS = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.5,
    -2.5,
    3.0,
    -3.0,
    0.1,
    1e-300,
    5e-324,
    -5e-324,
    1e16,
    2.0**53,
    2.0**53 + 2,
    2.0**63,
]
FLOATS += [-(2.0**63), 1e22, 1e300, 1.7976931348623157e308, math.inf, -math.inf, math.nan]
NUMBERS = INTS + FLOATS

BINARY = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "min": min,
    "max": max,
}
UNARY = {
    "+": operator.pos,
    "-": operator.neg,
    "abs": abs,
    "float": float,
    "int": int,
    "math.floor": math.floor,
    "math.ceil": math.ceil,
}
COMPARISONS = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
}


def same(a, b):
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        # NaN is NaN: which of them an operation gives is the processor's matter.
        return (a != a and b != b) or struct.pack("d", a) == struct.pack("d", b)
    return a == b


def python(function, *values):
    """What Python gives, or the exception's type."""
    if (
        function is operator.pow
        and type(values[0]) is type(values[1]) is int
        and values[1] > 2000
        and abs(values[0]) > 1
    ):
        return 2**2000  # too large to be computed here, and anyway
    try:
        return function(*values)
    except (ArithmeticError, ValueError) as error:
        return type(error)


def is_number(value):
    return type(value) is float or (type(value) is int and LEAST <= value <= MOST)


def sayable(function, result, values):
    """Whether an operation with this result is one that the room says."""
    kinds = {type(value) for value in values}
    if not is_number(result):
        return False
    if function in (min, max):
        return len(kinds) == 1
    if function is operator.pow:
        return math.isfinite(result) and (float in kinds or values[1] >= 0)
    if function is operator.truediv and kinds == {int}:
        return all(abs(value) <= 2**53 for value in values)
    return True


def text(expr):
    return expr.text(["a", "b", "c", "d"])


def evaluated(expr, *values):
    """Python's value of the text."""
    return eval(text(expr), {"math": math}, dict(zip("abcd", values)))


def check_capture(space, expr, function, values, others):
    """`expr` is function(*values) in a space that has nothing else."""
    expected = python(function, *values)
    program = Program(space.decisions())
    assert same(expr.hint, expected)
    assert same(evaluated(expr, *values), expected)
    assert program.holds(values)
    for other in others:
        if [type(v) for v in other] != [type(v) for v in values]:
            continue
        result = python(function, *other)
        if program.holds(other):
            assert not isinstance(result, type), (function, values, other)
            assert type(result) is type(expected)
            value = expr.evaluate(other)
            assert (value is not None) == sayable(function, result, other)
            if value is not None:
                assert same(value, result), (function, values, other)
                assert same(evaluated(expr, *other), result)
        else:
            assert not sayable(function, result, other), (function, values, other)


@pytest.mark.parametrize("sign", BINARY)
def test_binary_operations_are_pythons(sign):
    function, draw = BINARY[sign], random.Random(sign)
    pairs = list(itertools.product(NUMBERS, repeat=2))
    for values in pairs:
        space = Space()
        expr = space.binary(sign, *map(space.symbol, values))
        result = python(function, *values)
        assert (expr is not None) == sayable(function, result, values), (values, result)
        if expr is None:
            assert space.decisions() == []
        else:
            check_capture(space, expr, function, values, draw.sample(pairs, 40))


@pytest.mark.parametrize("name", UNARY)
def test_unary_operations_are_pythons(name):
    for value in NUMBERS:
        space = Space()
        expr = space.unary(name, space.symbol(value))
        result = python(UNARY[name], value)
        assert (expr is not None) == is_number(result), value
        if expr is not None:
            check_capture(space, expr, UNARY[name], (value,), [(other,) for other in NUMBERS])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_math_functions_are_pythons(name):
    function = getattr(math, name)
    numbers = [*NUMBERS, 0.25, 0.9999, 1.0001, 20.0, 171.0, 709.0, 710.0, -745.0, -746.0, 1e-8, 1e-310]
    for value in numbers:
        space = Space()
        expr = space.math(name, space.symbol(value))
        result = python(function, value)
        finite = type(result) is float and math.isfinite(result)
        assert (expr is not None) == finite, value
        if expr is None:
            continue
        program = Program(space.decisions())
        for other in numbers:
            if type(other) is type(value):
                result = python(function, other)
                assert program.holds([other]) == (type(result) is float and math.isfinite(result)), (value, other)
                assert not program.holds([other]) or same(expr.evaluate([other]), result)
                assert not program.holds([other]) or same(evaluated(expr, other), result)


@pytest.mark.parametrize("sign", COMPARISONS)
def test_comparisons_are_pythons(sign):
    function, draw = COMPARISONS[sign], random.Random(sign)
    pairs = list(itertools.product(NUMBERS, repeat=2))
    for values in pairs:
        space = Space()
        condition = space.compare(sign, *map(space.symbol, values))
        truth = space.decide(condition)
        assert truth == function(*values)
        program = Program(space.decisions())
        assert program.holds(values)
        assert all(evaluated(decision, *values) is True for decision in space.decisions())
        for other in draw.sample(pairs, 40):
            if [type(v) for v in other] == [type(v) for v in values]:
                agrees = function(*other) == truth
                # A difference of ints may leave 64 bits.
                near = all(type(v) is float or abs(v) < 2**62 for v in other)
                assert program.holds(other) == agrees or (agrees and not near), (values, other)
                assert all(evaluated(decision, *other) for decision in space.decisions()) == agrees


def test_constants_compare_as_symbols_do():
    for a, b in itertools.product(NUMBERS, repeat=2):
        for sign, function in COMPARISONS.items():
            space = Space()
            assert space.decide(space.compare(sign, space.constant(a), space.constant(b))) == function(a, b)
            assert space.decisions() == []
            symbol = space.symbol(a)
            assert space.decide(space.compare(sign, symbol, space.constant(b))) == function(a, b)
            assert Program(space.decisions()).holds([a])


@pytest.mark.parametrize("value", NUMBERS)
def test_a_fixed_number_is_itself(value):
    space = Space()
    assert same(space.fix(space.symbol(value)), value)
    program = Program(space.decisions())
    for other in NUMBERS:
        if type(other) is type(value):
            assert program.holds([other]) == same(other, value)
            assert all(evaluated(decision, other) for decision in space.decisions()) == same(other, value)


def random_expressions(draw, space, symbols, count):
    """Some operations on what was there before."""
    pool = [*symbols, *(space.constant(draw.choice([-3, -1, 0, 1, 2, 5, 0.5, -2.0, 3])) for _ in range(3))]
    for _ in range(count):
        kind = draw.random()
        if kind < 0.75:
            made = space.binary(draw.choice(list(BINARY)), draw.choice(pool), draw.choice(pool))
        elif kind < 0.95:
            made = space.unary(draw.choice(list(UNARY)), draw.choice(pool))
        else:
            made = space.math(draw.choice(FUNCTIONS), draw.choice(pool))
        if made is not None:
            pool.append(made)
        if draw.random() < 0.2:
            space.decide(space.compare(draw.choice(list(COMPARISONS)), draw.choice(pool), draw.choice(pool)))
    return pool


@pytest.mark.parametrize("seed", range(150))
def test_the_text_of_an_expression_is_its_value(seed):
    draw = random.Random(seed)

    def values():
        return [draw.randint(-9, 30), draw.choice(INTS), draw.choice(FLOATS[:-3]), draw.uniform(-5, 5)]

    space, hints = Space(), values()
    pool = random_expressions(draw, space, [space.symbol(hint) for hint in hints], 12)
    program = Program(space.decisions())
    assert program.holds(hints)
    for others in [hints, *([draw.randint(-9, 30), hints[1], hints[2], draw.uniform(-5, 5)] for _ in range(20))]:
        conditions = [Program([decision]).holds(others) for decision in space.decisions()]
        assert program.holds(others) == all(conditions)
        if not all(conditions):
            continue
        for decision in space.decisions():
            assert evaluated(decision, *others) is True, text(decision)
        for expr in pool:
            value = expr.evaluate(others)
            if value is not None:
                assert same(evaluated(expr, *others), value), (text(expr), others)
            simpler = space.simplify(expr).evaluate(others)
            assert value is None or simpler is None or same(simpler, value), (text(expr), others)


@pytest.mark.parametrize("seed", range(60))
def test_polynomials_are_one_where_sympy_says_so(seed):
    draw, space = random.Random(seed), Space()
    names = sympy.symbols("a b c", integer=True)
    pool = [(space.symbol(draw.randint(-4, 20)), name) for name in names]
    pool += [(space.constant(number), sympy.Integer(number)) for number in (-2, 1, 3)]
    for _ in range(25):
        sign = draw.choice("+-*")
        (a, left), (b, right) = draw.choice(pool), draw.choice(pool)
        made = space.binary(sign, a, b)
        if made is not None and len(text(made)) < 200:
            pool.append((made, sympy.expand(BINARY[sign](left, right))))
    for (a, left), (b, right) in itertools.combinations(pool, 2):
        assert (a.id == b.id) == (left == right)
        # What sympy finds constant, or without a sign change, has no decision.
        difference = sympy.expand(left - right)
        if difference.is_number:
            assert space.prove(space.compare("<", a, b)) is bool(difference < 0)
            assert space.prove(space.compare("==", a, b)) is bool(difference == 0)
    for expr, formula in pool:
        assert sympy.expand(sympy.sympify(text(expr), locals=dict(zip("abc", names))) - formula) == 0


@pytest.mark.parametrize("seed", range(60))
def test_quotients_of_polynomials_are_what_sympy_gives(seed):
    draw, space = random.Random(seed), Space()
    hints = [draw.randint(1, 12) for _ in range(3)]
    symbols = [space.symbol(hint) for hint in hints]

    def polynomial():
        expr = space.constant(draw.choice([0, 0, 1, 4, 6]))
        terms = []
        for _ in range(draw.randint(1, 3)):
            term = space.constant(draw.choice([1, 2, 4, 8, -4]))
            for _ in range(draw.randint(0, 2)):
                term = space.binary("*", term, draw.choice(symbols))
            terms.append(term)
        for term in terms:
            expr = space.binary("+", expr, term)
        return expr

    def monomial():
        term = space.constant(draw.choice([1, 2, 4, -2, 3]))
        return space.binary("*", term, draw.choice(symbols)) if draw.random() < 0.6 else term

    dividend, divisor = polynomial(), monomial()
    for sign in ("//", "%"):
        quotient = space.binary(sign, dividend, divisor)
        if quotient is None:
            assert divisor.hint == 0
            continue
        for values in draw.sample(list(itertools.product(range(-4, 9), repeat=3)), 150):
            divisor_value = divisor.evaluate(values)
            if divisor_value == 0:
                continue
            whole = sympy.floor(sympy.Rational(dividend.evaluate(values), divisor_value))
            expected = whole if sign == "//" else dividend.evaluate(values) - divisor_value * whole
            assert quotient.evaluate(values) == expected, (text(dividend), text(divisor), values)


def test_a_proof_needs_no_record():
    space = Space()
    n, m = space.symbol(8, least=2), space.symbol(8, least=2)
    zero, eight = space.constant(0), space.constant(8)
    assert space.decide(space.compare("!=", space.binary("*", n, m), zero)) is True
    assert space.decide(space.compare("==", n, m)) is True
    assert space.decide(space.compare("<=", space.binary("+", n, n), space.binary("+", m, m))) is True
    assert space.decide(space.compare("==", space.binary("%", n, eight), zero)) is True
    mark = space.mark()
    assert space.prove(space.compare("==", space.binary("%", m, space.constant(4)), zero)) is True
    assert space.prove(space.compare("==", n, eight)) is None
    assert space.fix(m) == 8
    assert space.prove(space.compare("==", n, eight)) is True
    assert [d.text(["n", "m"]) for d in space.decisions()] == ["n == m", "n % 8 == 0", "m == 8"]
    space.truncate(mark)
    assert space.prove(space.compare("==", n, eight)) is None


def test_conditions_together():
    space = Space()
    n = space.symbol(5)
    low, high = (space.compare(sign, n, space.constant(number)) for sign, number in ((">", 2), ("<", 9)))
    between = space.logical_and(low, high)
    assert space.decide(space.logical_not(between)) is False
    assert space.prove(low) is True and space.prove(space.logical_not(high)) is False
    assert space.prove(space.logical_or(space.compare("==", n, space.constant(10)), low)) is True
    assert [text(d) for d in space.decisions()] == ["a >= 3 and a <= 8"]
    program = Program(space.decisions())
    assert [n for n in range(12) if program.holds([n])] == [3, 4, 5, 6, 7, 8]
