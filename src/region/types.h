// What kind of Python object a type makes, as far as capture cares. Decided once per type.
#pragma once
#include <Python.h>

#include <cstdint>

namespace pellucid::region {

enum class Cat : std::uint8_t {
  Singleton,   // None, True, False, Ellipsis, NotImplemented
  Number,      // exact int, float, complex
  Text,        // exact str, bytes
  TorchAtom,   // dtype, layout, memory_format, device, finfo, iinfo, Generator-free immutable torch objects
  EnumMember,  // an instance of an enum class
  Tensor,      // torch.Tensor and subclasses
  Array,       // numpy.ndarray, and what stands for arrays and numpy scalars that the region computes (arrays.h)
  Tuple,       // tuple and subclasses (torch.Size, namedtuples, structseqs)
  List,        // list and subclasses that keep list's C storage
  Dict,        // dict and subclasses
  Set,
  FrozenSet,
  Deque,
  Range,
  Slice,
  Module,
  Type,
  Function,  // Python function
  Builtin,   // C functions and descriptors: identity is all there is to know
  BoundMethod,
  Cell,
  Code,
  Symbolic,   // ours: a number from outside (number.h)
  Iterator,   // builtin iterators
  Generator,  // ours: a generator made by the region
  Instance,   // an instance of a Python class with plain object layout (dict and/or slots)
  Other,      // an instance of a C type without a category of its own
};

Cat cat_of(PyTypeObject* type);
inline Cat cat_of(PyObject* object) { return cat_of(Py_TYPE(object)); }

// Classes of Python code: their attributes, bases and slots may be set at any time.
inline bool is_mutable_class(PyTypeObject* type) {
  return PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) && !PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE);
}

// True for types whose C-level behaviour (==, hash, repr, iteration, …) never runs Python code of the user by itself:
// exact builtin types. Their elements still may.
bool is_exact_builtin(PyTypeObject* type);

// Immutable and compared by value: safe as a constant in emitted code.
inline bool is_atom(Cat cat) {
  return cat == Cat::Singleton || cat == Cat::Number || cat == Cat::Text || cat == Cat::TorchAtom ||
         cat == Cat::EnumMember;
}
// Only the identity of these objects matters, and everything reachable from them that may change is guarded below a
// Const root.
inline bool known_by_identity(Cat cat) {
  return cat == Cat::Module || cat == Cat::Type || cat == Cat::Builtin || cat == Cat::Code;
}

void initialise_types();

}  // namespace pellucid::region
