#include "region/custom_operators.h"

#include <algorithm>
#include <string>

#include "base/text.h"
#include "py/interrupts.h"
#include "region/region.h"

namespace pellucid::region {
namespace {

py::Owned<> part_of(PyObject* object, const char* name) { return py::take(PyObject_GetAttrString(object, name)); }

std::string text_of(PyObject* object) { return py::text_of(py::take(PyObject_Str(object)).get()); }

// Of those torch says itself what can be compiled.
bool is_of_torch(const std::string& name) {
  for (const char* library : {"aten::", "prim::", "prims::"}) {
    if (name.starts_with(library)) return true;
  }
  return false;
}

// By torch's own rule, which the packet goes by when it is called.
py::Owned<> resolved(PyObject* packet, const std::string& name, Args args) {
  const auto overloads = py::take(PyObject_CallMethod(packet, "overloads", nullptr));
  if (PySequence_Size(overloads.get()) == 1) {
    const auto only = py::take(PySequence_GetItem(overloads.get(), 0));
    return py::take(PyObject_GetAttr(packet, only.get()));
  }
  static PyObject* const resolve = py::import_attr("torch._C", "_jit_resolve_packet").release();
  const auto qualified = py::str(name);
  std::vector<PyObject*> values{qualified.get()};
  values.insert(values.end(), args.values.begin(), args.values.end());
  const auto chosen = py::Owned<>::steal(PyObject_Vectorcall(resolve, values.data(), args.size() + 1, args.kwnames));
  if (!chosen) {
    const py::PythonError error;
    if (py::is_interruption(error.value())) throw error;
    unsupported(Reason::UnresolvedOverload, {{"operator", name}, {"error", shortened(text_of(error.value()), 1000)}});
  }
  return py::take(PyObject_GetAttr(packet, chosen.get()));
}

bool is_compliant(PyObject* overload) {
  static PyObject* const tag = part_of(py::import_attr("torch", "Tag").get(), "pt2_compliant_tag").release();
  const auto tags = part_of(overload, "tags");
  const int found = PySequence_Contains(tags.get(), tag);
  py::check(found);
  return found == 1;
}

bool wants_compliant_ones() {
  return py::import_attr("pellucid.config", "only_allow_pt2_compliant_ops").get() == Py_True;
}

void add_once(std::vector<py::Owned<>>& operators, PyObject* overload) {
  const auto is_it = [&](const py::Owned<>& known) { return known.get() == overload; };
  if (!std::ranges::any_of(operators, is_it)) operators.push_back(py::Owned<>::share(overload));
}

bool is_overload(PyObject* callable) {
  static PyObject* const single = py::import_attr("torch._ops", "OpOverload").release();
  return reinterpret_cast<PyObject*>(Py_TYPE(callable)) == single;
}

bool is_packet(PyObject* callable) {
  static PyObject* const packet = py::import_attr("torch._ops", "OpOverloadPacket").release();
  return reinterpret_cast<PyObject*>(Py_TYPE(callable)) == packet;
}

// "aten::add.Tensor" of one overload, "aten::add" of all; empty: no operator of torch.
std::string operator_name(PyObject* callable) {
  if (is_overload(callable)) return py::text_of(py::take(PyObject_CallMethod(callable, "name", nullptr)).get());
  return is_packet(callable) ? py::text_of(part_of(callable, "_qualified_op_name").get()) : std::string();
}

bool is_communication(const std::string& name) {
  return name.starts_with("_c10d_functional::") || name.starts_with("c10d_functional::");
}

}  // namespace

bool communicates(PyObject* callable) { return is_communication(operator_name(callable)); }

void note_operator(Region& region, PyObject* callable, Args args) {
  const std::string name = operator_name(callable);
  if (name.empty() || is_of_torch(name)) return;
  if (is_communication(name)) {
    static PyObject* const load = py::import_attr("pellucid._distributed", "load_functional").release();
    const auto done = py::take(PyObject_CallNoArgs(load));
  }
  const auto overload = is_overload(callable) ? py::Owned<>::share(callable) : resolved(callable, name, args);
  const bool compliant = is_compliant(overload.get());
  auto& capture = *region.capture;
  add_once(compliant ? capture.compliant_operators : capture.other_operators, overload.get());
  if (!compliant && wants_compliant_ones()) unsupported(Reason::NotCompliant, {{"operator", text_of(overload.get())}});
}

}  // namespace pellucid::region
