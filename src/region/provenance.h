// Where the objects that a region meets come from, and the guards that reading them needs. An object either existed
// before the region (it has a source) or was made by it.
#pragma once
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "region/capture.h"
#include "region/types.h"

namespace pellucid::region {

struct Region;

class Provenance {
 public:
  explicit Provenance(Region& region) : region_(region) {}

  const Source* source_of(PyObject* object) const;  // null: made by the region
  bool is_outside(PyObject* object) const { return source_of(object) != nullptr; }

  // `value` was read from there: guards it, remembers where it came from.
  void note_read(PyObject* value, const Source* source);
  // The same of a value known by identity through something guarded already (a class attribute).
  void note_constant(PyObject* value);
  // The same of what C code of `object` gave for the attribute `name`; what the program goes on with.
  py::Owned<> note_attribute(PyObject* object, PyObject* name, PyObject* value);
  // A live value that is noted when it is read: gives what stands for it until then (unread.h).
  py::Owned<> note_unread(PyObject* value, const Source* source, Py_ssize_t references);
  // What a variable holds: the value that `held` stands for, which is read now, or `held` itself.
  py::Owned<> read(PyObject* held);
  const std::vector<py::Owned<>>& unread() const { return unread_; }
  // `object` is what the source leads to; whatever is read of it is guarded, itself it is not.
  void note_existing(PyObject* object, const Source* source);
  // A new function, cell or class, made by the region.
  void note_made(PyObject* object);
  bool is_made(PyObject* object) const { return made_.contains(object); }
  // Alive until the capture is dropped.
  void keep(PyObject* object);

  void guard(Kind kind, const Source* source, py::Owned<> operand = {}, std::int64_t number = 0,
             const Source* other = nullptr);
  // This very object is there, whatever path led to it.
  void guard_identity(PyObject* object);
  // Its code, defaults, keyword defaults and namespaces are as they are now.
  void guard_function(PyObject* function);
  // Nothing is handled by the frames that called the region, nor will be in later calls; a break when something is.
  void guard_not_handling(const std::string& reader);
  void guard_distinct(const std::vector<const Source*>& sources);

  // "L['self'].h.0": as the program read the module last.
  std::string module_path(const Source* source) const;
  // Mutable objects from outside and tensors, in order of first sight.
  const std::vector<PyObject*>& existing() const { return existing_; }

 private:
  void add_guard(guards::Guard guard);
  void note_met_again(PyObject* value, const Source* known, const Source* source);
  void note_contents(PyObject* value, Cat cat, const Source* source);

  Region& region_;
  std::unordered_set<PyObject*> made_;
  std::unordered_set<PyObject*> guarded_functions_;
  std::unordered_map<const Source*, const Source*> seen_as_;  // of an object met by several paths -> the newest path
  std::vector<PyObject*> existing_;
  std::vector<py::Owned<>> unread_;                     // all that there were
  std::unordered_map<PyObject*, PyObject*> unread_of_;  // value -> what stands for it; not of those that are compared
};

}  // namespace pellucid::region
