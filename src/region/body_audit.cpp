#include "region/body_audit.h"

#include <algorithm>

#include "aten/aten.h"

namespace pellucid::region {
namespace {

int add_part(PyObject* part, void* parts) {
  static_cast<std::vector<py::Owned<>>*>(parts)->push_back(py::Owned<>::share(part));
  return 0;
}

bool are_same(const std::vector<py::Owned<>>& one, const std::vector<py::Owned<>>& other) {
  return std::ranges::equal(one, other, [](const auto& a, const auto& b) { return a.get() == b.get(); });
}

}  // namespace

std::vector<py::Owned<>> parts_of(PyObject* object) {
  std::vector<py::Owned<>> parts;
  if (PyFunction_Check(object)) {
    auto* function = reinterpret_cast<PyFunctionObject*>(object);
    for (PyObject* part :
         {function->func_closure, function->func_defaults, function->func_kwdefaults, function->func_dict}) {
      const bool is_new_dict = part != nullptr && part == function->func_dict && PyDict_GET_SIZE(part) == 0;
      if (part != nullptr && !is_new_dict) parts.push_back(py::Owned<>::share(part));  // CPython makes it on demand
    }
    return parts;
  }
  if (PyObject_IS_GC(object) != 0 && Py_TYPE(object)->tp_traverse != nullptr)
    Py_TYPE(object)->tp_traverse(object, add_part, &parts);
  return parts;
}

BodyAudit::BodyAudit(Region& region, const std::vector<PyObject*>& roots)
    : region_(region),
      writes_before_(region.outside_writes),
      reads_before_(region.reads_of_written),
      state_before_(aten::GlobalState::now()) {
  std::vector<PyObject*> written;
  std::vector<PyObject*> reached = roots;
  for (PyObject* container : region.shadows.in_order()) {
    const Shadow* shadow = region.shadows.find_as_it_is(container);
    (shadow->changed ? written : reached).push_back(shadow->added ? shadow->added.get() : shadow->object.get());
  }
  see(std::move(reached));
  reached_ = seen_.size();
  see(std::move(written));
}

void BodyAudit::see(std::vector<PyObject*> open) {
  while (!open.empty()) {
    PyObject* object = open.back();
    open.pop_back();
    if (!met_.insert(object).second) continue;
    const Cat cat = cat_of(object);
    const bool moves = cat == Cat::Iterator || cat == Cat::Generator || PyByteArray_Check(object);
    if (moves && !region_.provenance.is_outside(object)) reaches_iterator_ = true;
    if (!is_followed(object)) continue;
    seen_.push_back({py::Owned<>::share(object), parts_of(object)});
    for (const auto& part : seen_.back().parts) open.push_back(part.get());
  }
}

bool BodyAudit::is_followed(PyObject* object) const {
  if (is_atom(cat_of(object)) || aten::is_tensor(object) || PyType_Check(object) || PyModule_Check(object))
    return false;
  return PyObject_IS_GC(object) != 0 && !region_.provenance.is_outside(object);
}

const char* BodyAudit::change() const {
  if (region_.outside_writes != writes_before_) return "it changes objects that existed before";
  if (!state_before_->matches()) return "it leaves a mode of torch switched";
  if (reaches_iterator_) return "it is given an iterator";
  if (is_changed(seen_.size())) return "it changes an object that was made before it is called";
  return nullptr;
}

bool BodyAudit::is_changed(std::size_t count) const {
  return std::any_of(seen_.begin(), seen_.begin() + static_cast<std::ptrdiff_t>(count),
                     [](const Seen& seen) { return !are_same(seen.parts, parts_of(seen.object.get())); });
}

void BodyAudit::note_read(const Source* source) {
  using source::Step;
  const Step step = source->step;
  const bool may_change =
      step == Step::InstanceAttr || step == Step::DictItem || step == Step::Item || step == Step::CellContents;
  if (!may_change || !sources_.insert(source).second) return;
  const Frame* frame = region_.top;
  while (frame != nullptr && frame->hidden) frame = frame->back.get();
  if (frame == nullptr) return;
  reads_.push_back({source, py::Owned<PyCodeObject>::share(frame->code.get()), frame->at});
}

}  // namespace pellucid::region
