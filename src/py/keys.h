// Keys of dicts and elements of sets as C code hashes and compares them. A key is known when that runs no Python code
// and leads to no other answer later: then a guard can look it up like the program does. Whatever is not known says so,
// and is never taken for "not equal".
#pragma once
#include <Python.h>

#include <cstdint>

namespace pellucid::py {

// Which C code hashes and compares the objects of a type. Subclasses that override neither belong to the family too.
enum class KeyFamily : std::uint8_t {
  Unknown,   // Python code, or C code that is not known here
  Identity,  // object's own
#define FAMILY(name, module, type) name,
#include "py/keys.def"
  EnumMember,   // by identity, with the hash of the name
  Tensor,       // found by its address
  NumpyScalar,  // numbers, texts and dates
  NumpyDtype,
};
void initialise_keys();  // before any other; until then all families but that of str are unknown
KeyFamily key_family(PyTypeObject* type) noexcept;

// Two objects of the type are the same key only when they are one object.
inline bool is_key_by_identity(PyTypeObject* type) noexcept {
  const KeyFamily family = key_family(type);
  return family == KeyFamily::Identity || family == KeyFamily::EnumMember || family == KeyFamily::Tensor;
}

// A bound method, of which key_part 0 counts as the object that it is, whatever that may be equal to.
inline bool is_bound_by_identity(PyTypeObject* type) noexcept {
  const KeyFamily family = key_family(type);
  return family == KeyFamily::Method || family == KeyFamily::Native || family == KeyFamily::NativeSlot;
}

// Then CPython words the TypeError.
inline bool cannot_be_hashed(PyObject* key) noexcept { return Py_TYPE(key)->tp_hash == PyObject_HashNotImplemented; }

// hash(key), where only known C code computes it. False: it is not, or the key cannot be hashed. Never raises.
bool known_hash(PyObject* key, Py_hash_t* hash) noexcept;

enum class Same : std::uint8_t { No, Yes, Unknown };
// Whether both are one key, for objects whose hashes are equal: identical, or equal by `==`. Never raises.
Same same_key(PyObject* a, PyObject* b) noexcept;

// The part at `index` of what makes a key the one that it is (elements, the object of a bound method, the arguments of
// an alias); null behind the last. Borrowed.
PyObject* key_part(PyObject* key, Py_ssize_t index) noexcept;

}  // namespace pellucid::py
