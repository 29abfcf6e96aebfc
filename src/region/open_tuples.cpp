#include "region/open_tuples.h"

#include "guards/condition.h"
#include "py/cpython.h"
#include "region/region.h"
#include "region/torch_module.h"

namespace pellucid::region {
namespace {

constexpr int kDeepestTuple = 8;
constexpr const char* kPartsOfSlices[] = {"start", "stop", "step"};

const Source* place_of_item(source::SourceTable& sources, PyObject* tuple, const Source* source, Py_ssize_t i) {
  return PyTuple_Check(tuple) ? sources.item(source, i) : sources.member(source, py::interned(kPartsOfSlices[i]).get());
}

py::Owned<> with_items(PyObject* tuple, std::vector<py::Owned<>> items) {
  if (PySlice_Check(tuple)) return py::take(PySlice_New(items[0].get(), items[1].get(), items[2].get()));
  auto made = py::take(Py_TYPE(tuple)->tp_alloc(Py_TYPE(tuple), static_cast<Py_ssize_t>(items.size())));
  for (std::size_t i = 0; i < items.size(); ++i)
    PyTuple_SET_ITEM(made.get(), static_cast<Py_ssize_t>(i), items[i].release());
  return made;
}

std::uint64_t mixed(std::uint64_t hash, std::uint64_t bits) {
  hash += (bits + 0x9e3779b97f4a7c15ULL) * 0xbf58476d1ce4e5b9ULL;
  return (hash ^ (hash >> 29)) * 0x94d049bb133111ebULL | 1;
}

// What tells the numbers of a tuple from others; 0: it has none.
std::uint64_t bits_of_tuple(PyObject* tuple, int depth = 0) {
  std::uint64_t bits = 0;
  for (Py_ssize_t i = 0; depth < kDeepestTuple && i < OpenTuples::size(tuple); ++i) {
    PyObject* item = OpenTuples::item(tuple, i);
    symbolic::Value value;
    if (guards::is_symbolic_value(item, &value))
      bits =
          mixed(mixed(bits, static_cast<std::uint64_t>(i) + (PyFloat_CheckExact(item) ? 1U << 30 : 0)), value.bits());
    else if (OpenTuples::is_one(item))
      if (const std::uint64_t inner = bits_of_tuple(item, depth + 1); inner != 0) bits = mixed(bits + 3, inner);
  }
  return bits;
}

// Whether a tuple of this type is its items, and no more.
bool holds_items_alone(PyTypeObject* type) {
  static PyObject* const fields = py::interned("_fields").release();
  if (type == &PyTuple_Type || type == &PySlice_Type || type == torch_size_type()) return true;
  return PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) && type->tp_dictoffset == 0 &&
         py::type_lookup(type, fields) != nullptr;
}

}  // namespace

bool OpenTuples::is_one(PyObject* object) noexcept { return PyTuple_Check(object) || PySlice_Check(object); }

Py_ssize_t OpenTuples::size(PyObject* tuple) noexcept { return PySlice_Check(tuple) ? 3 : PyTuple_GET_SIZE(tuple); }

PyObject* OpenTuples::item(PyObject* tuple, Py_ssize_t i) noexcept {
  if (PyTuple_Check(tuple)) return PyTuple_GET_ITEM(tuple, i);
  auto* slice = reinterpret_cast<PySliceObject*>(tuple);
  return i == 0 ? slice->start : i == 1 ? slice->stop : slice->step;
}

PathHash OpenTuples::path_of_item(PyObject* tuple, PathHash path, Py_ssize_t i) noexcept {
  if (PyTuple_Check(tuple)) return hash_below(path, source::Step::Item, i, nullptr);
  return hash_below(path, source::Step::Member, -1, py::interned(kPartsOfSlices[i]).get());
}

PyObject* OpenTuples::behind(PyObject* object) const {
  const auto found = behind_.find(object);
  return found == behind_.end() ? object : found->second;
}

void OpenTuples::settle(PyObject* tuple) {
  const auto found = stand_ins_.find(tuple);
  for (Py_ssize_t i = 0; found != stand_ins_.end() && i < size(found->second); ++i) {
    PyObject* part = item(found->second, i);
    (void)region_.numbers.plain(part);
    settle(behind(part));
  }
}

void OpenTuples::note_closed(PyObject* value, PathHash path) {
  symbolic::Value now;
  auto& noted = region_.capture->numbers;
  if (guards::is_symbolic_value(value, &now)) {
    noted.emplace_back(path, SeenNumber{now.bits(), now.type == symbolic::Type::Float});
  } else if (is_one(value)) {
    const std::uint64_t bits = bits_of_tuple(value);
    if (bits == 0) return;
    noted.emplace_back(path, SeenNumber{bits});
    for (Py_ssize_t i = 0; i < size(value); ++i) note_closed(item(value, i), path_of_item(value, path, i));
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
  if (PyTuple_Check(tuple)) provenance.guard(Kind::LENGTH, source, {}, PyTuple_GET_SIZE(tuple));
  std::vector<py::Owned<>> items;
  for (Py_ssize_t i = 0; i < size(tuple); ++i) {
    const Source* place = place_of_item(region_.capture->sources, tuple, source, i);
    items.push_back(region_.numbers.read(item(tuple, i), place));
  }
  auto made = with_items(tuple, std::move(items));
  for (PyObject* object : {tuple, made.get()}) {
    provenance.keep(object);
    region_.capture->source_of.insert_or_assign(object, source);
  }
  behind_.emplace(made.get(), tuple);
  stand_ins_.emplace(tuple, made.get());
  return made;
}

}  // namespace pellucid::region
