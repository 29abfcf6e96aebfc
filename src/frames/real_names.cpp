#include "frames/real_rules.h"
#include "py/ref.h"

namespace pellucid::frames {
namespace {

using py::Owned;

PyObject* name_of(const Step& step, int index) noexcept { return PyTuple_GET_ITEM(step.code->co_names, index); }

// NameError(…) with its attribute `name`.
void raise_name_error(PyObject* name) noexcept {
  const auto text = Owned<>::steal(PyUnicode_FromFormat("name '%.200U' is not defined", name));
  const auto error = Owned<>::steal(text ? PyObject_CallOneArg(PyExc_NameError, text.get()) : nullptr);
  if (error && PyObject_SetAttrString(error.get(), "name", name) == 0) PyErr_SetObject(PyExc_NameError, error.get());
}

// Borrowed, or null: not there, or an error is pending.
PyObject* builtin(const char* name) noexcept {
  PyObject* builtins = PyEval_GetBuiltins();
  const auto key = Owned<>::steal(PyUnicode_InternFromString(name));
  return key && PyDict_Check(builtins) ? PyDict_GetItemWithError(builtins, key.get()) : nullptr;
}

// Null without an error: the namespace does not have the name.
Owned<> entry_of(PyObject* names, PyObject* name) noexcept {
  if (PyDict_CheckExact(names)) return Owned<>::share(PyDict_GetItemWithError(names, name));
  auto value = Owned<>::steal(PyObject_GetItem(names, name));
  if (!value && PyErr_ExceptionMatches(PyExc_KeyError) != 0) PyErr_Clear();
  return value;
}

// The method that the class has for instances, bound; null without an error: there is none.
Owned<> special(PyObject* object, const char* name) noexcept {
  const auto key = Owned<>::steal(PyUnicode_InternFromString(name));
  PyObject* found = key ? _PyType_Lookup(Py_TYPE(object), key.get()) : nullptr;
  if (found == nullptr) return {};
  auto held = Owned<>::share(found);
  const descrgetfunc get = Py_TYPE(found)->tp_descr_get;
  return get == nullptr ? std::move(held)
                        : Owned<>::steal(get(found, object, reinterpret_cast<PyObject*>(Py_TYPE(object))));
}

}  // namespace

// The frame that runs is this one: its globals are what PyEval_GetGlobals gives.
bool load_global(Step& step) noexcept {
  PyObject* name = name_of(step, step.arg >> 1);
  auto value = entry_of(PyEval_GetGlobals(), name);
  if (!value && PyErr_Occurred() == nullptr) value = entry_of(PyEval_GetBuiltins(), name);
  if (!value) {
    if (PyErr_Occurred() == nullptr) raise_name_error(name);
    return false;
  }
  if ((step.arg & 1) != 0) *step.top++ = nullptr;
  *step.top++ = value.release();
  return true;
}

bool store_global(Step& step) noexcept {
  if (PyDict_SetItem(PyEval_GetGlobals(), name_of(step, step.arg), step.peek(0)) < 0) return false;
  step.drop(1);
  return true;
}

bool delete_global(Step& step) noexcept {
  PyObject* name = name_of(step, step.arg);
  if (PyDict_DelItem(PyEval_GetGlobals(), name) == 0) return true;
  if (PyErr_ExceptionMatches(PyExc_KeyError) != 0) {
    PyErr_Clear();
    raise_name_error(name);
  }
  return false;
}

bool import_name(Step& step) noexcept {
  const auto import = Owned<>::share(builtin("__import__"));
  if (!import) {
    if (PyErr_Occurred() == nullptr) PyErr_SetString(PyExc_ImportError, "__import__ not found");
    return false;
  }
  PyObject* args[] = {name_of(step, step.arg), PyEval_GetGlobals(), Py_None, step.peek(0), step.peek(1)};
  PyObject* module = PyObject_Vectorcall(import.get(), args, 5, nullptr);
  if (module == nullptr) return false;
  step.replace(2, module);
  return true;
}

namespace {

// An attribute of the name of a str, or null without an error.
Owned<> text_attribute(PyObject* object, const char* name) noexcept {
  auto text = Owned<>::steal(PyObject_GetAttrString(object, name));
  if (!text) PyErr_Clear();
  return text && PyUnicode_Check(text.get()) ? std::move(text) : Owned<>();
}

void raise_cannot_import(PyObject* module, PyObject* package, PyObject* name) noexcept {
  const auto shown =
      package != nullptr ? Owned<>::share(package) : Owned<>::steal(PyUnicode_FromString("<unknown module name>"));
  const auto file = PyModule_Check(module) ? Owned<>::steal(PyModule_GetFilenameObject(module)) : Owned<>();
  PyErr_Clear();
  Owned<> text;
  if (!file || !PyUnicode_Check(file.get())) {
    text = Owned<>::steal(PyUnicode_FromFormat("cannot import name %R from %R (unknown location)", name, shown.get()));
    if (text) PyErr_SetImportError(text.get(), package, nullptr);
    return;
  }
  const auto spec = Owned<>::steal(PyObject_GetAttrString(module, "__spec__"));
  PyErr_Clear();
  const char* words = _PyModuleSpec_IsInitializing(spec.get()) != 0
                          ? "cannot import name %R from partially initialized module %R "
                            "(most likely due to a circular import) (%S)"
                          : "cannot import name %R from %R (%S)";
  text = Owned<>::steal(PyUnicode_FromFormat(words, name, shown.get(), file.get()));
  if (text) PyErr_SetImportError(text.get(), package, file.get());
}

}  // namespace

bool import_from(Step& step) noexcept {
  PyObject *module = step.peek(0), *name = name_of(step, step.arg), *value = nullptr;
  if (_PyObject_LookupAttr(module, name, &value) < 0) return false;
  if (value == nullptr) {  // a submodule that its package does not have as an attribute yet
    const auto package = text_attribute(module, "__name__");
    const auto full = Owned<>::steal(package ? PyUnicode_FromFormat("%U.%U", package.get(), name) : nullptr);
    if (full) value = Py_XNewRef(PyDict_GetItemWithError(PyImport_GetModuleDict(), full.get()));
    if (value == nullptr) {
      if (PyErr_Occurred() == nullptr) raise_cannot_import(module, package.get(), name);
      return false;
    }
  }
  *step.top++ = value;
  return true;
}

bool load_build_class(Step& step) noexcept {
  PyObject* build = builtin("__build_class__");
  if (build == nullptr) {
    if (PyErr_Occurred() == nullptr) PyErr_SetString(PyExc_NameError, "__build_class__ not found");
    return false;
  }
  *step.top++ = Py_NewRef(build);
  return true;
}

bool before_with(Step& step) noexcept {
  PyObject* manager = step.peek(0);
  const auto enter = special(manager, "__enter__");
  if (!enter && PyErr_Occurred() == nullptr) {
    PyErr_Format(PyExc_TypeError, "'%.200s' object does not support the context manager protocol",
                 Py_TYPE(manager)->tp_name);
  }
  auto exit = enter ? special(manager, "__exit__") : Owned<>();
  if (enter && !exit && PyErr_Occurred() == nullptr) {
    PyErr_Format(PyExc_TypeError,
                 "'%.200s' object does not support the context manager protocol (missed __exit__ method)",
                 Py_TYPE(manager)->tp_name);
  }
  if (!exit) return false;
  step.replace(1, exit.release());
  PyObject* entered = PyObject_CallNoArgs(enter.get());
  if (entered == nullptr) return false;
  *step.top++ = entered;
  return true;
}

}  // namespace pellucid::frames
