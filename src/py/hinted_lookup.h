// Lookups that remember where they found a name: for code that reads the same attribute or key of similar objects again
// and again. The key found at the remembered place is compared, so a hint that no longer fits costs a lookup and never
// a wrong value. Names are exact, interned str. Nothing here runs Python code or makes a dict. Borrowed results, null
// when absent.
#pragma once
#include <Python.h>

namespace pellucid::py {

PyObject* instance_attr_hinted(PyObject* object, PyObject* name, Py_ssize_t& hint) noexcept;
PyObject* dict_get_hinted(PyObject* dict, PyObject* name, Py_ssize_t& hint) noexcept;

}  // namespace pellucid::py
