"""Builtins that call back into Python code, written in Python so that capture can trace them like the user's own code.

Each stands for a C function and follows its semantics. They are never called by hand: the handler of the C function calls them, and
their frames do not show in user stacks. They use only names that cannot be shadowed by the user's module: this module's globals are its own.
"""

from collections import deque as _deque
from itertools import product as _product
from warnings import warn as _warn

from torch import bool as _bool
from torch import int64 as _int64
from torch import is_tensor as _is_tensor
from torch import scalar_tensor as _scalar_tensor
from torch import stack as _stack
from torch import uint8 as _uint8

from pellucid._core import close_break_block as _close_break_block
from pellucid._core import open_break_block as _open_break_block
from pellucid.polyfills_bodies import *  # noqa: F403
from pellucid.polyfills_copying import *  # noqa: F403
from pellucid.polyfills_distributed import *  # noqa: F403
from pellucid.polyfills_factors import *  # noqa: F403
from pellucid.polyfills_higher_order import *  # noqa: F403
from pellucid.polyfills_hooks import *  # noqa: F403
from pellucid.polyfills_language import *  # noqa: F403
from pellucid.polyfills_language import as_given, is_found, length_hint, reversed_from, stopped_by_function
from pellucid.polyfills_scan import *  # noqa: F403
from pellucid.polyfills_torch_function import *  # noqa: F403
from pellucid.polyfills_training import *  # noqa: F403

_MISSING = object()


def call_without_breaks(function, /, *args, **kwargs):
    """A function that was compiled with fullgraph=True, called by compiled code."""
    _open_break_block(True)
    try:
        return function(*args, **kwargs)
    finally:
        _close_break_block()


def list_from(iterable):
    result = []
    for item in iterable:
        result.append(item)
    return result


def list_of_at_most(iterable, most):
    result = []
    for item in iterable:
        result.append(item)
        if len(result) == most:
            break
    return result


def tuple_from(iterable):
    return (*list_from(iterable),)


def set_from(iterable):
    result = set()
    for item in iterable:
        result.add(item)
    return result


def converted_and_formatted(value, convert, spec):
    return format(convert(value), spec)


def unless_type_error(function, value):
    """None on any TypeError, one of the program's too: what is raised instead has no context."""
    try:
        return function(value)
    except TypeError:
        return None


def pair_from(pair, index):
    items = unless_type_error(list_from, pair)
    if items is None:
        raise TypeError(f"cannot convert dictionary update sequence element #{index} to a sequence")
    if len(items) != 2:
        raise ValueError(f"dictionary update sequence element #{index} has length {len(items)}; 2 is required")
    return items


def dict_from(pairs):
    if hasattr(pairs, "keys"):  # not found on its class
        return dict_from_mapping(pairs)
    return dict_from_pairs(pairs)


def dict_from_pairs(pairs):
    result = {}
    for index, pair in enumerate(pairs):
        items = pair_from(pair, index)
        result[items[0]] = items[1]
    return result


def dict_from_keys(iterable, value=None):
    result = {}
    for key in iterable:
        result[key] = value
    return result


def dict_from_mapping(mapping):
    result = {}
    for key in mapping.keys():
        result[key] = mapping[key]
    return result


def list_iadd(target, iterable):
    for item in iterable:
        target.append(item)
    return target


def list_of_sized(iterable):
    """Of what has __len__ or __length_hint__ in Python: list() asks."""
    items = []
    list_extend_sized(items, iterable)
    return items


def tuple_of_sized(iterable):
    return (*list_of_sized(iterable),)


def list_extend(target, iterable):
    for item in iterable:
        target.append(item)


def list_extend_sized(target, iterable):
    iterator = iter(iterable)
    length_hint(iterable)
    while (item := next(iterator, _MISSING)) is not _MISSING:  # `for` would ask a user's iterator for its __iter__
        target.append(item)


def filter_next(function, iterator):
    for item in iterator:
        if item if function is None else function(item):
            return item
    raise StopIteration


def contains(container, item):
    if isinstance(container, (list, tuple)):
        return sequence_count(container, item, 1) == 1
    if isinstance(container, _deque) and type(container).__iter__ is not _deque.__iter__:
        container = _deque.__iter__(container)  # as C code goes over it, past an __iter__ of its class
    for element in container:
        if is_found(element, item):
            return True
    return False


def sequence_index(sequence, item, start=0, stop=9223372036854775807):
    kind = list if isinstance(sequence, list) else tuple  # whose own methods C code calls
    length = kind.__len__(sequence)
    if start < 0:
        start = max(start + length, 0)
    if stop < 0:
        stop = max(stop + length, 0)
    index = start
    while index < stop and index < kind.__len__(sequence):
        element = kind.__getitem__(sequence, index)
        if is_found(element, item):
            return index
        index += 1
    if isinstance(sequence, tuple):
        raise ValueError("tuple.index(x): x not in tuple")
    raise ValueError(f"{item!r} is not in list")


def sequence_count(sequence, item, most=9223372036854775807):
    kind = list if isinstance(sequence, list) else tuple
    count = index = 0
    while count < most and index < kind.__len__(sequence):
        if is_found(kind.__getitem__(sequence, index), item):
            count += 1
        index += 1
    return count


def list_remove(target, item):
    index = 0
    while index < list.__len__(target):
        if is_found(list.__getitem__(target, index), item):
            list.__delitem__(target, index)
            return
        index += 1
    raise ValueError("list.remove(x): x not in list")


def refuse_conversion():
    pass


def item_as(kind, tensor):
    return kind(tensor.item())


def item_at_tensor(sequence, tensor):
    return sequence[item_as(int, tensor)]


def range_of(*bounds):
    return range(*[item_as(int, bound) if _is_tensor(bound) else bound for bound in bounds])


def tolist_of(tensor):
    if tensor.dim() == 0:
        return tensor.item()
    return [tolist_of(part) for part in tensor.unbind(0)]


def selected(tensor, key):
    """What the ints of a key select of a tensor, and the other parts of the key; None where torch has more to say of it."""
    parts = key if isinstance(key, tuple) else (key,)
    taken = 0
    for part in parts:
        if _is_tensor(part):
            if part.dtype in (_bool, _uint8):
                return None
        elif part is not None and part is not Ellipsis and type(part) is not int and type(part) is not slice:
            return None
        taken += part is not None and part is not Ellipsis
    if taken > tensor.dim():
        return None
    dim, skipped, rest = 0, tensor.dim() - taken, []
    for part in parts:
        if type(part) is int:
            tensor = tensor.select(dim, part)
            continue
        if part is None:  # in its place, as torch does: its stride is what the dimensions behind it say
            tensor = tensor.unsqueeze(dim)
            part = slice(None)
        rest.append(part)
        dim += skipped if part is Ellipsis else 1
    return tensor, rest


def item_of_tensor(tensor, key):
    found = selected(tensor, key)
    if found is None:
        return tensor.__getitem__(key)
    view, rest = found
    for part in rest:
        if part is Ellipsis:
            continue
        if type(part) is not slice or not (part.start is None and part.stop is None and part.step is None):
            return view[tuple(rest)]
    return view


def set_item_of_tensor(tensor, key, value):
    found = selected(tensor, key)
    if found is None:
        tensor.__setitem__(key, value)
    else:
        view, rest = found
        view[tuple(rest) or ...] = value


def tensor_of_ints(data, device):
    if type(data) is int:
        return _scalar_tensor(data, dtype=_int64, device=device)
    return _stack([_scalar_tensor(number, dtype=_int64, device=device) for number in data])


def int_of(value):
    return converted(type(value).__int__(value), int, "__int__")


def float_of(value):
    return converted(type(value).__float__(value), float, f"{type(value).__name__}.__float__")


def complex_of(value):
    return converted(type(value).__complex__(value), complex, "__complex__")


def converted(result, kind, method):
    if not isinstance(result, kind):
        raise TypeError(f"{method} returned non-{kind.__name__} (type {type(result).__name__})")
    if type(result) is kind:
        return result
    refuse_conversion()  # what follows is for the interpreter
    name = kind.__name__
    _warn(
        f"{method} returned non-{name} (type {type(result).__name__}).  The ability to return an instance of a strict subclass of "
        f"{name} is deprecated, and may not be supported in a future version of Python.",
        DeprecationWarning,
        stacklevel=3,
    )
    return getattr(kind, f"__{name}__")(result)


def format_of(value, spec):
    result = type(value).__format__(value, spec)
    if not isinstance(result, str):
        raise TypeError(f"__format__ must return a str, not {type(result).__name__}")
    return result


def format_item(tensor, spec):
    return format(tensor.detach().item(), spec)


def hash_of(value):
    result = type(value).__hash__(value)
    if not isinstance(result, int):
        raise TypeError("__hash__ method should return an integer")
    if not -(2**63) <= result < 2**63:
        result = int.__hash__(result)
    return -2 if result == -1 else int(result)


def ne_from_eq(left, right):
    result = type(left).__eq__(left, right)
    if result is NotImplemented:
        return result
    return not result


def sequence_iterator(sequence):
    index = 0
    while True:
        try:
            value = sequence[index]
        except (IndexError, StopIteration):
            return
        yield value
        index += 1


def any_of(iterable):
    for item in iterable:
        if item:
            return True
    return False


def all_of(iterable):
    for item in iterable:
        if not item:
            return False
    return True


def sum_of(iterable, start=0):
    if isinstance(start, str):
        raise TypeError("sum() can't sum strings [use ''.join(seq) instead]")
    if isinstance(start, (bytes, bytearray)):
        name = "bytes" if isinstance(start, bytes) else "bytearray"
        raise TypeError(f"sum() can't sum {name} [use b''.join(seq) instead]")
    total = start
    for item in iterable:
        total = total + item
    return total


def max_of(*args, key=None, default=_MISSING):
    iterable = args[0] if len(args) == 1 else args
    found = False
    best = best_key = None
    for item in iterable:
        item_key = item if key is None else key(item)
        if not found:
            best, best_key, found = item, item_key, True
        elif item_key > best_key:
            best, best_key = item, item_key
    if found:
        return best
    if default is _MISSING:
        raise ValueError("max() arg is an empty sequence")
    return default


def min_of(*args, key=None, default=_MISSING):
    iterable = args[0] if len(args) == 1 else args
    found = False
    best = best_key = None
    for item in iterable:
        item_key = item if key is None else key(item)
        if not found:
            best, best_key, found = item, item_key, True
        elif item_key < best_key:
            best, best_key = item, item_key
    if found:
        return best
    if default is _MISSING:
        raise ValueError("min() arg is an empty sequence")
    return default


def get_items(wanted, value):
    """operator.itemgetter(*wanted)(value)"""
    if len(wanted) == 1:
        return value[wanted[0]]
    return tuple([value[item] for item in wanted])


def get_attributes(wanted, value):
    """operator.attrgetter(*wanted)(value): each name may be dotted."""
    results = []
    for path in wanted:
        result = value
        for name in path.split("."):
            result = getattr(result, name)
        results.append(result)
    return results[0] if len(results) == 1 else tuple(results)


def call_method(wanted, named, value):
    """operator.methodcaller(*wanted, **named)(value)"""
    method = getattr(value, wanted[0])
    return method(*wanted[1:]) if named is None else method(*wanted[1:], **named)


def over_iterators(make, first, end, *arguments, **named):
    """make(*arguments, **named), where those from first to end have become their iterators."""
    iterators = [iter(iterable) for iterable in arguments[first:end]]
    return make(*arguments[:first], *[as_given(iterator) for iterator in iterators], *arguments[end:], **named)


def each_of(iterator):
    while (item := next(iterator, _MISSING)) is not _MISSING:
        yield item


def map_each(function, iterable):
    for item in iterable:
        try:
            value = function(item)
        except StopIteration:
            stopped_by_function()
            return
        yield value


def map_several(function, *iterables):
    for items in zip_each(*iterables):
        try:
            value = function(*items)
        except StopIteration:
            stopped_by_function()
            return
        yield value


def filter_each(function, iterable):
    for item in iterable:
        try:
            wanted = item if function is None else function(item)
        except StopIteration:
            stopped_by_function()
            return
        if wanted:
            yield item


def filterfalse_each(function, iterable):
    for item in iterable:
        try:
            unwanted = item if function is None else function(item)
        except StopIteration:
            stopped_by_function()
            return
        if not unwanted:
            yield item


def compress_each(data, selectors):
    while (item := next(data, _MISSING)) is not _MISSING:
        selector = next(selectors, _MISSING)
        if selector is _MISSING:
            return
        if selector:
            yield item


def cycle_each(iterable):
    saved = []
    for item in iterable:
        saved.append(item)
        yield item
    while saved:
        for item in saved:
            yield item


def pairwise_each(iterator):
    old = next(iterator, _MISSING)
    if old is _MISSING:
        return
    while (new := next(iterator, _MISSING)) is not _MISSING:
        yield old, new
        old = new


def zip_each(*iterables, strict=False):
    iterators = [iter(iterable) for iterable in iterables]
    if not iterators:
        return
    while True:
        items = []
        for number, iterator in enumerate(iterators):
            item = next(iterator, _MISSING)
            if item is _MISSING:
                if strict:
                    if number:
                        plural = " " if number == 1 else "s 1-"
                        raise ValueError(f"zip() argument {number + 1} is shorter than argument{plural}{number}")
                    for later in range(1, len(iterators)):
                        if next(iterators[later], _MISSING) is not _MISSING:
                            plural = " " if later == 1 else "s 1-"
                            raise ValueError(f"zip() argument {later + 1} is longer than argument{plural}{later}")
                return
            items.append(item)
        yield (*items,)


def enumerate_each(iterable, start=0):
    number = start
    for item in iterable:
        yield number, item
        number += 1


def reversed_of(sequence):
    return reversed_from(sequence, len(sequence))


def reversed_each(sequence, length):
    index = length - 1
    while index >= 0:
        yield sequence[index]
        index -= 1


def reduce_by(function, iterable, initial=_MISSING):
    iterator = unless_type_error(iter, iterable)
    if iterator is None:
        raise TypeError("reduce() arg 2 must support iteration")
    if initial is _MISSING:
        value = next(iterator, _MISSING)
        if value is _MISSING:
            raise TypeError("reduce() of empty iterable with no initial value")
    else:
        value = initial
    while (item := next(iterator, _MISSING)) is not _MISSING:
        value = function(value, item)
    return value


def iter_until(function, sentinel):
    while True:
        try:
            value = function()
        except StopIteration:
            return
        if sentinel is value or sentinel == value:
            return
        yield value


def range_with_steps(start, stop, step):
    if step > 0:
        while start < stop:
            yield start
            start += step
    else:
        while start > stop:
            yield start
            start += step


def chain_each(*iterables):
    for iterable in iterables:
        for item in iterable:
            yield item


def chain_from(iterables):
    for iterable in iterables:
        for item in iterable:
            yield item


def islice_each(iterable, start, stop, step):
    iterator = iter(iterable)
    index = 0
    wanted = start
    while stop is None or wanted < stop:
        while index <= wanted:
            item = next(iterator, _MISSING)
            if item is _MISSING:
                return
            index += 1
        yield item
        wanted += step


def starmap_each(function, iterable):
    for args in iterable:
        try:
            value = function(*tuple(args))
        except StopIteration:
            stopped_by_function()
            return
        yield value


def accumulate_each(iterable, func=None, initial=None):
    iterator = iter(iterable)
    if initial is None:
        total = next(iterator, _MISSING)
        if total is _MISSING:
            return
    else:
        total = initial
    yield total
    while (item := next(iterator, _MISSING)) is not _MISSING:
        try:
            total = total + item if func is None else func(total, item)
        except StopIteration:
            stopped_by_function()
            return
        yield total


def groupby_each(iterable, key=None):
    """What groups and the iterator over them share is [the key read last, its item, what marks the group that is current]."""
    shared = [_MISSING, _MISSING, None]
    iterator = iter(iterable)
    wanted = _MISSING
    while True:
        shared[2] = None
        while shared[0] is _MISSING or (wanted is not _MISSING and (wanted is shared[0] or wanted == shared[0])):
            if not groupby_step(shared, iterator, key):
                return
        wanted = shared[0]
        shared[2] = [wanted]
        yield wanted, group_each(shared, shared[2], iterator, key)


def groupby_step(shared, iterator, key):
    item = next(iterator, _MISSING)
    if item is _MISSING:
        return False
    if key is None:
        found = item
    else:
        try:
            found = key(item)
        except StopIteration:
            stopped_by_function()
            return False
    shared[0], shared[1] = found, item
    return True


def group_each(shared, mark, iterator, key):
    while shared[2] is mark:
        if shared[1] is _MISSING and not groupby_step(shared, iterator, key):
            return
        if not (mark[0] is shared[0] or mark[0] == shared[0]):
            return
        item = shared[1]
        shared[0] = shared[1] = _MISSING
        yield item


def takewhile_each(predicate, iterable):
    for item in iterable:
        try:
            wanted = predicate(item)
        except StopIteration:
            stopped_by_function()
            return
        if not wanted:
            return
        yield item


def dropwhile_each(predicate, iterable):
    iterator = iter(iterable)
    while (item := next(iterator, _MISSING)) is not _MISSING:
        try:
            passed = predicate(item)
        except StopIteration:
            stopped_by_function()
            return
        if not passed:
            yield item
            break
    while (item := next(iterator, _MISSING)) is not _MISSING:
        yield item


def zip_longest_each(*iterables, fillvalue=None):
    iterators = [iter(iterable) for iterable in iterables]
    done = [False] * len(iterators)
    while True:
        items = []
        for number, iterator in enumerate(iterators):
            item = fillvalue
            if not done[number]:
                item = next(iterator, _MISSING)
                if item is _MISSING:
                    done[number] = True
                    item = fillvalue
            items.append(item)
        if all_of(done):
            return
        yield (*items,)


def product_of(*iterables, repeat=1):
    if repeat == 0:
        iterables = ()
    pools = [tuple_from(iterable) for iterable in iterables]
    return _product(*pools, repeat=repeat)


def dict_update(target, *others, **named):
    """dict.update: stores go past a __setitem__ in Python."""
    _update(dict.__setitem__, target, others, named)


def ordered_dict_update(target, *others, **named):
    """OrderedDict.update: stores are those of the program."""
    _update(setitem, target, others, named)


def setitem(target, key, value):
    target[key] = value


def _update(store, target, others, named):
    for other in others:
        if hasattr(other, "keys"):
            for key in other.keys():
                store(target, key, other[key])
        else:
            for index, pair in enumerate(other):
                key, value = pair_from(pair, index)
                store(target, key, value)
    for key in named:
        store(target, key, named[key])


def join(separator, iterable):
    iterator = unless_type_error(iter, iterable)
    if iterator is None:
        raise TypeError("can only join an iterable")
    return separator.join(list_from(iterator))


def isinstance_of_any(instance, types):
    for candidate in types:
        if isinstance(instance, candidate):
            return True
    return False


def isinstance_by_class(instance, types):
    if issubclass(type(instance), types):
        return True
    claimed = getattr(instance, "__class__", None)
    return isinstance(claimed, type) and issubclass(claimed, types)


def issubclass_of_any(cls, types):
    for candidate in types:
        if issubclass(cls, candidate):
            return True
    return False
