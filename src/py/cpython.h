// What pellucid must know of the insides of the interpreter, for the version of CPython that it is built for.
#pragma once
#include <patchlevel.h>

#if PY_VERSION_HEX >= 0x030b0000 && PY_VERSION_HEX < 0x030c0000
#include "py/cpython311.h"
#else
#error "there is no py/cpython3xx.h for this version of Python"
#endif
