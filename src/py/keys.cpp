#include "py/keys.h"

#include <datetime.h>

#include <cstring>
#include <vector>

#include "py/native_lookup.h"
#include "py/ref.h"

namespace pellucid::py {
namespace {

// What `hash(x)` and `x == y` call for the objects of a type. Null: Python code.
struct Functions {
  void* hash = nullptr;
  void* compare = nullptr;
  bool operator==(const Functions&) const = default;
};

struct Known {
  struct Row {
    KeyFamily family;
    Functions functions;
  };
  std::vector<Row> rows;
  Functions object;
  PyObject* enum_hash = nullptr;    // enum.Enum.__hash__
  PyObject* tensor_hash = nullptr;  // torch.Tensor.__hash__
  PyObject *hash_name = nullptr, *eq_name = nullptr, *name_name = nullptr;
  PyObject *origin = nullptr, *alias_args = nullptr, *union_args = nullptr;  // descriptors
  PyObject *start = nullptr, *stop = nullptr, *step = nullptr, *pattern = nullptr, *slot_self = nullptr;
};
Known* known = nullptr;

// Classes may have Python code in the slots of their type, which finds a wrapper of a base's C function all the same
// (a class with __lt__ alone).
void* function_of(PyTypeObject* type, PyObject* name, void* slot) noexcept {
  if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) return slot;
  PyObject* found = type_lookup(type, name);
  if (found == nullptr || !Py_IS_TYPE(found, &PyWrapperDescr_Type)) return nullptr;
  return reinterpret_cast<PyWrapperDescrObject*>(found)->d_wrapped;
}

Functions functions_of(PyTypeObject* type) noexcept {
  return {function_of(type, known->hash_name, reinterpret_cast<void*>(type->tp_hash)),
          function_of(type, known->eq_name, reinterpret_cast<void*>(type->tp_richcompare))};
}

// A C type of numpy, or the one that a Python class is made of.
bool named(PyTypeObject* type, const char* prefix) noexcept {
  return std::strncmp(type->tp_name, prefix, std::strlen(prefix)) == 0;
}

KeyFamily numpy_family(PyTypeObject* type, const Functions& functions) noexcept {
  while (PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) && type->tp_base != nullptr) type = type->tp_base;
  if (!named(type, "numpy.") || !(functions == functions_of(type))) return KeyFamily::Unknown;
  if (named(type, "numpy.dtype")) return KeyFamily::NumpyDtype;
  const bool value = type->tp_as_buffer != nullptr && !named(type, "numpy.ndarray") && !named(type, "numpy.void") &&
                     !named(type, "numpy.object_");
  return value ? KeyFamily::NumpyScalar : KeyFamily::Unknown;  // arrays and records can change
}

KeyFamily family_of(PyObject* object) noexcept { return key_family(Py_TYPE(object)); }

// What a C descriptor of the type holds for an object of it; the object keeps it.
PyObject* member_of(PyObject* descriptor, PyObject* object) noexcept {
  PyObject* value = Py_TYPE(descriptor)->tp_descr_get(descriptor, object, reinterpret_cast<PyObject*>(Py_TYPE(object)));
  if (value == nullptr) {
    PyErr_Clear();
    return nullptr;
  }
  Py_DECREF(value);
  return value;
}

PyObject* tuple_part(PyObject* tuple, Py_ssize_t index) noexcept {
  return tuple != nullptr && index < PyTuple_GET_SIZE(tuple) ? PyTuple_GET_ITEM(tuple, index) : nullptr;
}

PyObject* element_at(PyObject* set, Py_ssize_t index) noexcept {
  Py_ssize_t at = 0;
  PyObject* element = nullptr;
  Py_hash_t hash = 0;
  while (_PySet_NextEntry(set, &at, &element, &hash) != 0) {
    if (index-- == 0) return element;
  }
  return nullptr;
}

// A time zone may be an object of Python code that is asked for its offset.
bool has_known_zone(PyObject* object, KeyFamily family) noexcept {
  PyObject* zone =
      family == KeyFamily::DateTime ? PyDateTime_DATE_GET_TZINFO(object) : PyDateTime_TIME_GET_TZINFO(object);
  return zone == Py_None || family_of(zone) == KeyFamily::TimeZone;
}

// The object itself is hashed and compared by known code; its parts are another matter.
bool is_known_alone(PyObject* key, KeyFamily family) noexcept {
  switch (family) {
    case KeyFamily::Unknown:
      return false;
    case KeyFamily::DateTime:
    case KeyFamily::Time:
      return has_known_zone(key, family);
    case KeyFamily::Weakref:
      return PyWeakref_GET_OBJECT(key) != Py_None;
    default:
      return true;
  }
}

// PyObject_Hash runs known C code alone, all the way down.
bool hashes_in_c(PyObject* key) noexcept {
  const KeyFamily family = family_of(key);
  if (family == KeyFamily::EnumMember || family == KeyFamily::Tensor || !is_known_alone(key, family)) return false;
  if (family == KeyFamily::FrozenSet) return true;  // of the hashes that it keeps
  for (Py_ssize_t i = is_bound_by_identity(Py_TYPE(key)) ? 1 : 0; PyObject* part = key_part(key, i); ++i) {
    if (!hashes_in_c(part)) return false;
  }
  return true;
}

// CPython's tuplehash over hashes that need not be asked from the elements.
bool hash_of_tuple(PyObject* tuple, Py_hash_t* hash) noexcept {
  constexpr Py_uhash_t kFirst = 11400714785074694791ULL, kSecond = 14029467366897019727ULL,
                       kFifth = 2870177450012600261ULL;
  const Py_ssize_t size = PyTuple_GET_SIZE(tuple);
  Py_uhash_t all = kFifth;
  for (Py_ssize_t i = 0; i < size; ++i) {
    Py_hash_t lane = 0;
    if (!known_hash(PyTuple_GET_ITEM(tuple, i), &lane)) return false;
    all += static_cast<Py_uhash_t>(lane) * kSecond;
    all = (all << 31) | (all >> 33);
    all *= kFirst;
  }
  all += static_cast<Py_uhash_t>(size) ^ (kFifth ^ 3527539ULL);
  *hash = all == static_cast<Py_uhash_t>(-1) ? 1546275796 : static_cast<Py_hash_t>(all);
  return true;
}
static_assert(sizeof(Py_uhash_t) == 8, "the constants are those of 64 bits");

Same compared(PyObject* a, PyObject* b) noexcept {
  const int equal = PyObject_RichCompareBool(a, b, Py_EQ);
  if (equal >= 0) return equal != 0 ? Same::Yes : Same::No;
  PyErr_Clear();
  return Same::Unknown;
}

Same same_tuples(PyObject* a, PyObject* b) noexcept {
  if (PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b)) return Same::No;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a); ++i) {
    const Same item = same_key(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i));
    if (item != Same::Yes) return item;
  }
  return Same::Yes;
}

Same set_has(PyObject* set, PyObject* wanted, Py_hash_t wanted_hash) noexcept {
  Py_ssize_t at = 0;
  PyObject* element = nullptr;
  Py_hash_t hash = 0;
  while (_PySet_NextEntry(set, &at, &element, &hash) != 0) {
    if (hash != wanted_hash) continue;
    const Same same = same_key(element, wanted);
    if (same != Same::No) return same;
  }
  return Same::No;
}

Same same_sets(PyObject* a, PyObject* b) noexcept {
  if (PySet_GET_SIZE(a) != PySet_GET_SIZE(b)) return Same::No;
  Py_ssize_t at = 0;
  PyObject* element = nullptr;
  Py_hash_t hash = 0;
  while (_PySet_NextEntry(a, &at, &element, &hash) != 0) {
    const Same same = set_has(b, element, hash);
    if (same != Same::Yes) return same;
  }
  return Same::Yes;
}

// The arguments of a union, in any order.
Same all_in(PyObject* a, PyObject* b) noexcept {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a); ++i) {
    Same found = Same::No;
    for (Py_ssize_t k = 0; found == Same::No && k < PyTuple_GET_SIZE(b); ++k)
      found = same_key(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, k));
    if (found != Same::Yes) return found;
  }
  return Same::Yes;
}

Same same_parts(PyObject* a, PyObject* b) noexcept {
  for (Py_ssize_t i = 0;; ++i) {
    PyObject *left = key_part(a, i), *right = key_part(b, i);
    if (left == nullptr || right == nullptr) return left == right ? Same::Yes : Same::No;
    const Same part = same_key(left, right);
    if (part != Same::Yes) return part;
  }
}

bool is_number(KeyFamily family) noexcept {
  return family == KeyFamily::Number || family == KeyFamily::Float || family == KeyFamily::Complex;
}

// Of different families. Types that look for what the other could be converted to may find anything.
Same same_across(PyObject* a, KeyFamily left, PyObject* b, KeyFamily right) noexcept {
  if (is_number(left) && is_number(right)) return compared(a, b);
  if (left == KeyFamily::NumpyScalar) std::swap(left, right);
  if (right == KeyFamily::NumpyScalar) {
    const bool converted = is_number(left) || left == KeyFamily::Text || left == KeyFamily::Bytes;
    return converted ? compared(a, b) : Same::Unknown;
  }
  for (const KeyFamily family : {left, right}) {
    if (family == KeyFamily::NumpyDtype || family == KeyFamily::Decimal || family == KeyFamily::Date ||
        family == KeyFamily::DateTime || family == KeyFamily::Tensor)
      return Same::Unknown;
  }
  return Same::No;
}

}  // namespace

static void fill_keys(Known& k) {
  k.hash_name = interned("__hash__").release(), k.eq_name = interned("__eq__").release();
  k.name_name = interned("_name_").release();
  k.object = {reinterpret_cast<void*>(PyBaseObject_Type.tp_hash),
              reinterpret_cast<void*>(PyBaseObject_Type.tp_richcompare)};
  const auto descriptor = [](PyTypeObject* type, const char* name) {
    return Py_NewRef(type_lookup(type, interned(name).get()));
  };
  k.origin = descriptor(&Py_GenericAliasType, "__origin__");
  k.alias_args = descriptor(&Py_GenericAliasType, "__args__");
  k.union_args = descriptor(reinterpret_cast<PyTypeObject*>(import_attr("types", "UnionType").get()), "__args__");
  k.start = descriptor(&PyRange_Type, "start"), k.stop = descriptor(&PyRange_Type, "stop");
  k.step = descriptor(&PyRange_Type, "step");
  k.pattern = descriptor(reinterpret_cast<PyTypeObject*>(import_attr("re", "Pattern").get()), "pattern");
  k.slot_self = descriptor(&_PyMethodWrapper_Type, "__self__");
  const auto python_hash = [&](const char* module, const char* name) {
    const auto type = import_attr(module, name);
    return Py_NewRef(type_lookup(reinterpret_cast<PyTypeObject*>(type.get()), k.hash_name));
  };
  k.enum_hash = python_hash("enum", "Enum"), k.tensor_hash = python_hash("torch", "Tensor");
  const auto add = [&](KeyFamily family, const char* module, const char* name) {
    const auto type = import_attr(module, name);
    const Functions functions = functions_of(reinterpret_cast<PyTypeObject*>(type.get()));
    if (functions.hash != nullptr && functions.compare != nullptr) k.rows.push_back({family, functions});
  };
#define FAMILY(name, module, type) add(KeyFamily::name, module, type);
#include "py/keys.def"
}

void initialise_keys() {
  if (known != nullptr) return;
  known = new Known;
  try {
    PyDateTime_IMPORT;
    check(PyDateTimeAPI == nullptr ? -1 : 0);
    fill_keys(*known);
  } catch (...) {  // an interrupt: the next compile begins anew
    known = nullptr;
    throw;
  }
}

KeyFamily key_family(PyTypeObject* type) noexcept {
  if (type == &PyUnicode_Type) return KeyFamily::Text;
  if (known == nullptr) return KeyFamily::Unknown;
  const Functions functions = functions_of(type);
  if (functions == known->object) return KeyFamily::Identity;
  for (const Known::Row& row : known->rows) {
    if (row.functions == functions) return row.family;
  }
  if (functions.hash == nullptr && PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) {
    PyObject* hash = type_lookup(type, known->hash_name);
    if (hash == known->enum_hash && functions.compare == known->object.compare) return KeyFamily::EnumMember;
    if (hash == known->tensor_hash) return KeyFamily::Tensor;
  }
  return numpy_family(type, functions);
}

bool known_hash(PyObject* key, Py_hash_t* hash) noexcept {
  const KeyFamily family = family_of(key);
  if (family == KeyFamily::Tuple) return hash_of_tuple(key, hash);
  if (family == KeyFamily::EnumMember) {
    PyObject* name = native_instance_attr(key, known->name_name);
    return name != nullptr && PyUnicode_CheckExact(name) && (*hash = PyObject_Hash(name)) != -1;
  }
  if (family == KeyFamily::Tensor) {
    *hash = static_cast<Py_hash_t>(reinterpret_cast<std::uintptr_t>(key) % _PyHASH_MODULUS);
    return true;
  }
  if (!hashes_in_c(key)) return false;
  *hash = PyObject_Hash(key);
  if (*hash != -1) return true;
  PyErr_Clear();
  return false;
}

Same same_key(PyObject* a, PyObject* b) noexcept {
  if (a == b) return Same::Yes;
  const KeyFamily family = family_of(a), other = family_of(b);
  if (!is_known_alone(a, family) || !is_known_alone(b, other)) return Same::Unknown;
  if (family != other) return same_across(a, family, b, other);
  switch (family) {
    case KeyFamily::Identity:
    case KeyFamily::EnumMember:
      return Same::No;
    case KeyFamily::Tensor:
      return Same::Unknown;  // two of one address there are not
    case KeyFamily::Tuple:
      return same_tuples(a, b);
    case KeyFamily::FrozenSet:
      return same_sets(a, b);
    case KeyFamily::Alias: {
      if (Py_TYPE(a) != Py_TYPE(b)) return Same::Unknown;
      const Same parts = same_parts(a, b);
      return parts == Same::Yes ? compared(a, b) : parts;  // one of them may be unpacked
    }
    case KeyFamily::Union: {
      PyObject *left = member_of(known->union_args, a), *right = member_of(known->union_args, b);
      const Same there = all_in(left, right);
      return there == Same::Yes ? all_in(right, left) : there;
    }
    case KeyFamily::Method:
      if (PyMethod_GET_SELF(a) != PyMethod_GET_SELF(b)) return Same::No;
      return same_key(PyMethod_GET_FUNCTION(a), PyMethod_GET_FUNCTION(b));
    case KeyFamily::Weakref:
      return same_key(PyWeakref_GET_OBJECT(a), PyWeakref_GET_OBJECT(b));
    case KeyFamily::Pattern:
      for (PyObject* object : {a, b}) {
        if (!hashes_in_c(object)) return Same::Unknown;
      }
      return compared(a, b);
    default:
      return compared(a, b);
  }
}

PyObject* key_part(PyObject* key, Py_ssize_t index) noexcept {
  switch (family_of(key)) {
    case KeyFamily::Tuple:
      return tuple_part(key, index);
    case KeyFamily::FrozenSet:
      return element_at(key, index);
    case KeyFamily::Range: {
      PyObject* parts[] = {known->start, known->stop, known->step};
      return index < 3 ? member_of(parts[index], key) : nullptr;
    }
    case KeyFamily::Alias:
      if (index == 0) return member_of(known->origin, key);
      return tuple_part(member_of(known->alias_args, key), index - 1);
    case KeyFamily::Union:
      return tuple_part(member_of(known->union_args, key), index);
    case KeyFamily::Method:
      return index == 0 ? PyMethod_GET_SELF(key) : index == 1 ? PyMethod_GET_FUNCTION(key) : nullptr;
    case KeyFamily::Native:
      return index == 0 ? reinterpret_cast<PyCFunctionObject*>(key)->m_self : nullptr;
    case KeyFamily::NativeSlot:
      return index == 0 ? member_of(known->slot_self, key) : nullptr;
    case KeyFamily::Weakref:
      return index == 0 && PyWeakref_GET_OBJECT(key) != Py_None ? PyWeakref_GET_OBJECT(key) : nullptr;
    case KeyFamily::Pattern:
      return index == 0 ? member_of(known->pattern, key) : nullptr;
    default:
      return nullptr;
  }
}

}  // namespace pellucid::py
