// Class bodies: names are looked up in the namespace that the metaclass has prepared, then outside.
#include "py/cpython.h"
#include "trace/rules/rules.h"

namespace pellucid::trace {

using region::names;

namespace {

// Only the frames of class bodies have one; module bodies and exec'd code are never captured.
PyObject* namespace_of(const Frame& frame) {
  if (!frame.names) throw GraphBreak(Reason::UnsupportedOpcode, {{"statement", "a statement of a module body"}});
  return frame.names.get();
}

Next name_error(Executor& ex, PyObject* name) {
  ex.raise_name_error(name, "name '" + py::text_of(name) + "' is not defined");
  return Next::Raise;
}

// The entry of a dict. Anything else that a metaclass prepares is asked through its own __getitem__.
bool find_in_namespace(Executor& ex, Frame& frame, PyObject* name, py::Owned<>* value) {
  PyObject* space = namespace_of(frame);
  bool own = region::cat_of(space) != Cat::Dict;
  if (!own && !PyDict_CheckExact(space)) {
    PyObject* getitem = ex.region.lookups.type_lookup(Py_TYPE(space), names().__getitem__);
    own = (getitem != nullptr && PyFunction_Check(getitem)) ||
          ex.region.lookups.type_lookup(Py_TYPE(space), names().__missing__) != nullptr;
  }
  if (own)
    throw GraphBreak(Reason::UnsupportedProtocol,
                     {{"protocol", "names of a class body"}, {"type", Py_TYPE(space)->tp_name}});
  bool found = false;
  Result entry = ex.region.reads.dict_get(space, name, &found);
  *value = std::move(entry.value);
  return found;
}

}  // namespace

Next do_LOAD_NAME(Executor& ex, Frame& f, int arg) {
  py::Owned<> value;
  if (!find_in_namespace(ex, f, name_at(f, arg), &value)) return push(f, load_global(ex, f, name_at(f, arg)));
  f.stack.push_back(std::move(value));
  return Next::Go;
}

Next do_STORE_NAME(Executor& ex, Frame& f, int arg) {
  auto value = py::Owned<>::share(peek(f, 0));
  Result r = protocols::store_subscript(ex, namespace_of(f), name_at(f, arg), value.get());
  if (r.did == Result::Did::Raised) return Next::Raise;
  drop(f, 1);
  return Next::Go;
}

Next do_DELETE_NAME(Executor& ex, Frame& f, int arg) {
  py::Owned<> value;
  if (!find_in_namespace(ex, f, name_at(f, arg), &value)) return name_error(ex, name_at(f, arg));
  return protocols::store_subscript(ex, namespace_of(f), name_at(f, arg), nullptr).did == Result::Did::Raised
             ? Next::Raise
             : Next::Go;
}

Next do_LOAD_CLASSDEREF(Executor& ex, Frame& f, int arg) {
  py::Owned<> value;
  if (!find_in_namespace(ex, f, py::slot_name(f.code.get(), arg), &value)) {
    value = py::Owned<>::share(ex.region.shadows.cell_get(f.local(arg)));
    if (!value) return unbound(ex, f, arg, arg >= py::first_free_slot(f.code.get()));
  }
  f.stack.push_back(std::move(value));
  return Next::Go;
}

Next do_SETUP_ANNOTATIONS(Executor& ex, Frame& f, int) {
  py::Owned<> value;
  if (find_in_namespace(ex, f, names().__annotations__, &value)) return Next::Go;
  auto annotations = py::take(PyDict_New());
  Result r = protocols::store_subscript(ex, namespace_of(f), names().__annotations__, annotations.get());
  return r.did == Result::Did::Raised ? Next::Raise : Next::Go;
}

Next do_LOAD_BUILD_CLASS(Executor& ex, Frame& f, int) {
  ex.region.doing = "makes a class";
  bool found = false;
  ex.region.provenance.note_constant(f.builtins);
  Result build = ex.region.reads.dict_get(f.builtins, names().__build_class__, &found);
  if (!found) build = ex.raise(PyExc_NameError, "__build_class__ not found");
  return push(f, std::move(build));
}

}  // namespace pellucid::trace
