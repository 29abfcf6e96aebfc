// Who keeps the objects that guards name. Modules, classes, what stands for a class in an annotation, functions, code
// and constants are held; user instances are watched by weak references, so that compiled code never keeps a model
// alive; a watched object that dies ends the program, before its address can be used again.
#pragma once
#include <memory>
#include <unordered_set>
#include <vector>

#include "py/ref.h"

namespace pellucid::guards {

class Hold {
 public:
  Hold() = default;
  Hold(const Hold& that);  // of one that is sealed; dead when the other one is
  Hold& operator=(const Hold&) = delete;

  PyObject* keep(PyObject* object);  // held for good
  PyObject* keep_or_watch(PyObject* object);
  PyObject* keep_key(PyObject* key);  // watched only where that very object is the key, not any that is equal
  static bool is_watched_kind(PyObject* object) noexcept;

  void seal() noexcept { is_held_ = {}, is_watched_ = {}; }  // nothing more will be kept

  bool alive() const noexcept { return alive_ == nullptr || *alive_; }
  // Strong references to all watched objects, for what may run Python code while it looks at them (an allocation
  // starts the collector); alive() afterwards says whether they all are there.
  std::vector<py::Owned<>> lock() const;
  int traverse(visitproc visit, void* arg) const;
  void clear() noexcept;

 private:
  PyObject* on_death();
  std::vector<py::Owned<>> held_, watches_;
  std::unordered_set<PyObject*> is_held_, is_watched_;  // while the program is built
  py::Owned<> callback_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace pellucid::guards
