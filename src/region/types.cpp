#include "region/types.h"

#include <unordered_map>
#include <unordered_set>

#include "aten/aten.h"
#include "aten/placement.h"
#include "py/cpython.h"
#include "py/iterators.h"
#include "py/keys.h"
#include "py/ref.h"
#include "region/generator.h"
#include "region/number.h"

namespace pellucid::region {
namespace {

struct Known {
  PyTypeObject* enum_meta = nullptr;
  PyTypeObject* deque = nullptr;
  PyTypeObject* tensor = nullptr;
  destructor python_dealloc = nullptr;           // of every class that a class statement makes
  std::unordered_map<PyTypeObject*, Cat> exact;  // immortal builtin and torch types
};
Known* known = nullptr;

void add_type_of(const char* expression_module, const char* name, Cat cat) {
  auto object = py::import_attr(expression_module, name);
  PyTypeObject* type =
      PyType_Check(object.get()) ? reinterpret_cast<PyTypeObject*>(object.get()) : Py_TYPE(object.get());
  known->exact.emplace(type, cat);
  Py_INCREF(type);  // process-wide table of types that live as long as the interpreter
}

struct Storage {
  PyTypeObject* base;  // the C type whose storage the instances have
  bool python_only;    // what is above it was made by class statements
};

Storage storage_of(PyTypeObject* type) {
  bool python_only = true;
  while (PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) && type->tp_base != nullptr) {
    python_only &= type->tp_dealloc == known->python_dealloc;
    type = type->tp_base;
  }
  return {type, python_only};
}

bool is_enum_class(PyTypeObject* type) {
  return !Py_IS_TYPE(type, &PyType_Type) && PyType_IsSubtype(Py_TYPE(type), known->enum_meta);
}

}  // namespace

static void fill_known() {
  auto& t = known->exact;
  t[Py_TYPE(Py_None)] = t[&PyBool_Type] = t[Py_TYPE(Py_Ellipsis)] = t[Py_TYPE(Py_NotImplemented)] = Cat::Singleton;
  t[&PyLong_Type] = t[&PyFloat_Type] = t[&PyComplex_Type] = Cat::Number;
  t[&PyUnicode_Type] = t[&PyBytes_Type] = Cat::Text;
  t[&PyTuple_Type] = Cat::Tuple;
  t[&PyList_Type] = Cat::List;
  t[&PyDict_Type] = Cat::Dict;
  t[&PySet_Type] = Cat::Set;
  t[&PyFrozenSet_Type] = Cat::FrozenSet;
  t[&PyRange_Type] = Cat::Range;
  t[&PySlice_Type] = Cat::Slice;
  t[&PyModule_Type] = Cat::Module;
  t[&PyType_Type] = Cat::Type;
  t[&PyFunction_Type] = Cat::Function;
  t[&PyMethod_Type] = Cat::BoundMethod;
  t[&PyCell_Type] = Cat::Cell;
  t[&PyCode_Type] = Cat::Code;
  for (PyTypeObject* type : {&PyCFunction_Type, &PyCMethod_Type, &PyMethodDescr_Type, &PyWrapperDescr_Type,
                             &PyClassMethodDescr_Type, &PyGetSetDescr_Type, &PyMemberDescr_Type, &_PyMethodWrapper_Type,
                             &PyProperty_Type, &PyStaticMethod_Type, &PyClassMethod_Type}) {
    t[type] = Cat::Builtin;
  }
  for (PyTypeObject* type : {&PyListIter_Type,
                             &PyTupleIter_Type,
                             &PyRangeIter_Type,
                             &PyDictIterKey_Type,
                             &PyDictIterValue_Type,
                             &PyDictIterItem_Type,
                             &PyDictRevIterKey_Type,
                             &PyDictRevIterValue_Type,
                             &PyDictRevIterItem_Type,
                             &PySetIter_Type,
                             &PyUnicodeIter_Type,
                             &PyListRevIter_Type,
                             &PyLongRangeIter_Type,
                             &PyEnum_Type,
                             &PyReversed_Type,
                             &PyZip_Type,
                             &PyMap_Type,
                             &PyFilter_Type,
                             &PyBytesIter_Type,
                             &PyDictKeys_Type,
                             &PyDictValues_Type,
                             &PyDictItems_Type,
                             &PyODictKeys_Type,
                             &PyODictValues_Type,
                             &PyODictItems_Type,
                             &PyODictIter_Type}) {
    t[type] = Cat::Iterator;
  }
  t[generator_type()] = Cat::Generator;
  initialise_numbers();
  t[number_type] = Cat::Symbolic;
  add_type_of("torch", "float32", Cat::TorchAtom);
  add_type_of("torch", "strided", Cat::TorchAtom);
  add_type_of("torch", "contiguous_format", Cat::TorchAtom);
  add_type_of("torch", "device", Cat::TorchAtom);
  add_type_of("torch", "finfo", Cat::TorchAtom);
  add_type_of("torch", "iinfo", Cat::TorchAtom);
  for (const char* name :
       {"chain", "count", "cycle", "repeat", "islice", "product", "permutations", "combinations", "zip_longest",
        "accumulate", "starmap", "takewhile", "dropwhile", "pairwise", "compress", "filterfalse", "groupby"}) {
    add_type_of("itertools", name, Cat::Iterator);
  }
  add_type_of("_collections", "_deque_iterator", Cat::Iterator);
  add_type_of("_collections", "_deque_reverse_iterator", Cat::Iterator);
  // Of what the package imports: the core looks for no numpy of its own.
  if (PyObject* arrays = PyDict_GetItemString(PyImport_GetModuleDict(), "pellucid._numpy"); arrays != nullptr) {
    PyObject* available = PyDict_GetItemString(PyModule_GetDict(arrays), "AVAILABLE");
    if (available == Py_True) {
      add_type_of("numpy", "ndarray", Cat::Array);
      add_type_of("pellucid._numpy", "ArrayStandIn", Cat::Array);
      add_type_of("pellucid._numpy", "ScalarStandIn", Cat::Array);
    }
  }
  auto ascii = py::str("a");
  t[Py_TYPE(py::take(PyObject_GetIter(ascii.get())).get())] = Cat::Iterator;
  known->enum_meta = reinterpret_cast<PyTypeObject*>(py::import_attr("enum", "EnumMeta").release());
  known->python_dealloc = reinterpret_cast<PyTypeObject*>(py::import_attr("abc", "ABC").release())->tp_dealloc;
  known->deque = reinterpret_cast<PyTypeObject*>(py::import_attr("collections", "deque").release());
  known->tensor = reinterpret_cast<PyTypeObject*>(py::import_attr("torch", "Tensor").release());
}

void initialise_types() {
  if (known != nullptr) return;
  known = new Known;
  try {
    py::initialise_iterators();
    py::initialise_keys();
    fill_known();
  } catch (...) {  // an interrupt: the next compile begins anew
    known = nullptr;
    throw;
  }
}

namespace {

Cat cat_of_class(PyTypeObject* type) {
  // A Python class over object: its storage is its dict and slots. Most are that, so it comes before the rarer ones,
  // whose storage is larger than an object's.
  const Storage storage = storage_of(type);
  const bool over_object = storage.base == &PyBaseObject_Type && type != storage.base;
  if (over_object && storage.python_only && !is_enum_class(type)) return Cat::Instance;
  if (PyType_IsSubtype(type, known->tensor)) return Cat::Tensor;
  if (PyType_IsSubtype(type, &PyType_Type)) return Cat::Type;
  if (aten::is_placement_type(type)) return Cat::TorchAtom;
  if (is_enum_class(type)) return Cat::EnumMember;
  if (PyType_HasFeature(type, Py_TPFLAGS_TUPLE_SUBCLASS)) return Cat::Tuple;
  if (PyType_HasFeature(type, Py_TPFLAGS_LIST_SUBCLASS)) return Cat::List;
  if (PyType_HasFeature(type, Py_TPFLAGS_DICT_SUBCLASS)) return Cat::Dict;
  if (PyType_IsSubtype(type, known->deque)) return Cat::Deque;
  if (PyType_IsSubtype(type, &PyModule_Type)) return Cat::Module;
  if (PyType_IsSubtype(type, &PySet_Type)) return Cat::Set;
  if (PyType_IsSubtype(type, &PyFrozenSet_Type)) return Cat::FrozenSet;
  const bool exception = PyType_IsSubtype(storage.base, reinterpret_cast<PyTypeObject*>(PyExc_BaseException));
  return exception && storage.python_only ? Cat::Instance : Cat::Other;
}

// What the classes that were asked about last are, as long as they are what they were: other bases give a class another
// version.
struct Told {
  PyTypeObject* type = nullptr;
  PyTypeObject* metaclass = nullptr;
  unsigned version = 0;
  Cat cat = Cat::Other;
};
constexpr std::size_t kTold = 64;

// Apart from cat_of, which is asked for everything that capture touches and mostly knows.
[[gnu::noinline]] Cat told_anew(PyTypeObject* type, unsigned version, Told& place) {
  const auto exact = known->exact.find(type);
  const Cat cat = exact != known->exact.end() ? exact->second : cat_of_class(type);
  if (version != 0) place = {type, Py_TYPE(type), version, cat};
  return cat;
}

}  // namespace

Cat cat_of(PyTypeObject* type) {
  static Told told[kTold];
  Told& place = told[(reinterpret_cast<std::size_t>(type) >> 4) % kTold];
  const unsigned version = py::type_version(type);
  if (version != 0 && place.version == version && place.type == type && place.metaclass == Py_TYPE(type))
    return place.cat;
  return told_anew(type, version, place);
}

bool is_exact_builtin(PyTypeObject* type) {
  auto it = known->exact.find(type);
  return it != known->exact.end() && it->second != Cat::Generator;
}

}  // namespace pellucid::region
