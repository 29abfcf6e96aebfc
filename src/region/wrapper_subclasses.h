// Traceable wrapper subclasses: tensors of the program's classes around tensors, as torch.utils._python_dispatch has
// it. Their fakes are objects of the class around fakes, on which the class's own `__torch_dispatch__` runs: code that
// is by contract functional, and is stopped before a side effect (pellucid/_functional.py).
#pragma once
#include <Python.h>

#include <functional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "aten/aten.h"
#include "py/ref.h"
#include "source/source.h"

namespace pellucid::region {

struct Capture;
struct NumberPolicy;
struct Region;

// Each tensor that such a tensor holds itself.
void each_part(PyObject* tensor, const std::function<void(PyObject*)>& visit);
// Each storage that a tensor lies in: of one around tensors those of its parts.
void each_storage(PyObject* tensor, const std::function<void(const void*)>& visit);

class WrapperSubclasses {
 public:
  explicit WrapperSubclasses(Region& region) : region_(region) {}

  // The fake of a tensor from outside; what it holds is guarded. A break where that cannot be.
  py::Owned<> fake_of(PyObject* real);
  // What an operator gave: made of fakes alone, or a break.
  void check_result(PyObject* result, PyObject* target);
  bool is_fake(PyObject* tensor) const { return parts_of_.contains(tensor); }
  bool any() const noexcept { return !parts_of_.empty(); }
  // The sizes of the parts of such an input, at any depth, that are not known.
  void each_open_part(PyObject* fake, const std::function<void(const aten::OpenShape&)>& visit) const;
  // Whether one of them, or a tensor beside one, has sizes that stay open: code of a class may ask for plain ones.
  bool has_met_open() const noexcept { return has_met_open_; }
  // Calls torch with such tensors among the arguments. What the code of their classes writes to is known afterwards.
  py::Owned<> call(PyObject* callable, const std::vector<PyObject*>& values, std::size_t nargs, PyObject* kwnames);
  // Whether this is a function of torch with all arguments but its tensors, which may give one.
  static bool is_bound(PyObject* callable);
  // An input of the graph, of any class, and what a node writes to. A break where a compiler gets memory that is
  // written more than once, also as a part of such a tensor: it takes the parts for tensors that nobody else holds.
  void note_input(PyObject* fake);
  void note_writes(const std::vector<aten::HeldStorage>& written);
  // Whether such a fake is at any depth among these.
  bool are_among(const std::vector<PyObject*>& values) const;

 private:
  struct Parts {
    std::vector<py::Owned<>> names, tensors;
    std::vector<std::pair<py::Owned<>, py::Owned<>>> opaque;  // what it holds besides: names and objects
    py::Owned<> context;
    std::vector<const aten::OpenShape*> open;  // of an input: of those among its tensors that have sizes that stay open
  };
  struct Memory {
    int inputs = 0;
    bool is_part = false, is_written = false;
  };
  static void refuse_second(const Memory& memory);
  py::Owned<> watched(PyObject* callable, const std::vector<PyObject*>& values, std::size_t nargs, PyObject* kwnames);
  void guard_reads(PyObject* reads);
  void check_written(PyObject* tensor, const aten::Meta& before);
  void refuse_effects(PyTypeObject* type) const;
  Parts parts_of(PyObject* tensor);
  void join_sizes(PyObject* made, const aten::Meta& meta, const aten::OpenShape* shape);
  void guard_contents(PyObject* real, const Parts& parts, const aten::OpenShape* shape);
  void guard_slots(PyObject* real, const Parts& parts);
  void guard_fields(PyObject* value, PyTypeObject* type, int depth);
  bool guard_said_layout(PyObject* value, const source::Source* source, PyTypeObject* type, int depth);
  void guard_value(PyObject* value, PyTypeObject* type, int depth = 0);
  [[noreturn]] void refuse(PyTypeObject* type, const std::string& why) const;

  // Code of torch's own classes runs for a while, which nobody has to watch.
  class Trust {
   public:
    Trust(WrapperSubclasses& wrappers, bool on) : trusted_(wrappers.trusted_), before_(trusted_) { trusted_ = on; }
    ~Trust() { trusted_ = before_; }
    Trust(const Trust&) = delete;
    Trust& operator=(const Trust&) = delete;

   private:
    bool& trusted_;
    const bool before_;
  };

  Region& region_;
  bool trusted_ = false;
  bool has_met_open_ = false;
  std::optional<aten::Meta> said_layout_;            // of the tensor that is guarded, where sizes of it stay open
  std::unordered_map<PyObject*, Parts> parts_of_;    // of fakes, which are kept
  std::unordered_map<const void*, Memory> memory_;   // by storage of fakes, for compilers
  std::unordered_set<const source::Source*> reads_;  // guarded globals of the classes' code
};

}  // namespace pellucid::region
