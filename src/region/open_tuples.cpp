#include "region/open_tuples.h"

#include "guards/condition.h"
#include "py/cpython.h"
#include "region/region.h"
#include "region/torch_module.h"

namespace pellucid::region {
namespace {

constexpr int kDeepestTuple = 8;

std::uint64_t mixed(std::uint64_t hash, std::uint64_t bits) {
  hash += (bits + 0x9e3779b97f4a7c15ULL) * 0xbf58476d1ce4e5b9ULL;
  return (hash ^ (hash >> 29)) * 0x94d049bb133111ebULL | 1;
}

// What tells the numbers of a tuple from others; 0: it has none.
std::uint64_t bits_of_tuple(PyObject* tuple, int depth = 0) {
  std::uint64_t bits = 0;
  for (Py_ssize_t i = 0; depth < kDeepestTuple && i < PyTuple_GET_SIZE(tuple); ++i) {
    PyObject* item = PyTuple_GET_ITEM(tuple, i);
    symbolic::Value value;
    if (guards::is_symbolic_value(item, &value))
      bits =
          mixed(mixed(bits, static_cast<std::uint64_t>(i) + (PyFloat_CheckExact(item) ? 1U << 30 : 0)), value.bits());
    else if (PyTuple_Check(item))
      if (const std::uint64_t inner = bits_of_tuple(item, depth + 1); inner != 0) bits = mixed(bits + 3, inner);
  }
  return bits;
}

// Whether a tuple of this type is its items, and no more.
bool holds_items_alone(PyTypeObject* type) {
  static PyObject* const fields = py::interned("_fields").release();
  if (type == &PyTuple_Type || type == torch_size_type()) return true;
  return PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) && type->tp_dictoffset == 0 &&
         py::type_lookup(type, fields) != nullptr;
}

}  // namespace

PyObject* OpenTuples::behind(PyObject* object) const {
  const auto found = behind_.find(object);
  return found == behind_.end() ? object : found->second;
}

void OpenTuples::settle(PyObject* tuple) {
  const auto found = stand_ins_.find(tuple);
  for (Py_ssize_t i = 0; found != stand_ins_.end() && i < PyTuple_GET_SIZE(found->second); ++i) {
    PyObject* item = PyTuple_GET_ITEM(found->second, i);
    (void)region_.numbers.plain(item);
    settle(behind(item));
  }
}

void OpenTuples::note_closed(PyObject* value, PathHash path) {
  symbolic::Value now;
  auto& noted = region_.capture->numbers;
  if (guards::is_symbolic_value(value, &now)) {
    noted.emplace_back(path, SeenNumber{now.bits(), now.type == symbolic::Type::Float});
  } else if (PyTuple_Check(value)) {
    const std::uint64_t bits = bits_of_tuple(value);
    if (bits == 0) return;
    noted.emplace_back(path, SeenNumber{bits});
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i)
      note_closed(PyTuple_GET_ITEM(value, i), hash_below(path, source::Step::Item, i, nullptr));
  }
}

py::Owned<> OpenTuples::read(PyObject* tuple, const Source* source) {
  const NumberPolicy& policy = region_.numbers.policy;
  const auto whole = [&] {
    region_.provenance.note_read(tuple, source);
    return py::Owned<>::share(tuple);
  };
  if (const auto found = stand_ins_.find(tuple); found != stand_ins_.end()) {
    const Source* known = region_.provenance.source_of(tuple);
    if (known != source) region_.provenance.guard(Kind::IS, source, {}, 0, known);
    return py::Owned<>::share(found->second);
  }
  PyTypeObject* type = Py_TYPE(tuple);
  if (policy.history == nullptr || region_.capture->source_of.contains(tuple) || !holds_items_alone(type))
    return whole();
  const std::uint64_t bits = bits_of_tuple(tuple);
  if (bits == 0) return whole();
  const PathHash path = hash_of(source);
  const SeenNumber* seen = policy.history->find(path);
  if (seen != nullptr ? !seen->opens_for(bits, false, policy.is_last)
                      : !(policy.all_open && !is_of_an_object(source))) {
    note_closed(tuple, path);
    return whole();
  }
  const py::Owned<> held = py::Owned<>::share(tuple);
  region_.capture->numbers.emplace_back(path, SeenNumber{bits, false, true});
  auto& provenance = region_.provenance;
  provenance.guard(Kind::TYPE_MATCH, source, py::Owned<>::share(reinterpret_cast<PyObject*>(type)));
  provenance.guard(Kind::LENGTH, source, {}, PyTuple_GET_SIZE(tuple));
  auto made = py::take(type->tp_alloc(type, PyTuple_GET_SIZE(tuple)));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    const Source* place = region_.capture->sources.item(source, i);
    PyTuple_SET_ITEM(made.get(), i, region_.numbers.read(PyTuple_GET_ITEM(tuple, i), place).release());
  }
  for (PyObject* object : {tuple, made.get()}) {
    provenance.keep(object);
    region_.capture->source_of.insert_or_assign(object, source);
  }
  behind_.emplace(made.get(), tuple);
  stand_ins_.emplace(tuple, made.get());
  return made;
}

}  // namespace pellucid::region
