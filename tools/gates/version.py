"""What is particular to one version of CPython stands in files that are named after it (*311*)."""

import re
from collections import Counter

from source import bare, cpp_files

VERSION = "311"
# py/cpython.h and py/eval_frame.h choose by version.
_CHOICES = ("cpython.h", "eval_frame.h")
_PARTICULAR = re.compile(
    r"<internal/pycore_\w+\.h>|<opcode\.h>|\b(?:"
    r"Py_BUILD_CORE|_PyInterpreterFrame|_PyCFrame|_Py_CODEUNIT|_Py_OPCODE|_Py_OPARG|_PyCode_CODE|_PyOpcode_\w+|INLINE_CACHE_\w+"
    r"|PyDictKeysObject|_dictkeysobject|_dictvalues|_PyDict\w*Values\w*|dk_\w+|ma_version_tag|tp_version_tag"
    r"|prev_instr|stacktop|f_frame|gi_iframe|gi_frame_state|cframe|current_frame|is_entry|FRAME_\w+|co_nlocalsplus|localsplus"
    r"|co_linetable|co_exceptiontable|co_code_adaptive|co_localsplusnames|_co_\w+"
    r")\b"
)


_INCLUDE = re.compile(rf'#include "[\w/]+{VERSION}\.h"')


def check(root):
    found = Counter()
    for path in cpp_files(root):
        if VERSION not in path.name and path.name not in _CHOICES:
            count = len(_PARTICULAR.findall(bare(path))) + len(_INCLUDE.findall(path.read_text()))
            found[
                f"{path.relative_to(root)}: particular to CPython {VERSION[0]}.{VERSION[1:]}, in a file not named after it"
            ] += count
    return found
