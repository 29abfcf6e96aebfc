#include "region/attribute_writes.h"

#include "region/region.h"

namespace pellucid::region {

AttributeWrite* AttributeWrites::find_written(PyObject* object, PyObject* name) {
  const auto found = writes_.find(object);
  if (found == writes_.end()) return nullptr;
  for (AttributeWrite& write : found->second) {
    if (write.name.get() == name || PyUnicode_Compare(write.name.get(), name) == 0) return &write;
  }
  return nullptr;
}

const AttributeWrite* AttributeWrites::find(PyObject* object, PyObject* name) const {
  const AttributeWrite* found =
      const_cast<AttributeWrites*>(this)->find_written(object, name);  // which changes nothing
  if (found != nullptr) ++region_.reads_of_written;
  return found;
}

void AttributeWrites::write(PyObject* object, PyObject* name, PyObject* value, bool was_there) {
  ++region_.outside_writes;
  auto [entry, is_new] = writes_.try_emplace(object);
  if (is_new) {
    region_.provenance.keep(object);
    order_.push_back(object);
  }
  if (AttributeWrite* written = find_written(object, name)) {
    written->value = py::Owned<>::share(value);
    return;
  }
  entry->second.push_back({py::Owned<>::share(name), py::Owned<>::share(value), was_there});
}

bool AttributeWrites::remove(PyObject* object, PyObject* name, bool was_there) {
  AttributeWrite* written = find_written(object, name);
  if (written == nullptr ? !was_there : !written->value) return false;
  if (written == nullptr) {
    write(object, name, nullptr, was_there);
    return true;
  }
  ++region_.outside_writes;
  written->value = {};
  if (!was_there) written->was_there = false;
  return true;
}

bool AttributeWrites::changes_classes_of(PyTypeObject* type) const {
  if (!classes_changed_) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    if (writes_.contains(PyTuple_GET_ITEM(type->tp_mro, i))) return true;
  }
  return false;
}

void AttributeWrites::changes(std::vector<Effect>& out) {
  for (PyObject* object : order_) {
    for (AttributeWrite& write : writes_[object]) {
      if (!write.value && !write.was_there) continue;
      if (aten::is_fake(object)) {  // which has `grad` alone; it is set where the tensor leaves the region
        if (write.value.get() != Py_None) region_.capture->gradients[object] = std::move(write.value);
        continue;
      }
      Effect& effect = out.emplace_back();
      effect.kind = Effect::Kind::SetAttr;
      effect.target = py::Owned<>::share(object);
      effect.name = std::move(write.name);
      effect.value = std::move(write.value);
    }
  }
}

}  // namespace pellucid::region
