"""Expressions of the programs, by type: templates with holes.

    {int}      an expression of that type               {int!}   a name (or attribute) of that type
    {^int}     the same, outside of the names that this template binds       <i:int>  binds a new name inside the template

Types: int float bool str, T (a float tensor of 2 x 3), V (of 3), I (integers, 2 x 3), R (a float tensor of any
number of rows x 3), rate (a float that changes between calls), lint lT (lists), dsi dsT (dicts from texts),
sint (a set), tint (a tuple of three ints), obj (an instance of one of the program's classes), fint (a function of one int), fT (of one T).
Names in capitals after a "|" say what a program must allow for it: BREAK (needs tensor values or prints), WRONG (likely to raise), RARE,
FAILS (an operator that fails on its values).
"""

import tensors

INT = """
{int} + {int}
{int} - {int}
{int} * 3
({int} * {int}) % 97
{int} // 2
{int} % 5
{int} // {int} |WRONG
{int} ** 2 % 1001
-{int}
~{int}
{int} & 12 | {int}
{int} ^ 5
{int} << 2
abs({int})
len({lint})
len({lT})
len({dsi})
len({sint})
len({str})
len({obj})
{lint}[-1] |WRONG
{lint}[{int}] |WRONG
{lint}[{int} % 7] if len({lint}) > 6 else {int}
{tint}[{int} % 3]
{dsi}.get({str}, {int})
{dsi}.get("a", {int})
{dsi}["a"] |WRONG
{dsi}.setdefault({str}, {int})
{dsi}.pop("b", {int})
{lint!}.pop() |WRONG
{lint}.count({int})
{lint}.index({int}) |WRONG
sum({lint})
sum({dsi}.values())
max({int}, {int})
min({lint}, default={int})
max({lint}, key=lambda <i:int>: -{i}, default=4)
({int} if {bool} else {int})
({bool} and {int}) or {int}
{T}.shape[{bool}]
{T}.dim()
{T}.numel()
{T}.size(-1)
{T}.stride(0)
{V}.stride()[0]
{V}.storage_offset() |BREAK
len({T})
{T}.ndim
{obj}.count
{obj}.total
{obj}.bump({int})
{obj}({int})
{obj}[{int}]
getattr({obj}, "count")
getattr({obj}, "missing", {int})
{fint}({int})
{fint}({int})
int({bool})
int({float}) % 1000
int("12")
int({str}) |WRONG
round({float}) % 100
hash({int!}) % 100
next(iter({lint}), {int})
next((<i:int> for {i} in {^lint} if {bool}), {int})
sum(<i:int> * 2 for {i} in {^lint}[:5])
sum(<a:int> * <b:int> for {a}, {b} in zip({^lint}, {^lint}))
len(list(zip({lint}, {tint})))
len({{{int}, {int}, {int}}})
functools.reduce(lambda <a:int>, <b:int>: ({a} * 2 + {int}) % 97, {^lint}, 1)
(lambda <a:int>, <b:int>={^int}: {int})({^int})
(lambda *<r:tint>: len({r}))(*{lint})
math.prod({tint})
math.gcd({int}, {int})
divmod({int}, 7)[1]
operator.add({int}, {int})
ord("abc"[{int} % 3])
{str}.find("a")
{str}.count("a")
[{int}, {int}][{bool}]
({int}, {int})[1]
{{1: {int}, 2: {int}}}.get({int} % 3, 0)
G_INT
Config.level
Color(2).value
Color.RED.value
(COUNTER.get("x") or 0)
G_LIST[0] |WRONG
len({R})
{R}.shape[0]
{R}.numel()
{R}.size(0) // 2
{R}.shape[0] * {R}.shape[1]
{R!}.stride(0)
min(len({R}), {int})
int({rate}) + {int}
{T}.sum().item() > 0 |BREAK
int({T}.sum()) % 50 |BREAK
"""

FLOAT = """
{int} / 2
{int} / {int} |WRONG
float({int})
{float} + {int}
{float} * 0.5
{float} - {float}
math.sqrt(abs({int}))
-{float}
abs({float})
round({float}, 2)
float("1.5")
{float} // 2
{float} % 3
sum({lint}) / 4
min({float}, {int})
{rate}
{rate}
{rate} * {float}
{rate} + {float}
{int} * {rate}
{rate} ** {int} |WRONG
max({rate}, {float})
math.exp(-{rate})
{rate} / ({int} ** 2 + 1)
"""

# Names of floats that change between calls.
RATE = """
rate
MODULE.rate
G_RATE[0]
"""

BOOL = """
{int} < {int}
{int} == {int}
{int} != 3
1 < {int} <= 8
{int} > {float}
{bool} and {bool}
{bool} or {bool}
not {bool}
{bool} ^ {bool}
{str} in {dsi}
{int} in {lint}
{int} not in {sint}
{int} in {obj}
"a" in {str}
bool({lint})
bool({obj})
{str} == {str}
{str} < {str}
{obj} is {obj}
{obj} == {obj}
{T} is {T}
{lint} is {lint}
{lint} == {lint}
{lint} < {lint}
{dsi} == {dsi}
{tint} == {tint}
{sint} <= {sint}
{T}.shape == (2, 3)
{R}.shape[0] > {int}
len({R}) % 2 == 0
{R}.shape == {R}.shape
{R}.is_contiguous()
{rate} > {float}
{rate} < 1
{T}.is_contiguous()
{T}.requires_grad
{T}.dtype == torch.float32
{I}.dtype is torch.int64
{T}.is_floating_point()
torch.is_tensor({T})
torch.is_grad_enabled()
isinstance({obj}, {cls})
isinstance({T}, torch.Tensor)
isinstance({int}, (int, str))
issubclass({cls}, {cls})
type({obj}) is {cls}
type({int}) is int
hasattr({obj}, "missing")
hasattr({obj}, "count")
callable({fint})
any(<i:int> > 2 for {i} in {^lint})
all({i} < 50 for <i:int> in {^lint})
any({lint})
{str}.startswith("a")
{str}.isdigit()
(<w:int> := {^int}) > 2
bool({T}.sum() > 0) |BREAK
{V}[0] > 0 |BREAK
torch.equal({T}, {T}) |BREAK
"""

STR = """
"a"
"b"
"key"
str({int})
repr({float})
f"{{{int!}}}"
f"v{{{int!}:03d}}"
f"{{{float!}:.2f}}/{{{str!}!r:>6}}"
f"{{{int!}=}}"
"%d-%s" % ({int}, {str})
"{{}}:{{x}}".format({int}, x={str})
({str} + {str})[:20]
{str} * 2
{str}.upper()
{str}.replace("a", "bb")[:12]
{str}[::-1]
{str}[{int}:]
"-".join(str(<i:int>) for {i} in {^lint})[:20]
"".join(sorted({str}))
{str}.split("a")[0]
{str}.strip().ljust(4, ".")
str({lint})[:20]
repr({dsi})[:20]
repr({tint})
str({bool})
str({T}.dtype)
str(tuple({T}.shape))
f"{{{R!}.shape[0]}} rows"
f"{{{R!}.shape}}"
f"{{MODULE.rate:.3f}}"
type({obj}).__name__
{fint}.__name__
{obj}.name
repr({obj})
str({obj})
min({str}, {str})
{str} or "none"
Color.RED.name
str({T}) |BREAK
f"{{{V!}}}" |BREAK
"""

LINT = """
[{int}, {int}, {int}]
[{int}, *{lint}][:6]
({lint} + {lint})[:6]
{lint}[1:]
{lint}[::-1]
{lint}[{int}:{int}]
{lint} * 2 if len({lint}) < 4 else {lint}
list({tint})
list(range({int} % 5))
list(range({int} % 9, 0, -2))
sorted({lint})
sorted({lint}, key=lambda <i:int>: (-{i}, {int}), reverse={^bool})
sorted({sint})
list(reversed({lint}))
[{int} for <i:int> in {^lint}[:5]]
[{int} for <i:int> in {^lint}[:4] if {bool}]
[{i} + {j} for <i:int> in {^lint}[:3] for <j:int> in range({i} % 3)]
[<i:int> * <j:int> for {i}, {j} in enumerate({^lint}[:5])]
[{int} for <k:str>, <v:int> in {^dsi}.items()]
list(map({fint}, {lint}[:5]))
list(filter(lambda <i:int>: {bool}, {^lint}))
list({dsi}.values())
list({gen}({int} % 5))
[*{gen}({int} % 4)]
list({obj})
{obj}.items
{lint}.copy()
list(dict.fromkeys({lint}))
list(itertools.chain({lint}, {tint}))[:6]
list(itertools.islice(itertools.count({int}), 3))
list(itertools.accumulate({lint}[:5]))
list(collections.deque({lint}, maxlen=3))
({lint} or [{int}])
(G_LIST if {bool} else {lint})
list({sint})
copy.copy({lint})
"""

DSI = """
{{"a": {int}, {str}: {int}}}
{{**{dsi}, {str}: {int}}}
{dsi} | {{{str}: {int}}}
dict(a={int}, b={int})
{{str(<i:int>): {int} for {i} in {^lint}[:4]}}
{{<k:str>: <v:int> + 1 for {k}, {v} in {^dsi}.items() if {bool}}}
dict(zip("abc", {lint}))
dict(sorted({dsi}.items()))
{dsi}.copy()
dict({dsi}, z={int})
collections.OrderedDict(b={int}, a={int})
collections.Counter("abca") |BREAK
vars({obj!})["extra"] |WRONG
({dsi} or G_DICT)
"""

OTHER = {
    "sint": """
{{{int}, {int}, 3}}
set({lint})
{{<i:int> % 4 for {i} in {^lint}}}
{sint} | {sint}
{sint} & {{1, 2, {int}}}
{sint} - {{{int}}}
{sint} ^ {sint}
{sint}.copy()
{{{int} * 8, 8, 0, 16}}
set({tint})
set({sint})
""",
    "tint": """
({int}, {int}, {int})
(*{tint}[:2], {int})
{tint}[::-1]
tuple(sorted({tint}))
tuple(<i:int> + {int} for {i} in {^tint})
Point({int}, {int}, {int})
Point(1, 2, 3)._replace(y={int})
""",
    "lT": """
[{T}, {T}]
[{T} for <i:int> in range({^int} % 4)]
[<t:T> * 2 for {t} in {^lT}]
list({lT})
{lT}[::-1]
({lT} + [{T}])[:5]
[*{dsT}.values()]
list({T}.unbind(0)) and {lT}
sorted({lT}, key=lambda <t:T>: {^int})
""",
    "dsT": """
{{"a": {T}, {str}: {T}}}
{{**{dsT}, {str}: {T}}}
{{str(<i:int>): {T} for {i} in {^lint}[:3]}}
dict({dsT})
""",
    "obj": """
{cls}({int})
{cls}({int})
{cls}(count={int})
{obj} + {obj}
{cls}.make({int})
""",
    "fint": """
(lambda <i:int>: {int})
(lambda <i:int>, *<r:tint>, k={^int}, **<q:dsi>: {int})
{obj}.bump
functools.partial(operator.add, {int})
functools.partial({fint}, {int} % 4) if False else {fint}
abs
""",
    "fT": """
(lambda <t:T>: {T})
torch.relu
{obj}.apply
functools.partial(torch.add, {T})
""",
}
TEMPLATES = {
    "int": INT,
    "float": FLOAT,
    "bool": BOOL,
    "str": STR,
    "lint": LINT,
    "dsi": DSI,
    "T": tensors.T,
    "V": tensors.V,
    "I": tensors.INTEGERS,
    "R": tensors.ROWS,
    "rate": RATE,
} | OTHER

# What ends the recursion.
LEAVES = {
    "int": ["0", "1", "2", "3", "5", "-1", "7"],
    "float": ["0.5", "2.0", "-1.5"],
    "bool": ["True", "False"],
    "str": ['"a"', '"b"', '"ab"', '""'],
    "lint": ["[1, 2]", "[]", "[3, 1, 2]"],
    "dsi": ['{"a": 1}', '{"b": 2, "a": 3}', "{}"],
    "sint": ["{1, 2}", "set()", "{4}"],
    "tint": ["(1, 2, 3)", "(0, 0, 5)"],
    "T": ["torch.ones(2, 3)", "torch.zeros(2, 3)"],
    "V": ["torch.ones(3)"],
    "I": ["torch.ones(2, 3, dtype=torch.int64)"],
    "R": ["KEPT['rows']", "MODULE.kept", "torch.ones(3, 3)"],
    "rate": ["MODULE.rate", "G_RATE[0]"],
    "lT": ["[torch.ones(2, 3)]", "[]"],
    "dsT": ["{}", '{"a": torch.ones(2, 3)}'],
    "obj": ["A(1)", "A(2)"],
    "cls": ["A"],
    "gen": ["count_up"],
    "fint": ["abs"],
    "fT": ["torch.relu"],
}
