// How emitted code takes one step of a Source, decided from the object that was found there during capture: the quick
// instruction where it cannot run user code, else the builtin type's own C function.
#pragma once
#include <unordered_map>

#include "codegen/plan.h"

namespace pellucid::codegen {

struct Load {
  enum class Form : std::uint8_t {
    Argument,    // LOAD_FAST index
    Cell,        // LOAD_CLOSURE name
    Deref,       // LOAD_DEREF name: the content of a free variable's cell
    Object,      // `callee` itself
    Attr,        // base.name
    Subscr,      // base[name]
    Call,        // callee(base), callee(base, name)
    CallSubscr,  // callee(base, "__dict__")[name]
  } form;
  PyObject* name = nullptr;  // borrowed from the source; attribute, key or index
  PyObject* callee = nullptr;
  py::Owned<> held;  // when name was made here
};

class Loads {
 public:
  explicit Loads(const region::Capture& capture);
  Load step(const Source* source) const;

 private:
  PyObject* value_at(const Source* source) const;  // what capture found there; null when unknown
  Load instance_attr(const Source* source) const;
  Load item(const Source* source) const;
  Load dict_item(const Source* source) const;
  Load c_attribute(const Source* source, PyObject* name) const;
  Load by_function(const Source* source) const;

  mutable std::unordered_map<const Source*, PyObject*> values_;
  mutable std::vector<py::Owned<>> held_;
  mutable std::unordered_map<source::Step, py::Owned<>> functions_;
};

}  // namespace pellucid::codegen
