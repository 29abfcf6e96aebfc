"""Which of CPython's test modules are run, and why some are not."""

from __future__ import annotations

# In the order of the report. The first six are those the project began with.
_MODULES = """
test_generators test_exceptions test_with test_list test_dict test_set
test_tuple test_slice test_bool test_int test_float test_complex test_long test_range test_string test_unicode test_bytes
test_fstring test_format test_unpack test_unpack_ex test_unary test_augassign test_binop test_compare test_contains test_richcmp
test_call test_extcall test_keywordonlyarg test_positional_only_arg test_named_expressions test_patma test_raise test_except_star
test_exception_group test_exception_variations test_exception_hierarchy test_scope test_global test_decorators test_descr
test_property test_super test_metaclass test_dynamicclassattribute test_iter test_iterlen test_enumerate test_listcomps
test_setcomps test_dictcomps test_genexps test_generator_stop test_contextlib test_deque test_collections test_ordered_dict
test_defaultdict test_userdict test_userlist test_userstring test_weakref test_weakset test_functools test_itertools test_operator
test_copy test_enum test_dataclasses test_heapq test_bisect test_string_literals test_types test_typing test_traceback
test_grammar test_opcodes test_builtin test_class test_closures test_funcattrs test_hash test_index test_isinstance
test_abc test_baseexception test_sort test_sys_setprofile test_yield_from test_pow test_numeric_tower test_math test_fractions
test_statistics test_json test_random test_struct test_array test_memoryview test_reprlib test_pprint test_textwrap test_graphlib
test_dictviews test_frozen test_lambda test_inspect test_warnings test_gc test_sys_settrace test_coroutines test_asyncgen
test_decimal test_re
"""
MODULES = _MODULES.split()

# Not run, and why. A module of MODULES that this interpreter does not have is reported as missing.
UNSUITABLE = {
    "test_str": "named test_unicode in 3.11",
    "test_closures": "not in 3.11: test_scope",
    "test_classmethod": "not in 3.11: test_decorators, test_descr",
    "test_lambda": "not in 3.11: test_grammar",
    "test_json": "a package whose load_tests runs every test with two implementations",
    "test_frozen": "about the import system's frozen modules",
    "test_random": "statistics of the generators: minutes of arithmetic, nothing of the language",
    "test_statistics": "as test_random",
    "test_decimal": "loads the module twice and runs arithmetic tables for minutes",
    "test_coroutines": "coroutines are never captured: test methods drive them by hand",
    "test_asyncgen": "as test_coroutines, with event loops",
    "test_sys_settrace": "compares the events a tracer gets, line for line: a compiled call runs other lines",
    "test_sys_setprofile": "as test_sys_settrace",
    "test_gc": "about the collector's own counts",
    "test_inspect": "compares source lines of frames on the stack",
}

# Enough for a table of a minute: small modules of many kinds.
_QUICK = """
test_with test_list test_dict test_tuple test_slice test_bool test_augassign test_raise test_contains test_unary test_iterlen
test_setcomps test_exception_variations test_dynamicclassattribute test_defaultdict test_string_literals test_keywordonlyarg
"""
QUICK = _QUICK.split()


def chosen(names: list[str]) -> list[str]:
    """`test_list` or `list`; nothing: all that are suitable."""
    if not names:
        return [name for name in MODULES if name not in UNSUITABLE]
    return [name if name.startswith("test_") else f"test_{name}" for name in names]
