// str(), repr() and format() of any object.
#pragma once
#include "protocols/interpreter.h"

namespace pellucid::protocols {

Result to_text(Interpreter& t, PyObject* value, const char* how);  // "__str__", "__repr__"
Result format(Interpreter& t, PyObject* value, PyObject* spec);

}  // namespace pellucid::protocols
