// Calls of every form: which callable is inlined, which has a rule, which is a torch operation.
#pragma once
#include <span>

#include "protocols/interpreter.h"

namespace pellucid::protocols {

Result call(Interpreter& t, PyObject* callable, Args args);
Result call1(Interpreter& t, PyObject* callable, PyObject* a);
Result call2(Interpreter& t, PyObject* callable, PyObject* a, PyObject* b);
Result call3(Interpreter& t, PyObject* callable, PyObject* a, PyObject* b, PyObject* c);
Result call_ex(Interpreter& t, PyObject* callable, PyObject* positional, PyObject* kwargs);  // f(*positional, **kwargs)
// A function of pellucid.polyfills, which capture follows as it does the program.
Result call_polyfill(Interpreter& t, const char* name, Args args);
Result call_polyfill(Interpreter& t, const char* name, std::span<PyObject* const> args);

// The bound locals of a call of a Python function, as CPython binds them. False: the call does not fit (CPython then
// words the TypeError).
bool bind_arguments(Interpreter& t, PyFunctionObject* function, PyCodeObject* code, Args args,
                    std::vector<py::Owned<>>& fast);
void refuse_disabled(PyFunctionObject* function);  // with the mark of torch.compiler.disable

Result call_type(Interpreter& t, PyObject* type, Args args);
Result make_instance(Interpreter& t, PyObject* type, Args args);  // __new__, then __init__
Result initialise_instance(Interpreter& t, py::Owned<> instance, PyObject* type, Args args);
Result call_native(Interpreter& t, PyObject* callable, Args args);  // of C code

// The result of setattr, setitem and their like (nothing to push) as that of a call which gives None.
Result as_none(Result result);

}  // namespace pellucid::protocols
