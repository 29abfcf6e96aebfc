"""What Python computes with numbers: large, negative, of other types, not finite, and divided by zero."""

from __future__ import annotations

import math
import operator

from corpus.table import program, ramp


@program(2, now=3)
def product_beyond_64_bits():
    def f(x, n):
        return x + 1, n * n, n * 4 + 1

    for n in (3, 5, 2**31, 2**32, 2**33, 2**62, 2**63, 7, -(2**63), 9):
        yield f, ramp(3), n


@program(2, now=5)
def counter_that_doubles():
    state = {"n": 2**58}

    def f(x):
        state["n"] *= 2
        return x * 2, state["n"]

    for _ in range(8):
        yield f, ramp(3)


@program(2, now=3)
def large_number_times_a_tensor():
    def f(x, n):
        return x * n, x + n

    for n in (3, 2**40, 2**53 + 1, 2**63 - 1, 2**63, 2**70, -(2**63), 5):
        yield f, ramp(3), n


@program(2, now=2)
def int_tensor_and_large_numbers():
    def f(x, n):
        return x * n + n

    for n in (3, 2**31, 2**40, 2**62, 2**63 - 1, -(2**63), 5):
        yield f, ramp(3).long(), n


@program(2, now=3)
def floor_division_and_remainder_of_negatives():
    def f(x, n, m):
        return x * (n // m), n % m, divmod(n, m), -n // m, -n % m

    for n, m in ((7, 3), (-7, 3), (7, -3), (-7, -3), (0, 5), (-1, 8), (9, 4)):
        yield f, ramp(3), n, m


@program(2, now=7)
def floor_division_and_remainder_of_floats():
    def f(x, a, b):
        return x * (a // b), a % b, divmod(a, b), math.fmod(a, b)

    for a, b in ((7.5, 2.0), (-7.5, 2.0), (7.5, -2.0), (-7.5, -2.0), (0.0, 3.0), (-0.0, 3.0), (1e300, 1e-3)):
        yield f, ramp(3), a, b


@program(2, now=4)
def division_by_zero_in_some_calls():
    def f(x, n, m):
        return x * (n / m), n // m

    for n, m in ((6, 3), (7, 2), (5, 0), (4, 4), (0, 0), (9, 5), (1, 0)):
        yield f, ramp(3), n, m


@program(2, now=2)
def division_by_zero_that_is_caught():
    def f(x, a, b):
        try:
            ratio = a / b
        except ZeroDivisionError as error:
            return x, str(error)
        return x * ratio, "fine"

    for a, b in ((6.0, 3.0), (7.0, 2.0), (5.0, 0.0), (4.0, 4.0), (1.0, -0.0), (9.0, 5.0)):
        yield f, ramp(3), a, b


@program(2, now=2)
def division_of_a_tensor_by_zero():
    def f(x, n):
        return x / n, x // n

    for n in (3, 2, 0, 4, 0, -1, 5):
        yield f, ramp(3), n


@program(5, now=6, why="each of the three types, True and False")
def types_that_change():
    def f(x, n):
        return x * n, n + 1, n

    for n in (2, 3, 2.5, 3.5, True, 4, 4.5, False, True, 1, 1.0):
        yield f, ramp(3), n


@program(3, now=8, why="int and float, and the first call")
def equal_numbers_of_other_types():
    def f(x, n):
        return x + n, n * 2

    for n in (1, 1.0, 2, 2.0, 3, 3.0, 4, 4.0):
        yield f, ramp(3).long(), n


@program(3, now=5, why="what is not a number is a value")
def infinities_and_nan():
    def f(x, a):
        return x * a, a + 1, a

    for a in (1.5, 2.5, math.inf, -math.inf, math.nan, 3.5, math.inf, math.nan, 4.5):
        yield f, ramp(3), a


@program(2, now=2)
def zeros_of_both_signs():
    def f(x, a):
        return x * a, a, -a, math.copysign(1.0, a)

    for a in (1.0, 0.0, -0.0, 2.0, -0.0, 0.0, -3.0):
        yield f, ramp(3), a


@program(2, now=2)
def sums_that_leave_the_finite():
    def f(x, a):
        return x + 1, a * 1e200, a * 1e200 - a * 1e200

    for a in (1.0, 1e50, 1e100, 1e150, -1e200, 2.0, 0.0):
        yield f, ramp(3), a


@program(2, now=2)
def rounded():
    def f(x, a):
        return x * round(a), round(a, 1), round(a, 2)

    for a in (0.5, 1.5, 2.5, -0.5, 2.675, 1e15 + 0.3, -7.25, 0.05):
        yield f, ramp(3), a


@program(2, now=2)
def rounded_ints():
    def f(x, n):
        return x * round(n), round(n, -1), round(n, -2)

    for n in (5, 15, 25, 149, 150, -5, -15, 250):
        yield f, ramp(3), n


@program(2, now=2)
def absolute_values():
    def f(x, n, a):
        return x * abs(n), abs(a), -n, +a, ~n

    for n, a in ((3, 1.5), (-3, -1.5), (0, -0.0), (-8, 2.5), (5, -9.0), (-1, 0.0)):
        yield f, ramp(3), n, a


@program(2, now=3)
def smallest_and_largest():
    def f(x, n, a):
        return x * min(n, 4), max(n, 4), min(n, 2, 7), max(a, 0.5), min([n, 6])

    for n, a in ((3, 1.5), (5, 0.25), (1, 0.5), (9, 3.0), (4, -1.0), (2, 0.75), (6, 8.0)):
        yield f, ramp(3), n, a


@program(2, now=4)
def smallest_of_two_types():
    def f(x, n, a):
        return x * 2, max(n, a), min(n, a)

    for n, a in ((3, 1.5), (1, 2.5), (2, 2.0), (2, 1.0), (5, 5.0), (0, -0.0)):
        yield f, ramp(3), n, a


@program(3, now=4, why="a negative exponent gives a float")
def powers():
    def f(x, n, e):
        return x * 2, n**e, pow(n, e)

    for n, e in ((3, 2), (2, 5), (7, 0), (2, -1), (-3, 3), (4, -2), (10, 6)):
        yield f, ramp(3), n, e


@program(2, now=2)
def powers_of_floats():
    def f(x, a, b):
        return x * a**b, a**2, 2**b, b**0.5

    for a, b in ((1.5, 2.0), (0.5, 3.0), (2.0, 0.5), (9.0, 1.5), (0.25, 4.0), (3.0, 0.0)):
        yield f, ramp(3), a, b


@program(2, now=6)
def conversions():
    def f(x, n, a):
        return x * float(n), int(a), float(n), int(n), bool(n) + 1

    for n, a in ((3, 1.5), (2, -1.5), (7, 2.999), (5, -0.5), (4, 1e10), (9, 12.0)):
        yield f, ramp(3), n, a


@program(2, now=4)
def conversions_that_raise():
    def f(x, a):
        return x * int(a)

    for a in (1.5, 2.5, math.inf, 3.5, math.inf, -2.5, 4.5):
        yield f, ramp(3), a


@program(2, now=2)
def floors_and_ceilings():
    def f(x, a):
        return x * math.floor(a), math.ceil(a), math.trunc(a), int(a)

    for a in (1.5, -1.5, 2.0, -2.0, 0.25, -0.25, 1e16):
        yield f, ramp(3), a


@program(2, now=7)
def functions_of_math():
    def f(x, a):
        return x * math.sqrt(a), math.log(a), math.exp(-a), math.atan2(a, 2), math.hypot(a, 3), math.pow(a, 1.5)

    for a in (1.5, 2.5, 0.5, 4.0, 9.0, 7.25, 3.0):
        yield f, ramp(3), a


@program(2, now=4)
def functions_of_math_that_raise():
    def f(x, a):
        return x * math.sqrt(a), math.log(a)

    for a in (1.5, 2.5, -1.0, 4.0, -9.0, 7.25, 3.0):
        yield f, ramp(3), a


@program(2, now=2)
def true_division_of_ints():
    def f(x, n, m):
        return x * (n / m), n / m, 1 / n

    for n, m in ((6, 3), (7, 2), (2**53 + 1, 2), (-7, 3), (1, 3), (10**18, 7), (3, 2**60)):
        yield f, ramp(3), n, m


@program(2, now=7)
def shifts_and_bits():
    def f(x, n, k):
        return x * (n & 7), n << k, n >> k, n | k, n ^ k

    for n, k in ((5, 1), (12, 2), (-7, 1), (9, 0), (1023, 5), (-1, 3), (6, 4)):
        yield f, ramp(3), n, k


@program(2, now=2)
def comparisons_returned():
    def f(x, n, m):
        return x + 1, n < m, n <= m, n == m, n != m, n > m

    for n, m in ((1, 2), (3, 5), (2, 9), (4, 7), (0, 1), (-3, 2), (5, 6)):
        yield f, ramp(3), n, m


@program(2, now=2)
def ints_compared_with_floats():
    def f(x, n, a):
        return x + 1, n < a, n == a, not n >= a

    for n, a in ((1, 2.5), (3, 5.0), (2, 2.5), (4, 7.25), (2**53, 2.0**53 + 2), (-3, 2.0)):
        yield f, ramp(3), n, a


@program(2, now=6)
def operators_as_functions():
    def f(x, n, m):
        return x * operator.add(n, m), operator.floordiv(n, m), operator.neg(n), operator.index(m), n.__add__(m)

    for n, m in ((6, 3), (7, 2), (-7, 3), (1, 4), (10, 7), (3, 5)):
        yield f, ramp(3), n, m


@program(6, now=6, why="a method of a number needs its value")
def methods_of_numbers():
    def f(x, n, a):
        return x * n.bit_length(), a.is_integer(), n.numerator, a.real, n.conjugate()

    for n, a in ((6, 3.5), (7, 2.0), (-70, 3.25), (1, 4.0), (1000, 7.5), (3, 5.0)):
        yield f, ramp(3), n, a


@program(2, now=2)
def chained_in_place():
    def f(x, n, a):
        n += 3
        n *= 2
        n -= 1
        a /= n
        a **= 2
        n //= 3
        return x * a, n, a

    for i in range(9):
        yield f, ramp(3), i, 1.5 + i


@program(2, now=2)
def comparisons_of_floats():
    def f(x, a, b):
        return x + 1, a < b, a == a, min(a, b), max(b, a)

    for a, b in ((1.0, 2.0), (2.0, 3.0), (0.5, 4.0), (1.5, 1.75), (-2.0, 0.0), (3.0, 8.0)):
        yield f, ramp(3), a, b


@program(2, now=7)
def error_of_a_number_and_a_text():
    def f(x, n):
        y = x * n
        try:
            return y, n + "a"
        except TypeError as error:
            return y, str(error), type(n).__name__

    for n in (1, 2, 3, 4, 5, 6, 7):
        yield f, ramp(3), n


@program(2, now=5)
def state_changed_before_an_error():
    state = {"calls": 0, "last": 1}

    def f(x, n):
        state["calls"] += 1
        y = x * state["calls"]
        state["last"] = 12 // n
        return y + state["last"]

    for n in (3, 4, 0, 2, 0, 5, 6, 1):
        yield f, ramp(3), n


@program(2, now=8)
def numbers_beyond_64_bits_only_kept():
    state = {"hash": 14695981039346656037}

    def f(x, n):
        state["hash"] = (state["hash"] ^ n) * 1099511628211 % 2**64
        return x.sin()

    for n in range(10):
        yield f, ramp(3), n
