// Slots and class attributes that the region writes. They keep what they have until the region's effects happen; what
// was written is remembered here.
#pragma once
#include <unordered_map>
#include <vector>

#include "region/capture.h"

namespace pellucid::region {

struct Region;

struct AttributeWrite {
  py::Owned<> name, value;  // no value: deleted
  bool was_there;           // before the region; known of what is deleted
};

class AttributeWrites {
 public:
  explicit AttributeWrites(Region& region) : region_(region) {}

  const AttributeWrite* find(PyObject* object, PyObject* name) const;  // null: the region did not write it
  void write(PyObject* object, PyObject* name, PyObject* value, bool was_there = true);
  // False: it is not there. What was not there before the region either is as if it had never been written.
  bool remove(PyObject* object, PyObject* name, bool was_there);

  void note_class_change() { classes_changed_ = true; }
  bool changes_classes_of(PyTypeObject* type) const;  // one of its MRO

  bool empty() const { return order_.empty(); }
  void changes(std::vector<Effect>& out);  // takes them

 private:
  AttributeWrite* find_written(PyObject* object, PyObject* name);

  Region& region_;
  std::unordered_map<PyObject*, std::vector<AttributeWrite>> writes_;  // by object
  std::vector<PyObject*> order_;
  bool classes_changed_ = false;
};

}  // namespace pellucid::region
