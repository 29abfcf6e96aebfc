#include "runtime/guard_filter.h"

#include <unordered_map>

#include "py/traceback.h"

namespace pellucid::runtime {
namespace {

using Values = std::unordered_map<const source::Source*, PyObject*>;

// What the region read where, as far as it is an object that it knows by its place.
Values values_of(const region::Capture& capture) {
  Values values;
  for (const auto& [object, source] : capture.source_of) values.emplace(source, object);
  return values;
}

PyObject* value_of(const guards::Guard& guard, const Values& values) {  // borrowed; null: not known
  if (guard.source == nullptr) return nullptr;
  if (guard.kind == guards::Kind::EQUALS_MATCH) return guard.operand.get();
  if (guard.source->step == source::Step::Const) return guard.source->operand.get();
  const auto found = values.find(guard.source);
  return found == values.end() ? nullptr : found->second;
}

// The objects that the source leads through, innermost first.
py::Owned<> owners_of(const guards::Guard& guard, const Values& values) {
  auto owners = py::take(PyList_New(0));
  for (const source::Source* s = guard.source; s != nullptr; s = s->base) {
    if (const auto found = values.find(s); found != values.end()) py::check(PyList_Append(owners.get(), found->second));
  }
  return owners;
}

bool is_global(const source::Source* source) {
  if (source == nullptr || source->base == nullptr) return false;
  const source::Source* root = source->root();
  return root->step == source::Step::Const && PyDict_Check(root->operand.get());
}

py::Owned<> row_of(const guards::Guard& guard, const Values& values) {
  PyObject* value = value_of(guard, values);
  PyCodeObject* code = guard.why.code.get();
  const std::string kind(guards::name_of(guard.kind));
  const std::string name = guard.source == nullptr ? "" : source::print(guard.source);
  const auto file = code == nullptr ? py::str("") : py::Owned<>::share(code->co_filename);
  return py::take(Py_BuildValue("(ssOONOOi)", kind.c_str(), name.c_str(), value == nullptr ? Py_False : Py_True,
                                value == nullptr ? Py_None : value, owners_of(guard, values).release(),
                                is_global(guard.source) ? Py_True : Py_False, file.get(),
                                code == nullptr ? 0 : py::line_of(code, guard.why.offset)));
}

}  // namespace

void filter_guards(PyObject* backend, const region::Capture& capture, std::vector<guards::Guard>& guards) {
  auto filter = py::Owned<>::steal(PyObject_GetAttrString(backend, "guard_filter_fn"));
  if (!filter) PyErr_Clear();
  if (!filter || filter.get() == Py_None) return;
  const Values values = values_of(capture);
  auto rows = py::take(PyList_New(0));
  for (const auto& guard : guards) py::check(PyList_Append(rows.get(), row_of(guard, values).get()));
  auto ask = py::import_attr("pellucid._guard_filter", "_kept");
  const auto kept = py::take(PyObject_CallFunctionObjArgs(ask.get(), filter.get(), rows.get(), nullptr));
  std::vector<guards::Guard> remaining;
  for (std::size_t i = 0; i < guards.size(); ++i) {
    if (PyList_GET_ITEM(kept.get(), static_cast<Py_ssize_t>(i)) == Py_True) remaining.push_back(std::move(guards[i]));
  }
  guards = std::move(remaining);
}

}  // namespace pellucid::runtime
