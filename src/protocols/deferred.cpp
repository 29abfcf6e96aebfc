#include "protocols/deferred.h"

#include <algorithm>
#include <array>

#include "protocols/numbers.h"
#include "protocols/policies.h"
#include "protocols/table.h"
#include "protocols/torch_function.h"
#include "py/traceback.h"
#include "region/names.h"
#include "region/snapshot.h"
#include "region/subclasses.h"

namespace pellucid::protocols {
namespace {

constexpr int kDepth = 50;  // containers that hold themselves end here

// What a call gets that happens later: a container as it is now. Empty: the value may be another one by then.
class Now {
 public:
  explicit Now(Interpreter& t) : t_(t) {}

  py::Owned<> of(PyObject* value, int depth = 0) {
    // Numbers, and sizes with such: the call gets those of its own time.
    if (region::is_number(value) || is_open_size(value)) return py::Owned<>::share(value);
    value = t_.region.shadows.original(value);
    const Cat cat = cat_of(value);
    const bool container = PyList_CheckExact(value) || PyTuple_CheckExact(value) || PyDict_CheckExact(value);
    if (container) return depth < kDepth ? container_now(value, depth) : py::Owned<>();
    if (t_.region.capture->region_ids.contains(value)) return {};
    if (cat == Cat::Tensor) return region::is_subclassed(value) ? py::Owned<>() : py::Owned<>::share(value);
    if (cat == Cat::Tuple && prints_by_code_of_the_program(value)) return {};
    const Contents inside = t_.region.reads.deep_touch(value);
    if (!inside.is_plain() || cat == Cat::Set || cat == Cat::List || cat == Cat::Dict || cat == Cat::Deque) return {};
    return py::Owned<>::share(value);
  }

 private:
  bool prints_by_code_of_the_program(PyObject* value) {
    return std::ranges::any_of(std::array{"__repr__", "__str__", "__format__"}, [&](const char* name) {
      PyObject* method = t_.region.lookups.type_lookup(Py_TYPE(value), name);
      return method != nullptr && PyFunction_Check(method) != 0;
    });
  }

  // The container itself when it existed before and the region has changed nothing in it.
  py::Owned<> container_now(PyObject* value, int depth) {
    PyObject* view = t_.region.reads.touch(value);
    bool same = t_.region.provenance.is_outside(value) && view == value;
    const auto part = [&](PyObject* item) {
      auto now = of(item, depth + 1);
      same = same && now.get() == item;
      return now;
    };
    py::Owned<> copy;
    if (PyDict_CheckExact(value)) {
      copy = py::take(PyDict_New());
      for (const auto& [key, item] : region::entries_now(view)) {
        auto key_now = part(key.get()), now = part(item.get());
        if (!key_now || !now || key_now.get() != key.get()) return {};
        py::check(PyDict_SetItem(copy.get(), key.get(), now.get()));
      }
    } else {
      copy = py::take(PyList_New(0));
      for (const auto& item : region::items_now(view)) {
        auto now = part(item.get());
        if (!now) return {};
        py::check(PyList_Append(copy.get(), now.get()));
      }
      if (PyTuple_CheckExact(value)) copy = py::take(PyList_AsTuple(copy.get()));
    }
    return same ? py::Owned<>::share(value) : std::move(copy);
  }

  Interpreter& t_;
};

// The object whose method is called, and the file that print writes to: what they are is seen when the call happens.
bool is_taken_as_it_is(Interpreter& t, PyObject* callable, PyObject* value, PyObject* keyword, bool first) {
  if (!t.region.provenance.is_outside(value)) return false;
  if (keyword != nullptr) return PyUnicode_CompareWithASCIIString(keyword, "file") == 0;
  if (!first || !(PyFunction_Check(callable) || Py_IS_TYPE(callable, &PyMethodDescr_Type))) return false;
  auto name = py::take(PyObject_GetAttr(callable, region::names().__name__));
  return PyUnicode_Check(name.get()) && t.region.lookups.type_lookup(Py_TYPE(value), name.get()) == callable;
}

// The exception that is being handled, the stack: later there is none, or another.
bool asks_for_frames(PyObject* keyword, PyObject* value) {
  if (keyword == nullptr || value == Py_None || value == Py_False) return false;
  return PyUnicode_CompareWithASCIIString(keyword, "exc_info") == 0 ||
         PyUnicode_CompareWithASCIIString(keyword, "stack_info") == 0;
}

struct Deferred {
  py::Owned<> args, kwargs, texts;
};

[[noreturn]] void cannot_wait(PyObject* callable) { unsupported(Reason::SideEffect, {{"callee", describe(callable)}}); }

// (part, …) with tensors as they must still be.
py::Owned<> parts_now(Interpreter& t, PyObject* callable, PyObject* parts) {
  auto now = py::take(PyList_New(0));
  for (const auto& part : region::items_now(parts)) {
    if (PyUnicode_Check(part.get())) {
      py::check(PyList_Append(now.get(), part.get()));
      continue;
    }
    PyObject* tensor = PyTuple_GET_ITEM(part.get(), 0);
    if (PyLong_AsUnsignedLong(PyTuple_GET_ITEM(part.get(), 3)) !=
        aten::version_of(t.region.recorder.lift(tensor).get()))
      cannot_wait(callable);
    auto kept = py::take(PyTuple_GetSlice(part.get(), 0, 3));
    py::check(PyList_Append(now.get(), kept.get()));
  }
  return py::take(PyList_AsTuple(now.get()));
}

Deferred deferred_arguments(Interpreter& t, PyObject* callable, Args args) {
  Deferred call{py::take(PyTuple_New(static_cast<Py_ssize_t>(args.size()))), py::take(PyDict_New()),
                py::take(PyDict_New())};
  for (std::size_t i = 0; i < args.values.size(); ++i) {
    PyObject* value = args[i];
    PyObject* keyword = args.keyword_of(i);
    if (asks_for_frames(keyword, value))
      unsupported(Reason::SideEffect, {{"callee", "logging with exc_info or stack_info"}});
    py::Owned<> now;
    if (PyObject* parts = parts_of_late_text(value)) {
      auto place = keyword != nullptr ? py::Owned<>::share(keyword) : py::take(PyLong_FromSize_t(i));
      py::check(PyDict_SetItem(call.texts.get(), place.get(), parts_now(t, callable, parts).get()));
      now = py::Owned<>::share(Py_None);
    } else if (is_taken_as_it_is(t, callable, value, keyword, i == 0)) {
      now = py::Owned<>::share(value);
    } else {
      now = Now(t).of(value);
    }
    if (!now) cannot_wait(callable);
    if (keyword != nullptr) {
      py::check(PyDict_SetItem(call.kwargs.get(), keyword, now.get()));
    } else {
      PyTuple_SET_ITEM(call.args.get(), static_cast<Py_ssize_t>(i), now.release());
    }
  }
  return call;
}

// Compiled code calls whatever is there: it must still be what was registered.
void guard_callable(Interpreter& t, PyObject* callable) {
  if (!t.region.provenance.is_outside(callable)) return t.region.provenance.note_constant(callable);
  t.region.provenance.guard_identity(callable);
}

// Calls what it is given from frames that look like those that are open now: for line numbers of logging and warnings.
py::Owned<> call_site(Interpreter& t) {
  static PyObject* const make = py::import_attr("pellucid._logging", "_call_site").release();
  auto stack = py::take(PyList_New(0));
  for (const Frame* frame = t.region.top; frame != nullptr; frame = frame->back.get()) {
    if (frame->hidden) continue;
    auto place =
        py::take(Py_BuildValue("(OiO)", frame->code.get(), py::line_of(frame->code.get(), frame->at), frame->globals));
    py::check(PyList_Append(stack.get(), place.get()));
  }
  return py::take(PyObject_CallOneArg(make, stack.get()));
}

// `in_order`: the callable may look at what the region has changed.
Result wait(Interpreter& t, PyObject* callable, const Deferred& call, bool in_order) {
  if (asks_modes(t)) cannot_wait(callable);  // the mode would see what it does
  static PyObject* const print = py::import_attr("builtins", "print").release();
  static PyObject* const with_texts = py::import_attr("pellucid._logging", "_call_with_texts").release();
  py::Owned<> target = py::Owned<>::share(callable), args = call.args.copy(), kwargs = call.kwargs.copy();
  const auto through = [&](py::Owned<> next, py::Owned<> arguments) {
    t.region.provenance.note_constant(next.get());
    target = std::move(next);
    args = std::move(arguments);
    kwargs = py::take(PyDict_New());
  };
  if (callable != print) through(call_site(t), py::take(PyTuple_Pack(3, target.get(), args.get(), kwargs.get())));
  if (PyDict_GET_SIZE(call.texts.get()) != 0) {
    through(py::Owned<>::share(with_texts),
            py::take(PyTuple_Pack(5, callable != print ? target.get() : Py_None, callable, call.args.get(),
                                  call.kwargs.get(), call.texts.get())));
  }
  if (in_order) {
    t.region.deferred.add_in_order(target.get(), args.get(), kwargs.get());
  } else {
    t.region.deferred.add(target.get(), args.get(), kwargs.get());
  }
  return Result::none();
}

bool is_same_callable(PyObject* wanted, PyObject* callable, PyObject* self) {
  if (wanted == callable) return true;
  if (PyMethod_Check(wanted)) return PyMethod_GET_FUNCTION(wanted) == callable && PyMethod_GET_SELF(wanted) == self;
  if (!PyCFunction_CheckExact(wanted) || !PyCFunction_CheckExact(callable)) return false;
  return PyCFunction_GET_FUNCTION(wanted) == PyCFunction_GET_FUNCTION(callable) &&
         PyCFunction_GET_SELF(wanted) == PyCFunction_GET_SELF(callable);
}

constexpr const char* kLateText = "pellucid.late_text";

}  // namespace

bool is_reorderable(const Interpreter& t, PyObject* callable, PyObject* self) {
  if (!t.region.deferred.reorderable) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(t.region.deferred.reorderable.get()); ++i) {
    if (is_same_callable(PyTuple_GET_ITEM(t.region.deferred.reorderable.get(), i), callable, self)) return true;
  }
  return false;
}

Result reorder(Interpreter& t, PyObject* callable, Args args) {
  const Deferred call = deferred_arguments(t, callable, args);
  guard_callable(t, callable);
  return wait(t, callable, call, !PyCFunction_Check(callable));
}

Result defer(Interpreter& t, PyObject* callable, Args args) {
  const Deferred call = deferred_arguments(t, callable, args);
  t.region.provenance.note_constant(callable);
  return wait(t, callable, call, true);  // it reads levels, formatters, filters
}

Result defer_as_it_is(Interpreter& t, PyObject* callable, Args args) {
  Deferred call{py::take(PyTuple_New(static_cast<Py_ssize_t>(args.size()))), py::take(PyDict_New()),
                py::take(PyDict_New())};
  for (std::size_t i = 0; i < args.values.size(); ++i) {
    if (PyObject* keyword = args.keyword_of(i)) {
      py::check(PyDict_SetItem(call.kwargs.get(), keyword, args[i]));
    } else {
      PyTuple_SET_ITEM(call.args.get(), static_cast<Py_ssize_t>(i), Py_NewRef(args[i]));
    }
  }
  t.region.provenance.note_constant(callable);
  return wait(t, callable, call, true);
}

py::Owned<> reorderable_functions() {
  auto set = py::import_attr("pellucid.config", "reorderable_logging_functions");
  return PyObject_Size(set.get()) > 0 ? py::take(PySequence_Tuple(set.get())) : py::Owned<>();
}

py::Owned<> new_late_text(Interpreter& t, py::Owned<> parts) {
  const auto drop = [](PyObject* capsule) {
    Py_XDECREF(static_cast<PyObject*>(PyCapsule_GetPointer(capsule, kLateText)));
  };
  auto text = py::take(PyCapsule_New(parts.get(), kLateText, drop));
  Py_INCREF(parts.get());  // the capsule's
  t.region.provenance.keep(text.get());
  t.region.capture->region_ids.insert(text.get());  // it never leaves the region
  return text;
}

PyObject* parts_of_late_text(PyObject* object) {
  if (!PyCapsule_IsValid(object, kLateText)) return nullptr;
  return static_cast<PyObject*>(PyCapsule_GetPointer(object, kLateText));
}

}  // namespace pellucid::protocols
