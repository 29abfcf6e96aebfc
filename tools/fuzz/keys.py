"""Templates about keys: what is looked up, counted, kept for the next call and compared. As expressions.py and
statements.py tell, with the types

    key   anything, mostly hashable        dk   a dict from keys to ints (also OrderedDict, defaultdict, Counter)
    sk    a set of keys        lk    a list of keys        keyT    a dict from keys to tensors

The kinds of values are those of the value matrix (tests, value_matrix_values.py): FIRST, SECOND and THIRD are three of
them in each program, functions that make a new object of one value for 0 and of another for 1.

    given   a key that was there before the call: the only ones whose identity is asked for (equal strings, numbers and
            tuples that a region computes may be one object)
"""

import importlib
import random
import re
import sys
from pathlib import Path

# The catalogue, wherever it lies in tests.
sys.path += [str(path.parent) for path in Path(__file__).resolve().parents[2].glob("tests/**/value_matrix_values.py")]
VALUES = importlib.import_module("value_matrix_values").VALUES


def is_key(make):
    try:
        return isinstance(hash(make(0)), int) and isinstance(bool(make(0) == make(1)), bool)
    except Exception:
        return False


HASHABLE = [kind for kind, make in VALUES.items() if is_key(make)]
OTHERS = [kind for kind in VALUES if kind not in HASHABLE]

EXPRESSIONS = {
    "key": """
FIRST({int} % 2)
SECOND({int} % 2)
THIRD({int} % 2)
FIRST(0)
SECOND(1)
({key}, {key})
({key}, {T}.dtype)
(({key}, {T}.shape), {int})
("k", ({key}, None), {str})
Point({key}, {int}, None)
frozenset([{key}, {int}])
frozenset([({key}, 1), {T}.shape])
{T}.shape
{V}.shape
{T}.shape[1:]
{T}.size()
{T}.dtype
{I}.dtype
{T}.device
torch.Size([2, {int} % 4])
({T}.shape, {I}.dtype, {V}.device)
{int}
{bool}
{float}
float({int})
{str}
("a" + {str})
{tint}
{obj}
{cls}
{fint}
{fT}
{obj}.bump
functools.partial(max, {int})
Color.RED
Color({int} % 2 + 1)
range({int} % 4)
b"ab"[{int} % 2:]
None
...
math.nan
float("nan")
-0.0
type({key})
STORE.last
remember()
{lk}[0] if {lk} else {key}
next(iter({dk}), {key})
{key} if {bool} else {key}
({key} or {key})
re.compile("ab"[{int} % 2])
numpy.dtype(("f4", "i8")[{int} % 2]) |BREAK
numpy.float64({int}) |BREAK
OTHER({int} % 2) |WRONG
[{key}, 1] |WRONG
slice({int}, 2) |WRONG
{dsi} |WRONG
{T} |WRONG
""",
    "dk": """
{{{key}: {int}, {key}: {int}}}
{{{key}: {int}, {key}: {int}}}
{{**{dk}, {key}: {int}}}
dict([({key}, {int})])
dict.fromkeys([{key}, {key}], {int})
dict(zip({lk}, {lint}))
{{<k:key>: {int} for {k} in {^lk}}}
{{({k}, {n}): {n} for <k:key>, <n:int> in {^dk}.items()}}
{dk} | {{{key}: {int}}}
{dk}.copy()
dict({dk})
collections.OrderedDict([({key}, {int}), ({key}, 2)])
collections.defaultdict(int, {dk})
collections.Counter([{key}, {key}]) |BREAK
STORE.table
STORE.counts
STORE.default
STORE.ordered
STORE.nested["inner"]
vars(STORE)["table"]
""",
    "sk": """
{{{key}, {key}}}
{{{key}, {key}, {key}}}
set({lk})
set({dk})
{sk} | {sk}
{sk} & {sk}
{sk} - {{{key}}}
{sk} ^ {{{key}, {key}}}
{sk}.copy()
{dk}.keys() & {sk}
{{({k}, 1) for <k:key> in {^lk}}}
STORE.seen
""",
    "lk": """
[{key}, {key}]
[{key}, {key}, {key}]
list({dk})
list({dk}.keys())
({lk} + [{key}])[-4:]
[*{lk}, {key}][-4:]
[<k:key> for {k} in {^lk} if {k} != {^key}]
[({k}, {i}) for <i:int>, <k:key> in enumerate({^lk}[:3])]
{lk}[::-1]
list(dict.fromkeys({lk}))
STORE.row
""",
    "keyT": """
{{{key}: {T}}}
{{{key}: {T}, {key}: {T}}}
{{**{keyT}, {key}: {T}}}
STORE.tensors
""",
    "int": """
{dk}[{key}] |WRONG
{dk}.get({key}, {int})
{dk}.get({key}, 0) + 1
{dk}.pop({key}, {int})
{dk}.setdefault({key}, {int})
STORE.counts[{key}]
STORE.default[{key}]
STORE.ordered.get({key}, 7)
{lk}.count({key})
{lk}.index({key}) |WRONG
({key}, {key}).count({key})
(1, {key}, {key}).index({key}) |WRONG
len({dk})
len({sk})
len({lk})
len({{{key}, {key}}})
len({{{key}: 1, {key}: 2}})
sum({dk}.values())
cached({key}) |BREAK
cached({key}, {int} % 3) |BREAK
(0 if {key} in {dk} else {int})
sum(<k:key> == {^key} for {k} in {^lk})
""",
    "bool": """
{key} == {key}
{key} != {key}
{key} == {key}
({key}, 1) == ({key}, 1)
[{key}] == [{key}]
{{"a": {key}}} == {{"a": {key}}}
{{{key}: 1}} == {{{key}: 1}}
{{{key}}} == {{{key}}}
{key} in {dk}
{key} not in {dk}
{key} in {sk}
{key} not in {sk}
{key} in {lk}
{key} in {keyT}
{key} in ({key}, {key})
{key} in {dk}.keys()
({key}, {int}) in {dk}.items()
{given!} is {given!}
{given!} is STORE.last
{key!k} == {k}
{key!k} in [{k}]
{dk} == {dk}
{lk} == {lk}
{sk} == {sk}
{sk} <= {sk}
{sk}.isdisjoint({lk})
{dk}.keys() == {sk}
bool({key})
isinstance({key}, (tuple, frozenset))
type({key}) is type({key})
hash({key!k}) == hash({k})
operator.eq({key}, {key})
any(<k:key> == {^key} for {k} in {^lk})
""",
    "T": """
{keyT}.get({key}, {T})
{keyT}.get({key}, {T})
{keyT}[{key}] |WRONG
{keyT}.setdefault({key}, {T})
STORE.tensors.get({T}.shape, {T})
({T} if {key} in {dk} else {T} * 2)
""",
}

SIMPLE = """
<x:key> = {key}

<x:key> = {key}

<x:dk> = {dk}

<x:sk> = {sk}

<x:lk> = {lk}

<x:keyT> = {keyT}

<x:key>, <y:key> = {key}, {key}

{dk!}[{key}] = {int}

{dk!}[{key}] = {int}

<~k:key> = {key}
{dk!d}[{k}] = {d}.get({k}, 0) + 1

<~k:key> = ({key}, {T}.dtype)
{dk!d}[{k}] = {d}.get({k}, 0) + 1

<~k:key> = {key}
if {k} not in {keyT!d}:
    {d}[{k}] = {T}

if {T!t}.shape not in STORE.tensors:
    STORE.tensors[{t}.shape] = {t}

<~k:key> = {key}
if {k} in {sk!d}:
    {d}.discard({k})
else:
    {d}.add({k})

<~k:key> = {key}
if {k} not in {lk!d}:
    {d}.append({k})

{keyT!}[{key}] = {T}

{dk!}.pop({key}, None)

{dk!}.setdefault({key}, {int})

{dk!}.update({{{key}: {int}, {key}: {int}}})

{dk!}.update({dk})

# WRONG
del {dk!}[{key}]

{dk@} |= {{{key}: {int}}}

STORE.counts[{key}] += 1

STORE.counts[{key}] -= {int}

STORE.counts[({key}, {T}.dtype)] += 1

STORE.default[{key}] += {int}

STORE.ordered[{key}] = {int}

# WRONG
STORE.ordered.move_to_end({key}, last={bool})

# BREAK
STORE.counts.update([{key}, {key}])

STORE.nested["inner"][{key}] = {int}

<~d:dk> = STORE.nested.setdefault({key}, {{}})
{d}[{key}] = len({d})

{sk!}.add({key})

{sk!}.add({key})

{sk!}.discard({key})

{sk!}.update({lk})

# WRONG
{sk!}.remove({key})

{sk@} |= {{{key}}}

{sk@} -= {sk}

{sk@} ^= {{{key}, {key}}}

{lk!}.append({key})

{lk!}.insert(0, {key})

{lk!}[1:] = [{key}]

# WRONG
{lk!}.remove({key})

STORE.last = {key}

STORE.last = {given!}

remember({key})

STORE.again = {key} == STORE.last

LOG.append({key})

LOG.append({key} in {dk})

LOG.append(STORE.last == {key})

# BREAK
cached({key})

setattr(STORE, "extra", {key})

{obj!}.extra = {key}
"""

COMPOUND = """
if {key} in {dk}:
    BLOCK
else:
    BLOCK

if {key} == {key}:
    BLOCK
else:
    BLOCK

if {key} == STORE.last:
    BLOCK
STORE.last = {key}

for <~k:key>, <~v:int> in list({dk}.items())[:4]:
    LOOP

for <~k:key> in {lk}[:4]:
    LOOP

for <~k:key> in ({key}, {key}, {key}):
    {dk!d}[{k}] = {d}.get({k}, 0) + 1
    LOOP

try:
    <~v:int> = {dk}[{key}]
    BLOCK
except KeyError as <~e:error>:
    LOG.append({e}.args)
    BLOCK

try:
    {lk!}.remove({key})
except ValueError:
    LOG.append("not there")
    BLOCK

try:
    LOG.append({lk}.index({key}))
except ValueError as <~e:error>:
    BLOCK

try:
    {sk!}.remove({key})
    BLOCK
except KeyError as <~e:error>:
    LOG.append({e}.args)

match {key}:
    case STORE.last:
        BLOCK
    case None | 1 | "a":
        BLOCK
    case (<~x:key>, <~y:key>):
        BLOCK
    case _:
        BLOCK

def <h:fint>(<~a:int>, <~k:key>={key}):
    NONLOCAL
    DEF
    return {dk}.get({k}, {int})

# RARE
class <c:cls>({cls}):
    def __eq__(self, other):
        return isinstance(other, Members) and self.count % 3 == other.count % 3

    def __hash__(self):
        LOG.append("hash")
        return self.count % 3
"""

# Names that a program about keys has from the start.
GLOBALS = {
    "key": ["G_KEY", "G_OTHER", "STORE.last"],
    "given": ["G_KEY", "G_OTHER"],
    "dk": ["G_KEYS", "STORE.table"],
    "sk": ["G_SEEN"],
    "lk": ["G_ROW"],
}
PARAMETERS = [
    ("key", "key"),
    ("other", "key"),
    ("key", "given"),
    ("other", "given"),
    ("cache", "dk"),
    ("seen", "sk"),
    ("row", "lk"),
    ("kept", "keyT"),
]
RESULTS = ["({key}, {dk}, {T})", "({T}, {lk}, {bool})", "({T}, {key}, {sk})", "{{{key}: {T}, {key}: {int}}}"]
# What every program about keys gives back, of its names: whether values that came again are told apart from others.
PROBES = [
    "({key!k} in {dk!}, {key!} == {k}, {k} in {lk!})",
    "({dk!}.get({key!}, {int}), {key!} in {sk!})",
    "({given!k} in {dk!}, {given!} == {k}, {dk!}.get({k}))",
    "(STORE.table.get({given!}), {given!} in {lk!}, {given!} in {sk!})",
    "({lk!}.count({given!}), ({given!}, 1) == ({given!}, 1))",
]

# What ends the recursion: beside names.
LEAVES = {
    "key": ["FIRST(0)", "FIRST(1)", "SECOND(0)", '("a", 1)', "1", "True", "1.0", "None"],
    "dk": ["{FIRST(0): 1}", "{}", "{1: 2}"],
    "sk": ["{FIRST(0)}", "set()", "{1, 1.5}"],
    "lk": ["[FIRST(0), SECOND(1)]", "[]", "[1, None]"],
    "keyT": ["{}", "{FIRST(0): torch.ones(2, 3)}"],
}

# How a value of a kind is put into the key that comes from outside.
WRAPPED = [
    "{}",
    "{}",
    "{}",
    "({}, torch.float32)",
    '("k", ({}, None), 1)',
    "Point({}, 1, None)",
    "frozenset([{}, 1])",
    "(torch.Size([2, 3]), {})",
    "({}, {})",
]

HEAD = """
import numpy
import re
from value_matrix_values import VALUES

FIRST, SECOND, THIRD, OTHER = KINDS


class Store:
    def __init__(self):
        self.table, self.seen, self.row, self.tensors = {}, set(), [], {}
        self.counts, self.default = collections.Counter(), collections.defaultdict(int)
        self.ordered, self.nested = collections.OrderedDict(), {"inner": {}}
        self.last, self.again = FIRST(0), None


def remembering():
    value = None

    def remember(*new):
        nonlocal value
        if new:
            value = new[0]
        return value

    return remember


@functools.lru_cache(maxsize=20)
def cached(key, more=0):
    LOG.append("computed")
    return len(LOG) + more


STORE = Store()
G_KEY, G_OTHER, G_KEYS, G_SEEN, G_ROW = FIRST(0), SECOND(1), {}, set(), []
remember = remembering()
"""

RESET = """
    global G_KEY, G_OTHER, G_KEYS, G_SEEN, G_ROW
    G_KEY, G_OTHER = FIRST(0), WRAP(SECOND(0))
    G_KEYS, G_SEEN, G_ROW = {FIRST(0): 1, "a": 2}, {1, "a", SECOND(0)}, [SECOND(1), 1.5, FIRST(0)]
    STORE.__init__()
    STORE.table[WRAP(FIRST(0))] = 5
    remember(SECOND(0))
    cached.cache_clear()
"""

CHANGE = """
    global G_KEY
    G_KEY = FIRST(1)
    G_KEYS[FIRST(1)] = 7
    G_ROW.append(FIRST(1))
    STORE.last = SECOND(1)
    STORE.counts[FIRST(0)] += 1
    STORE.table.pop(FIRST(0), None)
    remember(THIRD(1))
"""

# Keywords of f.
INPUTS = """
        "key": WRAP(FIRST(which)),
        "other": WRAP(SECOND(WHICH)),
        "cache": {FIRST(0): 1, WRAP(THIRD(1)): 2, 3: 4},
        "seen": {FIRST(1), WRAP(SECOND(0)), 1},
        "row": [WRAP(FIRST(0)), THIRD(1), 2.5],
        "kept": {SECOND(0): x, "b": torch.ones(2, 3)},
"""


def filled(text: str, choose: random.Random) -> str:
    """A part of the module with kinds of values, and ways to wrap them, put in."""
    kinds = [*choose.choices(HASHABLE, k=3), choose.choice(OTHERS)]
    text = text.replace("KINDS", ", ".join(f'VALUES["{kind}"]' for kind in kinds))
    text = text.replace("WHICH", choose.choice(["which", "0", "1", "1 - which"]))
    # The same way everywhere, so that a key finds its equals.
    wrapped = choose.choice(WRAPPED)
    return re.sub(r"WRAP\((\w+\(\w+(?: - \w+)?\))\)", lambda match: wrapped.replace("{}", match[1]), text)
