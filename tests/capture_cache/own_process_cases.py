"""Programs that look at what each process has otherwise: the order of sets, hashes, addresses, promises for one process. None of
their captures may be kept; those beside them look at no order."""

from kept_cases import Case, same

WALK = """
T = {{"alpha": 2.0, "beta": 3.0, "gamma": 5.0}}
class Color(enum.Enum):
    RED = 1
    BLUE = 2
    GREEN = 3
NUMBERS = {{Color.RED: 2.0, Color.BLUE: 3.0, Color.GREEN: 5.0}}
def f(x):
    for i, k in enumerate({walked}):
        x = x * 2 + {value}
    return x
def make():
    return f, (X.clone(),)
"""
WALKED = {
    "literal": '{"alpha", "beta", "gamma"}',
    "list": 'list({"alpha", "beta", "gamma"})',
    "unpacked": '[*{"alpha", "beta", "gamma"}]',
    "comprehension": "{k for k in T}",
    "keys_less": 'T.keys() - {"delta"}',
    "keys_and": 'T.keys() & {"alpha", "beta", "gamma"}',
    "union": '{"alpha"} | {"beta", "gamma"}',
    "symmetric": 'set(T) ^ {"delta"} ^ {"delta"}',
    "iterator": "iter(set(T))",
    "mapped": "map(str, set(T))",
    "chained": 'list(dict.fromkeys({"alpha", "beta", "gamma"}))',
    "frozen": "frozenset(T)",
    "starred": "tuple((lambda *a: a)(*set(T)))",
    "zipped": "dict(zip(set(T), range(3)))",
    "updated": "(lambda d: d.update({(k, 1) for k in T}) or list(d))({})",
    "from_pairs": "dict({(k, 1) for k in T})",
}
VALUES = {
    "popped": "T[set(T).pop()]",
    "next": "T[next(iter(set(T)))]",
    "joined": 'len(" ".join({"a", "bb", "ccc"}).split()[0])',
    "written": 'len(str({"a", "bb", "ccc"}).split(",")[0])',
    "reduced": "functools.reduce(lambda a, b: a * 2 + T[b], set(T), 1.0)",
    "members": "[NUMBERS[m] for m in set(NUMBERS)][0]",
    "bytes": "len([*{b'a', b'bb', b'ccc'}][0])",
    "tuples": "len([*{('a',), ('a', 'b'), ('a', 'b', 'c')}][0])",
    "sorted_by_length_of_none": "sorted({'a', 'b', 'c'}, key=lambda k: 0).index('a')",
    "hash_of_text": 'hash("abc") % 1000',
    "hash_of_tuple": 'hash(("a", 1)) % 1000',
    "hash_of_bytes": 'hash(b"a") % 1000',
    "hash_of_frozenset": 'hash(frozenset({"a"})) % 1000',
    "hash_method": '"abc".__hash__() % 1000',
    "hash_of_none": "hash(None) % 1000",
    "hash_of_class": "hash(int) % 1000",
    "hash_of_dtype": "hash(torch.float32) % 1000",
    "hash_of_function": "hash(f) % 1000",
    "address": "id(f) % 1000",
}
KEPT_VALUES = {
    "contained": '2.0 if "alpha" in {"alpha", "beta", "gamma"} else 3.0',
    "length": 'len({"alpha", "beta", "gamma"})',
    "numbers": "sum(k * i for i, k in enumerate({3, 1, 2}))",
    "hash_of_number": "hash(7)",
    "one_element": 'len([*{"alpha"}][0])',
}


def walk(walked: str = "range(2)", value: str = "T[k]") -> str:
    return WALK.format(walked=walked, value=value)


ASSUMED = """
NUMBER = 2.0
@pellucid.assume_constant_result
def number():
    return NUMBER
def f(x):
    return x * number()
def make():
    import pellucid
    return f, (X.clone(),)
"""
HOOKED = """
import abc
class Asked(abc.ABC):
    @classmethod
    def __subclasshook__(cls, other):
        return True
def f(x):
    return x * (2.0 if isinstance(1, Asked) else 3.0)
def make():
    return f, (X.clone(),)
"""
RETURNED = """
def f(x):
    return x + 1, {"alpha", "beta", "gamma"} | {"delta"}
def make():
    return f, (X.clone(),)
"""

CASES: list[Case] = [
    *(same(f"walked_{name}", walk(walked), kept=False) for name, walked in WALKED.items()),
    *(same(f"value_{name}", walk(value=value), kept=False) for name, value in VALUES.items()),
    *(same(f"kept_{name}", walk(value=value)) for name, value in KEPT_VALUES.items()),
    Case("assumed", "import pellucid" + ASSUMED, "import pellucid" + ASSUMED.replace("2.0", "3.0"), kept=False),
    Case("hooked", HOOKED, HOOKED.replace("return True", "return False"), kept=False),
    same("returned_set", RETURNED, kept=False),
    Case(
        "autocast_dtype",
        walk(value="2.0 if torch.get_autocast_dtype('cpu') is torch.float16 else 3.0"),
        around=("", "torch.set_autocast_dtype('cpu', torch.float16)"),
    ),
    Case(
        "anomalies",
        walk(value="2.0 if torch.is_anomaly_enabled() else 3.0"),
        around=("", "torch.autograd.set_detect_anomaly(True)"),
    ),
]
