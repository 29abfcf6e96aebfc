// try, except, finally, with, raise.
#include "trace/rules/rules.h"

namespace pellucid::trace {

using K = Continuation::Kind;
using region::names;

namespace {

bool is_exception_class(PyObject* o) { return PyExceptionClass_Check(o); }

// The instance that `raise x` means; calls the class when x is one.
Result instance_of(Executor& ex, PyObject* value) {
  if (is_exception_class(value)) return protocols::call(ex, value, Args{});
  if (PyExceptionInstance_Check(value)) return Result::of(py::Owned<>::share(value));
  return ex.raise(PyExc_TypeError, "exceptions must derive from BaseException");
}

}  // namespace

Next do_RAISE_VARARGS(Executor& ex, Frame& f, int arg) {
  if (arg == 0) {
    PyObject* current = ex.topmost_handled();
    if (current == nullptr) {
      // One that the region's caller handles may be meant.
      throw GraphBreak(Reason::UnsupportedProtocol, {{"protocol", "raise without an exception"}, {"type", "region"}});
    } else {
      ex.unwinder.refuse_to_leave(f, current);
      ex.exception = py::Owned<>::share(current);
    }
    return Next::Raise;
  }
  auto cause = arg == 2 ? py::Owned<>::share(peek(f, 0)) : py::Owned<>();
  auto value = py::Owned<>::share(peek(f, arg == 2 ? 1 : 0));
  if (PyExceptionInstance_Check(value.get()) && ex.region.provenance.is_outside(value.get())) {
    unsupported(Reason::UnsupportedProtocol,
                {{"protocol", "raising an exception that existed before"}, {"type", Py_TYPE(value.get())->tp_name}});
  }
  if (arg == 2 && (is_exception_class(value.get()) || is_exception_class(cause.get()))) {
    PyObject* args[] = {value.get(), cause.get()};
    ex.and_then(protocols::call_polyfill(ex, "raise_from", args), Continuation(K::Drop));
    drop(f, 2);
    return Next::Go;
  }
  Result r = instance_of(ex, value.get());
  if (r.did == Result::Did::Raised) return Next::Raise;
  if (r.did == Result::Did::Pushed) {
    ex.and_then(std::move(r), Continuation(K::Raise, value.get()));
    drop(f, static_cast<std::size_t>(arg));
    return Next::Go;
  }
  if (cause) {
    if (cause.get() != Py_None && !PyExceptionInstance_Check(cause.get())) {
      ex.raise(PyExc_TypeError, "exception causes must derive from BaseException");
      return Next::Raise;
    }
  }
  ex.unwinder.raise_with_cause(value.get(), std::move(r.value), cause.get());
  return Next::Raise;
}

Next do_PUSH_EXC_INFO(Executor& ex, Frame& f, int) {
  auto exception = pop(f);
  auto& slot = ex.unwinder.handled_slot();
  f.stack.push_back(slot ? slot.copy() : py::Owned<>::share(ex.unwinder.handled_before_all()));
  slot = exception.copy();
  f.stack.push_back(std::move(exception));
  return Next::Go;
}
Next do_POP_EXCEPT(Executor& ex, Frame& f, int) {
  auto before = pop(f);
  if (before.get() == frames::callers_exception()) before = {};
  ex.unwinder.handled_slot() = std::move(before);
  return Next::Go;
}
Next do_RERAISE(Executor& ex, Frame& f, int arg) {
  if (arg != 0) {
    // The value below says where the exception came from.
    PyObject* lasti = ex.region.numbers.plain(peek(f, static_cast<std::size_t>(arg)));
    if (!PyLong_Check(lasti)) throw GraphBreak(Reason::Internal, {{"detail", "RERAISE without lasti"}});
    f.reraise = f.at;
    f.reraises = static_cast<int>(PyLong_AsLong(lasti)) * 2;
  }
  ex.unwinder.refuse_to_leave(f, peek(f, 0));
  ex.exception = pop(f);
  return Next::Raise;
}
Next do_CHECK_EXC_MATCH(Executor& ex, Frame& f, int) {
  PyObject* wanted = peek(f, 0);
  PyObject* exception = peek(f, 1);
  auto check = [&](PyObject* type) { return is_exception_class(type); };
  bool valid = PyTuple_Check(wanted) || check(wanted);
  for (Py_ssize_t i = 0; PyTuple_Check(wanted) && i < PyTuple_GET_SIZE(wanted); ++i)
    valid = valid && check(PyTuple_GET_ITEM(wanted, i));
  if (!valid) {
    ex.raise(PyExc_TypeError, "catching classes that do not inherit from BaseException is not allowed");
    return Next::Raise;
  }
  const bool match = PyErr_GivenExceptionMatches(exception, wanted) != 0;
  drop(f, 1);
  f.stack.push_back(py::Owned<>::share(match ? Py_True : Py_False));
  return Next::Go;
}
namespace {

bool may_be_caught_by_star(Executor& ex, PyObject* wanted) {
  auto each = [&](PyObject* type) {
    if (!is_exception_class(type)) {
      ex.raise(PyExc_TypeError, "catching classes that do not inherit from BaseException is not allowed");
      return false;
    }
    if (PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type),
                         reinterpret_cast<PyTypeObject*>(PyExc_BaseExceptionGroup))) {
      ex.raise(PyExc_TypeError, "catching ExceptionGroup with except* is not allowed. Use except instead.");
      return false;
    }
    return true;
  };
  if (!PyTuple_Check(wanted)) return each(wanted);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(wanted); ++i) {
    if (!each(PyTuple_GET_ITEM(wanted, i))) return false;
  }
  return true;
}

bool is_group(PyObject* o) {
  return PyObject_TypeCheck(o, reinterpret_cast<PyTypeObject*>(PyExc_BaseExceptionGroup)) != 0;
}

// Guards what the helpers below read: messages, members and their types.
void read_exceptions(Executor& ex, PyObject* value) {
  if (!is_group(value)) return;
  ex.region.numbers.plain(protocols::getattr(ex, value, py::interned("message").get()).value.get());
  const Result members = protocols::getattr(ex, value, py::interned("exceptions").get());
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(members.value.get()); ++i)
    read_exceptions(ex, PyTuple_GET_ITEM(members.value.get(), i));
}

// A helper of ours that C code would be: run for real on exceptions whose classes have no Python code for it.
py::Owned<> on_groups(Executor& ex, const char* name, PyObject* first, PyObject* second) {
  read_exceptions(ex, first);
  if (is_group(first)) {
    for (const char* method : {"split", "subgroup", "derive"}) {
      PyObject* own = ex.region.lookups.type_lookup(Py_TYPE(first), method);
      if (own == nullptr || PyFunction_Check(own))
        throw GraphBreak(Reason::UserDunder, {{"operation", "except*"}, {"callee", method}});
    }
  }
  auto helper = py::import_attr("pellucid.polyfills_language", name);
  return py::take(PyObject_CallFunctionObjArgs(helper.get(), first, second, nullptr));
}

}  // namespace

Next do_CHECK_EG_MATCH(Executor& ex, Frame& f, int) {
  auto wanted = py::Owned<>::share(peek(f, 0)), exception = py::Owned<>::share(peek(f, 1));
  if (!may_be_caught_by_star(ex, wanted.get())) return Next::Raise;
  if (exception.get() == Py_None) {
    drop(f, 1);
    f.stack.push_back(py::Owned<>::share(Py_None));
    return Next::Go;
  }
  auto pair = on_groups(ex, "exception_group_match", exception.get(), wanted.get());
  PyObject *match = PyTuple_GET_ITEM(pair.get(), 0), *rest = PyTuple_GET_ITEM(pair.get(), 1);
  drop(f, 2);
  f.stack.push_back(match == Py_None ? std::move(exception) : py::Owned<>::share(rest));
  f.stack.push_back(py::Owned<>::share(match));
  if (match != Py_None) ex.unwinder.handled_slot() = py::Owned<>::share(match);
  return Next::Go;
}

Next do_PREP_RERAISE_STAR(Executor& ex, Frame& f, int) {
  PyObject* left = ex.region.shadows.original(peek(f, 0));
  ex.region.reads.deep_touch(left);
  left = ex.region.shadows.readable(left);
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(left); ++i) read_exceptions(ex, PyList_GET_ITEM(left, i));
  auto result = on_groups(ex, "prep_reraise_star", peek(f, 1), left);
  drop(f, 2);
  f.stack.push_back(std::move(result));
  return Next::Go;
}

Next do_BEFORE_WITH(Executor& ex, Frame& f, int) {
  auto manager = py::Owned<>::share(peek(f, 0));
  PyTypeObject* type = Py_TYPE(manager.get());
  ex.region.doing = "enters a context manager";
  PyObject* enter = ex.region.lookups.type_lookup(type, names().__enter__);
  PyObject* exit = ex.region.lookups.type_lookup(type, names().__exit__);
  if (enter == nullptr || exit == nullptr) {
    const char* missing = enter == nullptr ? "" : " (missed __exit__ method)";
    ex.raise(PyExc_TypeError,
             std::string("'") + type->tp_name + "' object does not support the context manager protocol" + missing);
    return Next::Raise;
  }
  Result bound_exit = protocols::bind(ex, exit, manager.get(), reinterpret_cast<PyObject*>(type));
  Result bound_enter = protocols::bind(ex, enter, manager.get(), reinterpret_cast<PyObject*>(type));
  if (!bound_exit.is_value() || !bound_enter.is_value())
    throw GraphBreak(Reason::UnsupportedProtocol, {{"protocol", "with"}, {"type", type->tp_name}});
  Result r = protocols::call(ex, bound_enter.value.get(), Args{});
  if (r.did == Result::Did::Raised) return Next::Raise;
  drop(f, 1);
  f.stack.push_back(std::move(bound_exit.value));
  return push(f, std::move(r));
}
Next do_WITH_EXCEPT_START(Executor& ex, Frame& f, int) {
  // Stack: exit, lasti, previous exc_info, exception. The result goes on top.
  auto exception = py::Owned<>::share(peek(f, 0));
  auto exit = py::Owned<>::share(peek(f, 3));
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(exception.get()));
  Result traceback = protocols::getattr(ex, exception.get(), names().__traceback__);
  return push(f, protocols::call3(ex, exit.get(), type, exception.get(), traceback.value.get()));
}

}  // namespace pellucid::trace
