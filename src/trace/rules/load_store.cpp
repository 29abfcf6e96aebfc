// Locals, cells, globals, constants, the value stack.
#include "aten/aten.h"
#include "py/cpython.h"
#include "py/interrupts.h"
#include "region/unread.h"
#include "trace/rules/rules.h"

namespace pellucid::trace {

using region::names;

Next unbound(Executor& ex, const Frame& frame, int slot, bool free_variable) {
  const std::string name = py::text_of(py::slot_name(frame.code.get(), slot));
  const std::string text =
      free_variable
          ? "cannot access free variable '" + name + "' where it is not associated with a value in enclosing scope"
          : "cannot access local variable '" + name + "' where it is not associated with a value";
  if (free_variable)
    ex.raise_name_error(py::slot_name(frame.code.get(), slot), text);
  else
    ex.raise(PyExc_UnboundLocalError, text);
  return Next::Raise;
}

// The namespaces are known by identity.
Result load_global(Executor& ex, Frame& frame, PyObject* name) {
  ex.region.doing = "reads a global";
  bool found = false;
  if (frame.hidden) {  // a polyfill's own module does not change
    PyObject* value = PyDict_GetItemWithError(frame.globals, name);
    if (value == nullptr) value = PyDict_GetItemWithError(frame.builtins, name);
    if (value == nullptr) throw GraphBreak(Reason::Internal, {{"detail", "a polyfill reads " + py::text_of(name)}});
    return Result::of(py::Owned<>::share(value));
  }
  ex.region.provenance.note_constant(frame.globals);
  Result value = ex.region.reads.dict_get(frame.globals, name, &found);
  if (found) return value;
  ex.region.provenance.note_constant(frame.builtins);
  value = ex.region.reads.dict_get(frame.builtins, name, &found);
  if (found) return value;
  auto text = "name '" + py::text_of(name) + "' is not defined";
  return ex.raise_name_error(name, text);
}

namespace {

// A tensor's first variable names its node, so that the graph reads like the program. As in torch._dynamo, not only
// fakes: a call may give an input itself.
void name_node(Executor& ex, const Frame& frame, int slot, PyObject* value) {
  if (value == nullptr || !aten::is_tensor(value) || frame.hidden) return;
  const auto found = ex.region.capture->node_of.find(value);
  if (found != ex.region.capture->node_of.end())
    found->second->graph->rename(found->second, py::text_of(py::slot_name(frame.code.get(), slot)));
}

// A variable that functions share names nodes where it is a variable of the region's own function.
void name_shared_node(Executor& ex, PyObject* cell, PyObject* value) {
  const Frame* entry = ex.region.top;
  while (entry->back) entry = entry->back.get();
  for (std::size_t slot = 0; slot < entry->fast.size(); ++slot) {
    if (entry->fast[slot].get() == cell) return name_node(ex, *entry, static_cast<int>(slot), value);
  }
}

bool is_cell_of_code(const Frame& frame, int slot) { return slot < py::first_free_slot(frame.code.get()); }

}  // namespace

Next do_NOP(Executor&, Frame&, int) { return Next::Go; }
Next do_RESUME(Executor&, Frame&, int) { return Next::Go; }
Next do_POP_TOP(Executor&, Frame& f, int) {
  drop(f, 1);
  return Next::Go;
}
Next do_PUSH_NULL(Executor&, Frame& f, int) {
  f.stack.emplace_back();
  return Next::Go;
}
Next do_COPY(Executor&, Frame& f, int arg) {
  f.stack.push_back(py::Owned<>::share(peek(f, static_cast<std::size_t>(arg) - 1)));
  return Next::Go;
}
Next do_SWAP(Executor&, Frame& f, int arg) {
  std::swap(f.stack[f.stack.size() - 1], f.stack[f.stack.size() - static_cast<std::size_t>(arg)]);
  return Next::Go;
}
Next do_LOAD_CONST(Executor&, Frame& f, int arg) {
  f.stack.push_back(py::Owned<>::share(PyTuple_GET_ITEM(f.code->co_consts, arg)));
  return Next::Go;
}
Next do_LOAD_FAST(Executor& ex, Frame& f, int arg) {
  PyObject* value = f.local(arg);
  if (value == nullptr) return unbound(ex, f, arg, false);
  if (region::is_unread(value)) {
    ex.region.doing = "reads a variable";
    f.fast[static_cast<std::size_t>(arg)] = ex.region.provenance.read(value);
  }
  f.stack.push_back(py::Owned<>::share(f.local(arg)));
  return Next::Go;
}
Next do_STORE_FAST(Executor& ex, Frame& f, int arg) {
  name_node(ex, f, arg, peek(f, 0));
  f.fast[static_cast<std::size_t>(arg)] = pop(f);
  return Next::Go;
}
Next do_DELETE_FAST(Executor& ex, Frame& f, int arg) {
  if (f.local(arg) == nullptr) return unbound(ex, f, arg, false);
  f.fast[static_cast<std::size_t>(arg)] = {};
  return Next::Go;
}

Next do_MAKE_CELL(Executor& ex, Frame& f, int arg) {
  auto& slot = f.fast[static_cast<std::size_t>(arg)];
  const auto content = ex.region.provenance.read(slot.get());  // whoever has the cell reads it
  auto cell = py::take(PyCell_New(content.get()));
  ex.region.provenance.note_made(cell.get());
  slot = std::move(cell);
  return Next::Go;
}
Next do_COPY_FREE_VARS(Executor& ex, Frame& f, int arg) {
  PyObject* closure = f.function->func_closure;
  const auto base = static_cast<std::size_t>(py::slot_count(f.code.get()) - arg);
  const source::Source* source = f.back ? ex.region.provenance.source_of(f.function.object()) : nullptr;
  for (int i = 0; i < arg; ++i) {
    PyObject* cell = PyTuple_GET_ITEM(closure, i);
    if (source != nullptr && !ex.region.provenance.is_outside(cell) && !ex.region.provenance.is_made(cell)) {
      auto& table = ex.region.capture->sources;
      ex.region.provenance.note_read(cell, source->step == source::Step::Const
                                               ? table.constant(cell)
                                               : table.item(table.member(source, names().__closure__), i));
    }
    f.fast[base + static_cast<std::size_t>(i)] = py::Owned<>::share(cell);
  }
  return Next::Go;
}
Next do_LOAD_CLOSURE(Executor&, Frame& f, int arg) {
  f.stack.push_back(py::Owned<>::share(f.local(arg)));
  return Next::Go;
}
Next do_LOAD_DEREF(Executor& ex, Frame& f, int arg) {
  ex.region.doing = "reads a closure variable";
  PyObject* value = ex.region.shadows.cell_get(f.local(arg));
  if (value == nullptr) return unbound(ex, f, arg, !is_cell_of_code(f, arg));
  f.stack.push_back(py::Owned<>::share(value));
  return Next::Go;
}
Next do_STORE_DEREF(Executor& ex, Frame& f, int arg) {
  name_shared_node(ex, f.local(arg), peek(f, 0));
  ex.region.shadows.cell_set(f.local(arg), peek(f, 0));
  drop(f, 1);
  return Next::Go;
}
Next do_DELETE_DEREF(Executor& ex, Frame& f, int arg) {
  if (ex.region.shadows.cell_get(f.local(arg)) == nullptr) return unbound(ex, f, arg, !is_cell_of_code(f, arg));
  ex.region.shadows.cell_set(f.local(arg), nullptr);
  return Next::Go;
}

Next do_LOAD_GLOBAL(Executor& ex, Frame& f, int arg) {
  Result value = load_global(ex, f, name_at(f, arg >> 1));
  if (value.is_value() && (arg & 1) != 0) f.stack.emplace_back();
  return push(f, std::move(value));
}
Next do_STORE_GLOBAL(Executor& ex, Frame& f, int arg) {
  ex.region.provenance.note_constant(f.globals);
  ex.region.shadows.dict_set(f.globals, name_at(f, arg), peek(f, 0));
  drop(f, 1);
  return Next::Go;
}
Next do_DELETE_GLOBAL(Executor& ex, Frame& f, int arg) {
  ex.region.provenance.note_constant(f.globals);
  if (!ex.region.reads.dict_contains(f.globals, name_at(f, arg))) {
    ex.raise_name_error(name_at(f, arg), "name '" + py::text_of(name_at(f, arg)) + "' is not defined");
    return Next::Raise;
  }
  ex.region.shadows.dict_set(f.globals, name_at(f, arg), nullptr);
  return Next::Go;
}

Next do_LOAD_ATTR(Executor& ex, Frame& f, int arg) {
  auto object = py::Owned<>::share(peek(f, 0));
  Result r = protocols::getattr(ex, object.get(), name_at(f, arg));
  drop_below(f, r, 1);
  return push(f, std::move(r));
}
Next do_LOAD_METHOD(Executor& ex, Frame& f, int arg) {
  auto object = py::Owned<>::share(peek(f, 0));
  bool unbound_method = false;
  Result r = protocols::getattr_method(ex, object.get(), name_at(f, arg), &unbound_method);
  if (r.did == Result::Did::Raised) return Next::Raise;
  drop_below(f, r, 1);
  if (unbound_method) {
    f.stack.push_back(std::move(r.value));
    f.stack.push_back(std::move(object));
  } else {
    // NULL below a callable that is bound already; a pushed frame's result lands above the NULL.
    Frame& waiting = f;
    waiting.stack.emplace_back();
    return push(waiting, std::move(r));
  }
  return Next::Go;
}
Next do_STORE_ATTR(Executor& ex, Frame& f, int arg) {
  auto object = py::Owned<>::share(peek(f, 0));
  auto value = py::Owned<>::share(peek(f, 1));
  Result r = protocols::setattr(ex, object.get(), name_at(f, arg), value.get());
  if (r.did == Result::Did::Raised) return Next::Raise;
  drop(f, 2);
  return Next::Go;
}
Next do_DELETE_ATTR(Executor& ex, Frame& f, int arg) {
  auto object = py::Owned<>::share(peek(f, 0));
  Result r = protocols::setattr(ex, object.get(), name_at(f, arg), nullptr);
  if (r.did == Result::Did::Raised) return Next::Raise;
  drop(f, 1);
  return Next::Go;
}

Next do_IMPORT_NAME(Executor& ex, Frame& f, int arg) {
  // An import that has happened is a look-up; one that has not is carried out now, as the program would do at this
  // point.
  if (ex.region.shadows.is_shadowed(PyImport_GetModuleDict()))
    throw GraphBreak(Reason::UnsupportedOpcode, {{"statement", "an import after a change of sys.modules"}});
  PyObject* from = peek(f, 0);
  PyObject* level = peek(f, 1);
  auto module = py::Owned<>();
  try {
    module = py::interruptible([&] {
      return PyImport_ImportModuleLevelObject(name_at(f, arg), f.globals, Py_None, from, PyLong_AsLong(level));
    });
  } catch (const py::PythonError& error) {
    // Nothing can be guarded that says that a module still cannot be found: each call has to look for it.
    if (PyObject_IsInstance(error.value(), PyExc_ImportError) != 1) throw;
    throw GraphBreak(Reason::UnsupportedOpcode,
                     {{"statement", "an import that fails (" + py::text_of(name_at(f, arg)) + ")"}});
  }
  ex.region.provenance.note_constant(module.get());
  // Which module the name stands for is an entry of sys.modules.
  PyObject* modules = PyImport_GetModuleDict();
  std::string key = py::text_of(name_at(f, arg));
  if (PyLong_AsLong(level) > 0) {
    const char* name = PyModule_Check(module.get()) ? PyModule_GetName(module.get()) : nullptr;
    if (name == nullptr) PyErr_Clear();
    key = name == nullptr ? "" : name;
  }
  if (PyLong_AsLong(level) == 0 && PyObject_IsTrue(from) != 1) key = key.substr(0, key.find('.'));
  auto entry = py::str(key);
  if (PyDict_GetItemWithError(modules, entry.get()) == module.get()) {
    auto& sources = ex.region.capture->sources;
    ex.region.provenance.guard(region::Kind::ID_MATCH, sources.dict_item(sources.constant(modules), entry.get()),
                               module.copy());
  }
  drop(f, 2);
  f.stack.push_back(std::move(module));
  return Next::Go;
}
Next do_IMPORT_FROM(Executor& ex, Frame& f, int arg) {
  PyObject* module = peek(f, 0);
  if (!PyModule_Check(module))
    throw GraphBreak(Reason::UnsupportedOpcode, {{"statement", "an import from something that is no module"}});
  Result r = protocols::getattr(ex, module, name_at(f, arg));
  if (r.did != Result::Did::Raised) return push(f, std::move(r));
  // A submodule that is not bound in its package yet.
  if (PyModule_GetName(module) == nullptr) {
    PyErr_Clear();
    throw GraphBreak(Reason::UnsupportedOpcode, {{"statement", "an import from something that is no module"}});
  }
  auto full = py::take(PyUnicode_FromFormat("%s.%U", PyModule_GetName(module), name_at(f, arg)));
  PyObject* found = PyDict_GetItemWithError(PyImport_GetModuleDict(), full.get());
  if (found == nullptr) {
    auto path = py::Owned<>::steal(PyModule_GetFilenameObject(module));
    if (!path) PyErr_Clear();
    auto package = py::str(PyModule_GetName(module));
    const std::string where = path ? py::text_of(path.get()) : "unknown location";
    auto text = py::str("cannot import name " + py::repr_of(name_at(f, arg)) + " from " + py::repr_of(package.get()) +
                        " (" + where + ")");
    PyErr_SetImportError(text.get(), package.get(), path.get());
    ex.raise_pending(py::PythonError());
    return Next::Raise;
  }
  ex.exception = {};
  ex.region.provenance.note_constant(found);
  f.stack.push_back(py::Owned<>::share(found));
  return Next::Go;
}

}  // namespace pellucid::trace
