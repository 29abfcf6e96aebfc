// What a waiting frame makes of a result during capture: the reading of frames/waits.def that follows it. The one for
// real frames is frames/settle.cpp.
#include "protocols/protocols.h"
#include "py/traceback.h"
#include "trace/executor.h"

namespace pellucid::trace {

using K = Continuation::Kind;

namespace {

using OnValue = Result (*)(Executor&, Continuation&, py::Owned<> value);
using OnError = Result (*)(Executor&, Continuation&);  // Executor::exception is set

bool matches(const py::Owned<>& exception, PyObject* type) {
  return PyErr_GivenExceptionMatches(exception.get(), type) != 0;
}

Result type_error(Executor& ex, const std::string& message) { return ex.raise(PyExc_TypeError, message); }

Result on_value_Push(Executor&, Continuation&, py::Owned<> value) { return Result::of(std::move(value)); }

Result on_value_Drop(Executor&, Continuation&, py::Owned<>) { return Result::done(); }

Result on_value_Replace(Executor&, Continuation& then, py::Owned<>) { return Result::of(std::move(then.a)); }

// ---- instances

Result on_value_Init(Executor& ex, Continuation& then, py::Owned<> value) {
  if (value.get() == Py_None) return Result::of(std::move(then.a));
  return type_error(ex, std::string("__init__() should return None, not '") + Py_TYPE(value.get())->tp_name + "'");
}

Result on_value_NewThenInit(Executor& ex, Continuation& then, py::Owned<> value) {
  if (!PyObject_TypeCheck(value.get(), reinterpret_cast<PyTypeObject*>(then.a.get())))
    return Result::of(std::move(value));
  std::vector<PyObject*> values;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(then.b.get()); ++i) values.push_back(PyTuple_GET_ITEM(then.b.get(), i));
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(value.get()));
  return protocols::initialise_instance(ex, std::move(value), type, Args{values, then.c.get()});
}

// ---- truth, length, iterators, text

// What __len__ gave.
Result checked_length(Executor& ex, py::Owned<> value) {
  if (!PyLong_Check(value.get())) {
    if (Py_TYPE(value.get())->tp_as_number != nullptr && Py_TYPE(value.get())->tp_as_number->nb_index != nullptr)
      unsupported(Reason::UnsupportedProtocol, {{"protocol", "__index__"}, {"type", Py_TYPE(value.get())->tp_name}});
    return type_error(
        ex, std::string("'") + Py_TYPE(value.get())->tp_name + "' object cannot be interpreted as an integer");
  }
  if (Py_SIZE(value.get()) < 0) return ex.raise(PyExc_ValueError, "__len__() should return >= 0");
  if (PyLong_AsSsize_t(value.get()) < 0) return ex.raise_pending(py::PythonError());
  return Result::of(std::move(value));
}

Result on_value_Length(Executor& ex, Continuation&, py::Owned<> value) { return checked_length(ex, std::move(value)); }

Result on_value_Bool(Executor& ex, Continuation& then, py::Owned<> value) {
  if (then.stage == 1 && !PyBool_Check(value.get()))
    return type_error(ex, std::string("__bool__ should return bool, returned ") + Py_TYPE(value.get())->tp_name);
  if (then.stage == 2) {
    Result length = checked_length(ex, std::move(value));
    if (!length.is_value()) return length;
    value = std::move(length.value);
  }
  Result truth = protocols::truth(ex, value.get());
  if (!truth.is_value())
    unsupported(Reason::UnsupportedProtocol,
                {{"protocol", "truth of the result"}, {"type", Py_TYPE(value.get())->tp_name}});
  return Result::boolean((truth.value.get() == Py_True) != (then.number == 1));
}

Result on_value_IterResult(Executor& ex, Continuation&, py::Owned<> value) {
  if (region::cat_of(value.get()) == Cat::Generator || PyIter_Check(value.get()) != 0)
    return Result::of(std::move(value));
  return type_error(ex, std::string("iter() returned non-iterator of type '") + Py_TYPE(value.get())->tp_name + "'");
}

Result on_value_Str(Executor& ex, Continuation& then, py::Owned<> value) {
  if (PyUnicode_Check(value.get())) return Result::of(std::move(value));
  return type_error(ex, std::string(then.number == 1 ? "__repr__" : "__str__") + " returned non-string (type " +
                            Py_TYPE(value.get())->tp_name + ")");
}

// ---- the ends of iterators

// The instruction goes on behind the loop; its iterator goes.
Result leave_loop(Executor& ex, const Continuation& then) {
  ex.exception = {};
  drop(*ex.region.top, 1);
  ex.region.top->next = static_cast<int>(then.number);
  return Result::done();
}

constexpr OnValue on_value_ForIter = on_value_Push;
Result on_error_ForIter(Executor& ex, Continuation& then) {
  if (!matches(ex.exception, PyExc_StopIteration)) return Result::raised();
  return leave_loop(ex, then);
}

constexpr OnValue on_value_Send = on_value_Push;
Result on_error_Send(Executor& ex, Continuation& then) {
  if (!matches(ex.exception, PyExc_StopIteration)) {
    if (then.stage == frames::kThrownIn) ex.unwinder.throw_from_inner();
    return Result::raised();
  }
  auto value = py::take(PyObject_GetAttrString(ex.exception.get(), "value"));
  Result left = leave_loop(ex, then);
  ex.region.top->stack.push_back(std::move(value));
  return left;
}

// ---- attributes

constexpr OnValue on_value_GetAttrFallback = on_value_Push;
Result on_error_GetAttrFallback(Executor& ex, Continuation& then) {
  if (!matches(ex.exception, PyExc_AttributeError)) return Result::raised();
  ex.exception = {};
  return ex.and_then(protocols::call2(ex, then.c.get(), then.a.get(), then.b.get()),
                     Continuation(K::NamesAttribute, then.a.get(), then.b.get()));
}

constexpr OnValue on_value_NamesAttribute = on_value_Push;
Result on_error_NamesAttribute(Executor& ex, Continuation& then) {
  if (matches(ex.exception, PyExc_AttributeError)) py::name_attribute(ex.exception.get(), then.a.get(), then.b.get());
  return Result::raised();
}

constexpr OnValue on_value_Default = on_value_Push;
Result on_error_Default(Executor& ex, Continuation& then) {
  if (!matches(ex.exception, then.a.get())) return Result::raised();
  ex.exception = {};
  return Result::of(then.b.copy());
}

Result on_value_HasAttr(Executor&, Continuation&, py::Owned<>) { return Result::boolean(true); }
Result on_error_HasAttr(Executor& ex, Continuation&) {
  if (!matches(ex.exception, PyExc_AttributeError)) return Result::raised();
  ex.exception = {};
  return Result::boolean(false);
}

// ---- operators and calls

Result on_value_Reflected(Executor& ex, Continuation& then, py::Owned<> value) {
  if (value.get() != Py_NotImplemented) return Result::of(std::move(value));
  return protocols::reflected(ex, then.a.get(), then.b.get(), static_cast<int>(then.number), then.stage);
}

Result on_value_CallEx(Executor& ex, Continuation& then, py::Owned<> value) {
  return protocols::call_ex(ex, then.a.get(), value.get(), then.b.get());
}

Result on_value_CallWith(Executor& ex, Continuation& then, py::Owned<> value) {
  const Py_ssize_t n = PyTuple_GET_SIZE(then.b.get());
  std::vector<PyObject*> values;
  for (Py_ssize_t i = 0; i < n; ++i)
    values.push_back(i == then.number ? value.get() : PyTuple_GET_ITEM(then.b.get(), i));
  return protocols::call(ex, then.a.get(), Args{values, then.c.get()});
}

Result on_value_SetItemOn(Executor& ex, Continuation& then, py::Owned<> value) {
  Result stored = protocols::store_subscript(ex, then.a.get(), then.b.get(), value.get());
  if (stored.did == Result::Did::Raised) return stored;
  if (stored.did == Result::Did::Pushed)
    unsupported(Reason::UnsupportedProtocol, {{"protocol", "__setitem__"}, {"type", Py_TYPE(then.a.get())->tp_name}});
  return Result::of(then.c ? then.c.copy() : std::move(value));
}

// ---- exceptions and the ends of generators

Result on_value_Raise(Executor& ex, Continuation& then, py::Owned<> value) {
  if (then.stage == frames::kThrownIn) return ex.unwinder.throw_back(std::move(value));
  return ex.unwinder.raise_with_cause(then.a.get(), std::move(value), then.b.get());
}
Result on_error_Raise(Executor& ex, Continuation& then) {
  if (then.stage == frames::kThrownIn) ex.unwinder.throw_from_inner();
  return Result::raised();
}

bool ends_generator(const Executor& ex) {
  return matches(ex.exception, PyExc_GeneratorExit) || matches(ex.exception, PyExc_StopIteration);
}

Result on_value_Close(Executor& ex, Continuation&, py::Owned<>) {
  return ex.raise(PyExc_RuntimeError, "generator ignored GeneratorExit");
}
Result on_error_Close(Executor& ex, Continuation&) {
  if (!ends_generator(ex)) return Result::raised();
  ex.exception = {};
  return Result::none();
}

[[noreturn]] void refuse_finalizer(Executor& ex) {
  if (!ex.exception) ex.exception = py::take(PyObject_CallNoArgs(PyExc_RuntimeError));  // nothing can go on behind it
  unsupported(Reason::Finalizer, {{"type", "generator that its end lets go on"}});
}
Result on_value_Finalize(Executor& ex, Continuation&, py::Owned<>) { refuse_finalizer(ex); }
Result on_error_Finalize(Executor& ex, Continuation&) {
  if (!ends_generator(ex)) refuse_finalizer(ex);
  ex.exception = {};
  return Result::done();
}

struct Row {
  OnValue on_value;
  OnError on_error;  // null: exceptions pass by
};

#define ON_ERROR_Values(name) nullptr
#define ON_ERROR_Errors(name) on_error_##name
constexpr Row kRows[] = {
#define WAIT(name, takes, where) {on_value_##name, ON_ERROR_##takes(name)},
#include "frames/waits.def"
};

}  // namespace

// Whether it only hands the value on: the others look at it, and get no stand-in for a number.
static bool only_moves(K kind) {
  switch (kind) {
    case K::Push:
    case K::Drop:
    case K::Replace:
    case K::ForIter:
    case K::Send:
    case K::GetAttrFallback:
    case K::NamesAttribute:
    case K::Reflected:
    case K::CallWith:
    case K::Default:
    case K::HasAttr:
    case K::SetItemOn:
      return true;
    default:
      return false;
  }
}

Result Executor::and_then(Result result, Continuation next) {
  for (;;) {
    const Row& row = kRows[static_cast<std::size_t>(next.kind)];
    switch (result.did) {
      case Result::Did::Done:
        return result;
      case Result::Did::Pushed:
        result.frame->then.append(std::move(next));
        return result;
      case Result::Did::Raised:
        if (row.on_error != nullptr) result = row.on_error(*this, next);
        break;
      case Result::Did::Value:
        if (region::is_number(result.value.get()) && !only_moves(next.kind))
          result.value = py::Owned<>::share(region.numbers.plain(result.value.get()));
        result = row.on_value(*this, next, std::move(result.value));
        break;
    }
    if (!next.next) return result;
    Continuation rest = std::move(*next.next);
    next = std::move(rest);
  }
}

}  // namespace pellucid::trace
