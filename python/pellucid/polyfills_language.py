"""Parts of the language that CPython has in C and that call back into Python code: class statements, patterns, exception groups.

As in `polyfills`. Some of these functions are rules in C++ (rows/classes.cpp, containers.cpp); their bodies are what the interpreter runs
when it goes on in one of these frames behind a graph break.
"""

from types import FunctionType, _calculate_meta  # type: ignore[attr-defined]

_ABSENT = object()

# ---- class statements (builtin___build_class__ of bltinmodule.c, type_new of typeobject.c)


def is_class(value):
    return issubclass(type(value), type)


def build_class_of(body, name, bases, original_bases, keywords):
    meta = keywords.pop("metaclass", type(bases[0]) if bases else type)
    if is_class(meta):
        meta = _calculate_meta(meta, bases)
    return build_class(body, name, bases, original_bases, meta, keywords)


def run_class_body(body, meta, namespace):
    exec(body.__code__, body.__globals__, namespace, closure=body.__closure__)
    return namespace.get("__classcell__")


def check_class_cell(made, cell, name):
    if cell is not None and is_class(made) and cell.cell_contents is not made:
        raise TypeError(f"__class__ set to {cell.cell_contents!r} defining {name!r} as {made!r}")


def resolve_bases(body, name, bases, keywords):
    resolved = []
    for base in bases:
        if is_class(base) or not hasattr(base, "__mro_entries__"):
            resolved.append(base)
            continue
        entries = base.__mro_entries__(bases)
        if type(entries) is not tuple:
            raise TypeError("__mro_entries__ must return a tuple")
        resolved.extend(entries)
    return build_class_of(body, name, (*resolved,), bases, keywords)


def build_class(body, name, bases, original_bases, meta, keywords):
    namespace = meta.__prepare__(name, bases, **keywords) if hasattr(meta, "__prepare__") else {}
    cell = run_class_body(body, meta, namespace)
    if bases is not original_bases:
        namespace["__orig_bases__"] = original_bases
    made = meta(name, bases, namespace, **keywords)
    check_class_cell(made, cell, name)
    return made


def call_alias(alias, /, *args, **kwargs):
    """list[int]() (ga_call of genericaliasobject.c)."""
    made = alias.__origin__(*args, **kwargs)
    try:
        made.__orig_class__ = alias
    except (AttributeError, TypeError):
        return made
    return made


def class_made(made, named, has_hook, keywords):
    for name, value in named:
        try:
            type(value).__set_name__(value, made, name)
        except BaseException as error:
            text = f"Error calling __set_name__ on '{type(value).__name__}' instance {name!r} in '{made.__name__}'"
            raise RuntimeError(text) from error
    if has_hook:
        super(made, made).__init_subclass__(**keywords)
    return made


# ---- patterns (match_class and match_keys of ceval.c)


def match_class(subject, cls, count, names, matches_itself, cls_name):
    if not is_class(cls):
        raise TypeError("called match pattern must be a type")
    if not isinstance(subject, cls):
        return None
    seen = []
    found = []
    wanted = ()
    if count:
        try:
            arguments = cls.__match_args__
        except AttributeError:
            arguments = ()
        else:
            matches_itself = False
            if type(arguments) is not tuple:
                raise TypeError(f"{cls_name}.__match_args__ must be a tuple (got {type(arguments).__name__})")
        allowed = 1 if matches_itself else len(arguments)
        if allowed < count:
            plural = "" if allowed == 1 else "s"
            raise TypeError(f"{cls_name}() accepts {allowed} positional sub-pattern{plural} ({count} given)")
        if matches_itself:
            found.append(subject)
        else:
            wanted = arguments[:count]
    for name in wanted:
        if type(name) is not str:
            raise TypeError(f"__match_args__ elements must be strings (got {type(name).__name__})")
        if name in seen:
            raise TypeError(f"{cls_name}() got multiple sub-patterns for attribute {name!r}")
        seen.append(name)
        try:
            found.append(getattr(subject, name))
        except AttributeError:
            return None
    for name in names:
        if name in seen:
            raise TypeError(f"{cls_name}() got multiple sub-patterns for attribute {name!r}")
        seen.append(name)
        try:
            found.append(getattr(subject, name))
        except AttributeError:
            return None
    return (*found,)


def match_keys(subject, keys):
    if not keys:
        return ()
    get = subject.get
    missing = object()
    seen = set()
    values = []
    for key in keys:
        if key in seen:
            raise ValueError(f"mapping pattern checks duplicate key ({key!r})")
        seen.add(key)
        value = get(key, missing)
        if value is missing:
            return None
        values.append(value)
    return (*values,)


# ---- functools


def cached_property_get(self, instance, owner=None):
    """Without the lock, which only keeps other threads from computing the same value at the same time (gone in 3.12)."""
    if instance is None:
        return self
    if self.attrname is None:
        raise TypeError("Cannot use cached_property instance without calling __set_name__ on it.")
    try:
        cache = instance.__dict__
    except AttributeError:
        raise TypeError(
            f"No '__dict__' attribute on {type(instance).__name__!r} instance to cache {self.attrname!r} property."
        ) from None
    missing = object()
    value = cache.get(self.attrname, missing)
    if value is missing:
        value = self.func(instance)
        cache[self.attrname] = value
    return value


# ---- exceptions


def raise_from(value, cause):
    error = value() if is_class(value) else value
    if is_class(value) and not isinstance(error, BaseException):
        raise TypeError(f"calling {value} should have returned an instance of BaseException, not {type(error)}")
    if is_class(cause):
        if not issubclass(cause, BaseException):
            raise TypeError("exception causes must derive from BaseException")
        cause = cause()
    raise error from cause


def repr_of_exception(error):
    name = type(error).__name__
    args = error.args
    return f"{name}({args[0]!r})" if len(args) == 1 else f"{name}{args!r}"


def repr_of_sequence(values):
    text = ", ".join([repr(value) for value in values])
    if type(values) is list:
        return f"[{text}]"
    return f"({text},)" if len(values) == 1 else f"({text})"


def repr_of_dict(values):
    return "{" + ", ".join([f"{key!r}: {value!r}" for key, value in values.items()]) + "}"


def add_note(self, note):
    notes = getattr(self, "__notes__", _ABSENT)
    if notes is _ABSENT:
        notes = []
        self.__notes__ = notes
    if not isinstance(notes, list):
        raise TypeError("Cannot add note: __notes__ is not a list")
    list.append(notes, note)


def send_to(receiver, value):
    return receiver.send(value)


def generator_throw(generator, kind, value=None, traceback=None):
    if isinstance(kind, BaseException):
        if value is not None:
            raise TypeError("instance exception may not have a separate value")
        error = kind
    elif is_class(kind) and issubclass(kind, BaseException):
        if isinstance(value, kind):
            error = value
        elif value is None:
            error = kind()
        else:
            error = kind(*value) if isinstance(value, tuple) else kind(value)
    else:
        raise TypeError(
            f"exceptions must be classes or instances deriving from BaseException, not {type(kind).__name__}"
        )
    return generator.throw(error)


# ---- exception groups (exceptions.c)


def group_split(group, condition):
    if is_class(condition) or isinstance(condition, tuple):
        types = condition
        condition = lambda error: isinstance(error, types)  # noqa: E731
    elif not callable(condition):
        raise TypeError("expected a function, exception type or tuple of exception types")
    return split_one(group, condition)


def split_one(error, condition):
    if condition(error):
        return error, None
    if not isinstance(error, BaseExceptionGroup):
        return None, error
    matches = []
    others = []
    for inner in error.exceptions:
        match, rest = split_one(inner, condition)
        if match is not None:
            matches.append(match)
        if rest is not None:
            others.append(rest)
    return group_of(error, matches), group_of(error, others)


def group_of(original, errors):
    if not errors:
        return None
    made = original.derive(errors)
    if not isinstance(made, BaseExceptionGroup):
        raise TypeError("derive must return an instance of BaseExceptionGroup")
    made.__traceback__ = original.__traceback__
    made.__context__ = original.__context__
    made.__cause__ = original.__cause__
    notes = getattr(original, "__notes__", None)
    if isinstance(notes, (list, tuple)):
        made.__notes__ = list(notes)
    return made


def group_subgroup(group, condition):
    return group_split(group, condition)[0]


def str_of_group(group):
    count = len(group.exceptions)
    return f"{group.message} ({count} sub-exception{'s' if count > 1 else ''})"


# Run for real by the rules of CHECK_EG_MATCH and PREP_RERAISE_STAR, on exceptions whose classes have nothing in Python.


def exception_group_match(error, types):
    """What except* takes of an exception, and the rest."""
    if issubclass(type(error), types):
        return (error if isinstance(error, BaseExceptionGroup) else BaseExceptionGroup("", (error,))), None
    if isinstance(error, BaseExceptionGroup):
        return error.split(types)
    return None, error


def _leaves(error):
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for inner in error.exceptions for leaf in _leaves(inner)]


def _is_part_of(error, original):
    return (
        error.__traceback__ is original.__traceback__
        and error.__cause__ is original.__cause__
        and error.__context__ is original.__context__
    )


def prep_reraise_star(original, errors):
    """What is raised behind the except* clauses, of which each left an exception or None."""
    if not errors:
        return None
    if not isinstance(original, BaseExceptionGroup):
        return errors[0]
    errors = [error for error in errors if error is not None]
    raised = [error for error in errors if not _is_part_of(error, original)]
    kept = {id(leaf) for error in errors if _is_part_of(error, original) for leaf in _leaves(error)}
    again = original.subgroup(lambda error: id(error) in kept) if kept else None
    if not raised:
        return again
    if again is not None:
        raised.append(again)
    return BaseExceptionGroup("", raised) if len(raised) > 1 else raised[0]


# ---- sorting and comparing (listobject.c): the comparisons that CPython makes, in its order


def order_of(keys):
    return sorted(range(len(keys)), key=keys.__getitem__)


def refuse_sort():
    pass


def stopped_by_function():
    """The function of a map, filter … has raised StopIteration. To whoever iterates it is over, but the real one would go on if asked
    again: a region ends here."""


def begin_sort(target):
    """Empties it, so that was_touched knows whether anybody puts something into it meanwhile."""
    list.clear(target)


def was_touched(target):
    return list.__len__(target) != 0


def sorted_by(iterable, key, reverse=False):
    items = []
    for item in iterable:
        items.append(item)
    sort_items(items, key, reverse)
    return items


def list_sort(target, items, key, reverse):
    """The list is empty while its items are sorted, and gets them back even when that fails."""
    begin_sort(target)
    try:
        sort_items(items, key, reverse)
    finally:
        modified = was_touched(target)
        list.clear(target)
        list.extend(target, items)
    if modified:
        raise ValueError("list modified during sort")


def sort_items(items, key, reverse):
    keys = items
    if key is not None:
        keys = []
        for item in items:
            keys.append(key(item))
    if reverse:
        items.reverse()
        if keys is not items:
            keys.reverse()
    try:
        order = order_of(keys)  # None: comparing runs Python code
        if order is None:
            binary_sort(items, keys)
        else:
            items[:] = [items[index] for index in order]
    finally:
        if reverse:
            items.reverse()


def binary_sort(items, keys):
    """What list.sort does with fewer than 64 items: the run at the beginning, then insertion by bisection."""
    size = len(keys)
    if size < 2:
        return
    if size >= 64:
        refuse_sort()
    run = 2
    if keys[1] < keys[0]:
        while run < size and keys[run] < keys[run - 1]:
            run += 1
        items[:run] = items[:run][::-1]
        if keys is not items:
            keys[:run] = keys[:run][::-1]
    else:
        while run < size:
            if keys[run] < keys[run - 1]:
                break
            run += 1
    for start in range(run, size):
        pivot = keys[start]
        low = 0
        high = start
        while low < high:
            middle = (low + high) // 2
            if pivot < keys[middle]:
                high = middle
            else:
                low = middle + 1
        items.insert(low, items.pop(start))
        if keys is not items:
            keys.insert(low, keys.pop(start))


def is_found(element, item):
    """How containers compare. Which of two equal ints is which object changes nothing, and nothing is asked about it."""
    if type(element) is int and type(item) is int:
        return element == item
    return element is item or element == item


def sequence_compare(left, right, operation):
    """Lists and tuples; `operation` is Py_LT … Py_GE."""
    if operation in (2, 3) and isinstance(left, list) and len(left) != len(right):
        return operation == 3
    index = 0
    while index < len(left) and index < len(right):
        a = left[index]
        b = right[index]
        if not is_found(a, b):
            if operation == 0:
                return a < b
            if operation == 1:
                return a <= b
            if operation == 4:
                return a > b
            if operation == 5:
                return a >= b
            return operation == 3
        index += 1
    return (
        len(left) < len(right),
        len(left) <= len(right),
        len(left) == len(right),
        len(left) != len(right),
        len(left) > len(right),
        len(left) >= len(right),
    )[operation]


def dict_compare(left, right, operation):
    """Py_EQ and Py_NE."""
    equal = len(left) == len(right)
    if equal:
        for key, value in left.items():
            if key not in right:
                equal = False
                break
            other = right[key]
            if other is not value and not (value == other):  # noqa: SIM201
                equal = False
                break
    return equal if operation == 2 else not equal


def as_index(value):
    index = type(value).__index__(value)
    if not isinstance(index, int):
        raise TypeError(f"__index__ returned non-int (type {type(index).__name__})")
    return index


def item_at(sequence, key):
    return sequence[as_index(key)]


def slice_at(sequence, key):
    """PySlice_Unpack: the step is asked first."""
    parts = [part if part is None or type(part) is int else as_index(part) for part in (key.step, key.start, key.stop)]
    return sequence[parts[1] : parts[2] : parts[0]]


def length_hint(value):
    """PyObject_LengthHint: list() and tuple() ask, and do not depend on the answer."""
    cls = type(value)
    if hasattr(cls, "__len__"):
        try:
            return len(value)
        except TypeError:
            pass
    if hasattr(cls, "__length_hint__"):
        try:
            hint = cls.__length_hint__(value)
        except TypeError:
            return 0
        if hint is NotImplemented:
            return 0
        if not isinstance(hint, int):
            raise TypeError(f"__length_hint__ must be an integer, not {type(hint).__name__}")
        if hint < 0:
            raise ValueError("__length_hint__() should return >= 0")
    return 0


def unpack_with_rest(iterable, before, after):
    """For `a, *b, c = iterable`."""
    iterator = iter(iterable)
    items = []
    missing = object()
    while len(items) < before:
        item = next(iterator, missing)
        if item is missing:
            raise ValueError(f"not enough values to unpack (expected at least {before + after}, got {len(items)})")
        items.append(item)
    items += list(iterator)
    if len(items) < before + after:
        raise ValueError(f"not enough values to unpack (expected at least {before + after}, got {len(items)})")
    return (*items,)


class _Given:
    def __init__(self, iterator):
        self.iterator = iterator

    def __iter__(self):
        return self

    def __next__(self):
        return next(self.iterator)


def as_given(iterator):
    """What goes over the result does not ask the program for the iterator's iterator. A rule in C++, which gives each_of(iterator)."""
    return _Given(iterator) if isinstance(getattr(type(iterator), "__iter__", None), FunctionType) else iterator


class _Sized:
    def __init__(self, sequence, length):
        self.sequence, self.length = sequence, length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return self.sequence[index]


def reversed_from(sequence, length):
    """A rule in C++; in the interpreter a real one, which does not ask for the length once more."""
    return reversed(_Sized(sequence, length))


# ---- collections.Counter (_count_elements of _collectionsmodule.c)


def count_elements(mapping, iterable):
    iterator = iter(iterable)
    kind = type(mapping)
    if isinstance(mapping, dict) and kind.get is dict.get and kind.__setitem__ is dict.__setitem__:
        for element in iterator:
            dict.__setitem__(mapping, element, dict.get(mapping, element, 0) + 1)
        return
    get = mapping.get
    for element in iterator:
        mapping[element] = get(element, 0) + 1


# ---- functools.lru_cache: a function that logs, whose call the cache makes behind the graph


def begin_cached(function):
    """What follows is a function whose value a cache is to keep. What end_cached() asks for."""
    raise NotImplementedError("a rule of the core stands for this function")


def end_cached(begun, result, wrapper, *arguments, **named):
    """The function is over, and gives this: the call of the wrapper waits for the graph in place of what it has asked for."""
    raise NotImplementedError("a rule of the core stands for this function")


def refuse_cached():
    raise NotImplementedError("a rule of the core stands for this function")


def log_once(wrapper, /, *arguments, **named):
    function = wrapper.__wrapped__
    begun = begin_cached(function)
    try:
        result = function(*arguments, **named)
    except BaseException:
        refuse_cached()  # the cache hands the exception on, and keeps nothing
    return end_cached(begun, result, wrapper, *arguments, **named)
