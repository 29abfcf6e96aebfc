#include "guards/home.h"

#include "py/cpython.h"
#include "source/source.h"

namespace pellucid::guards {

PyObject* home_globals(PyObject* entry_globals, std::span<const Guard> guards) {
  static PyObject* const forward = py::interned("forward").release();
  if (entry_globals == nullptr || !source::module_of_namespace(entry_globals).starts_with("torch.nn."))
    return entry_globals;
  for (const Guard& guard : guards) {
    const source::Source* at = guard.source;
    if (guard.kind != Kind::TYPE_MATCH || at->step != source::Step::Local || at->index != 0) continue;
    PyObject* function = py::type_lookup(reinterpret_cast<PyTypeObject*>(guard.operand.get()), forward);
    return function != nullptr && PyFunction_Check(function) ? PyFunction_GET_GLOBALS(function) : entry_globals;
  }
  return entry_globals;
}

}  // namespace pellucid::guards
