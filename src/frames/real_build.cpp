#include "frames/real_rules.h"
#include "py/ref.h"

namespace pellucid::frames {

using py::Owned;

bool build_set(Step& step) noexcept {
  auto set = Owned<>::steal(PySet_New(nullptr));
  bool done = static_cast<bool>(set);
  for (int i = step.arg; done && i > 0; --i) done = PySet_Add(set.get(), step.peek(i - 1)) == 0;
  if (done) step.replace(step.arg, set.release());
  return done;
}

bool build_map(Step& step) noexcept {
  auto dict = Owned<>::steal(PyDict_New());
  bool done = static_cast<bool>(dict);
  for (int i = 2 * step.arg; done && i > 0; i -= 2)
    done = PyDict_SetItem(dict.get(), step.peek(i - 1), step.peek(i - 2)) == 0;
  if (done) step.replace(2 * step.arg, dict.release());
  return done;
}

bool set_add(Step& step) noexcept {
  if (PySet_Add(step.peek(step.arg), step.peek(0)) < 0) return false;
  step.drop(1);
  return true;
}

bool map_add(Step& step) noexcept {
  if (PyDict_SetItem(step.peek(step.arg + 1), step.peek(1), step.peek(0)) < 0) return false;
  step.drop(2);
  return true;
}

bool list_extend(Step& step) noexcept {
  PyObject* iterable = step.peek(0);
  const auto none = Owned<>::steal(_PyList_Extend(reinterpret_cast<PyListObject*>(step.peek(step.arg)), iterable));
  if (!none) {
    if (PyErr_ExceptionMatches(PyExc_TypeError) != 0 && Py_TYPE(iterable)->tp_iter == nullptr &&
        PySequence_Check(iterable) == 0) {
      PyErr_Clear();
      PyErr_Format(PyExc_TypeError, "Value after * must be an iterable, not %.200s", Py_TYPE(iterable)->tp_name);
    }
    return false;
  }
  step.drop(1);
  return true;
}

bool set_update(Step& step) noexcept {
  if (_PySet_Update(step.peek(step.arg), step.peek(0)) < 0) return false;
  step.drop(1);
  return true;
}

bool dict_update(Step& step) noexcept {
  PyObject* update = step.peek(0);
  if (PyDict_Update(step.peek(step.arg), update) < 0) {
    if (PyErr_ExceptionMatches(PyExc_AttributeError) != 0)
      PyErr_Format(PyExc_TypeError, "'%.200s' object is not a mapping", Py_TYPE(update)->tp_name);
    return false;
  }
  step.drop(1);
  return true;
}

namespace {

// What the interpreter makes of a failed merge of keyword arguments for `callee`.
void word_merge_error(PyObject* callee, PyObject* update) noexcept {
  const bool no_mapping = PyErr_ExceptionMatches(PyExc_AttributeError) != 0;
  if (!no_mapping && PyErr_ExceptionMatches(PyExc_KeyError) == 0) return;
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  const bool has_key = value != nullptr && PyTuple_Check(value) && PyTuple_GET_SIZE(value) == 1;
  if (!no_mapping && !has_key) return PyErr_Restore(type, value, traceback);
  const auto held = Owned<>::steal(value), old_type = Owned<>::steal(type), old_traceback = Owned<>::steal(traceback);
  const auto name = Owned<>::steal(_PyObject_FunctionStr(callee));
  if (!name) return;
  if (no_mapping) {
    PyErr_Format(PyExc_TypeError, "%U argument after ** must be a mapping, not %.200s", name.get(),
                 Py_TYPE(update)->tp_name);
  } else {
    PyErr_Format(PyExc_TypeError, "%U got multiple values for keyword argument '%S'", name.get(),
                 PyTuple_GET_ITEM(value, 0));
  }
}

}  // namespace

bool dict_merge(Step& step) noexcept {
  if (_PyDict_MergeEx(step.peek(step.arg), step.peek(0), 2) < 0) {
    word_merge_error(step.peek(step.arg + 2), step.peek(0));
    return false;
  }
  step.drop(1);
  return true;
}

namespace {

Owned<> iterator_to_unpack(PyObject* value) noexcept {
  auto iterator = Owned<>::steal(PyObject_GetIter(value));
  if (!iterator && PyErr_ExceptionMatches(PyExc_TypeError) != 0 && Py_TYPE(value)->tp_iter == nullptr &&
      PySequence_Check(value) == 0) {
    PyErr_Format(PyExc_TypeError, "cannot unpack non-iterable %.200s object", Py_TYPE(value)->tp_name);
  }
  return iterator;
}

// The first `count` elements, appended to the list `items`. `words`: the message, with how many are expected and found.
bool take_elements(PyObject* iterator, int count, const char* words, int expected, PyObject* items) noexcept {
  for (int i = 0; i < count; ++i) {
    const auto item = Owned<>::steal(PyIter_Next(iterator));
    if (!item) {
      if (PyErr_Occurred() == nullptr) PyErr_Format(PyExc_ValueError, words, expected, i);
      return false;
    }
    if (PyList_Append(items, item.get()) < 0) return false;
  }
  return true;
}

constexpr const char* kTooFew = "not enough values to unpack (expected %d, got %d)";
constexpr const char* kFewerThan = "not enough values to unpack (expected at least %d, got %d)";

// Pushes list[end - 1] … list[begin], which leaves list[begin] on top.
void push_reversed(Step& step, PyObject* list, Py_ssize_t begin, Py_ssize_t end) noexcept {
  for (Py_ssize_t i = end; i > begin; --i) *step.top++ = Py_NewRef(PyList_GET_ITEM(list, i - 1));
}

}  // namespace

bool unpack_sequence(Step& step) noexcept {
  auto items = Owned<>::steal(PyList_New(0));
  const auto iterator = items ? iterator_to_unpack(step.peek(0)) : Owned<>();
  if (!iterator || !take_elements(iterator.get(), step.arg, kTooFew, step.arg, items.get())) return false;
  const auto another = Owned<>::steal(PyIter_Next(iterator.get()));
  if (another) PyErr_Format(PyExc_ValueError, "too many values to unpack (expected %d)", step.arg);
  if (PyErr_Occurred() != nullptr) return false;
  step.drop(1);
  push_reversed(step, items.get(), 0, step.arg);
  return true;
}

bool unpack_ex(Step& step) noexcept {
  const int before = step.arg & 0xff, after = step.arg >> 8;
  auto items = Owned<>::steal(PyList_New(0));
  const auto iterator = items ? iterator_to_unpack(step.peek(0)) : Owned<>();
  if (!iterator || !take_elements(iterator.get(), before, kFewerThan, before + after, items.get())) return false;
  auto rest = Owned<>::steal(PySequence_List(iterator.get()));
  if (!rest) return false;
  const Py_ssize_t count = PyList_GET_SIZE(rest.get());
  if (count < after) {
    PyErr_Format(PyExc_ValueError, kFewerThan, before + after, before + static_cast<int>(count));
    return false;
  }
  auto middle = Owned<>::steal(PyList_GetSlice(rest.get(), 0, count - after));
  if (!middle) return false;
  step.drop(1);
  push_reversed(step, rest.get(), count - after, count);
  *step.top++ = middle.release();
  push_reversed(step, items.get(), 0, before);
  return true;
}

bool format_value(Step& step) noexcept {
  const bool has_spec = (step.arg & 4) != 0;
  PyObject* spec = has_spec ? step.peek(0) : nullptr;
  auto value = Owned<>::share(step.peek(has_spec ? 1 : 0));
  switch (step.arg & 3) {
    case 1:
      value = Owned<>::steal(PyObject_Str(value.get()));
      break;
    case 2:
      value = Owned<>::steal(PyObject_Repr(value.get()));
      break;
    case 3:
      value = Owned<>::steal(PyObject_ASCII(value.get()));
      break;
    default:
      break;
  }
  if (value && (!PyUnicode_CheckExact(value.get()) || spec != nullptr))
    value = Owned<>::steal(PyObject_Format(value.get(), spec));
  if (!value) return false;
  step.replace(has_spec ? 2 : 1, value.release());
  return true;
}

}  // namespace pellucid::frames
