#include "backend/prepared_call.h"

#include <structmember.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "aten/aten.h"
#include "aten/memory.h"

namespace pellucid::backend {
namespace {

// For each input: the first written input that shares its storage, and where in it the input begins. No such input:
// (-1, 0).
struct Place {
  int written = -1;
  std::int64_t offset = 0;
  bool operator==(const Place&) const = default;
};

std::vector<Place> places_of(PyObject* const* inputs, std::size_t count, const std::vector<std::size_t>& written) {
  std::unordered_map<const void*, int> first;
  std::vector<aten::Meta> metas(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (aten::is_tensor(inputs[i])) metas[i] = aten::meta_of(inputs[i]);
  }
  for (const std::size_t i : written) {
    if (metas[i].storage != nullptr) first.emplace(metas[i].storage, static_cast<int>(i));
  }
  std::vector<Place> places(count);
  std::unordered_map<int, int> members;
  for (std::size_t i = 0; i < count; ++i) {
    const auto found = metas[i].storage == nullptr ? first.end() : first.find(metas[i].storage);
    if (found == first.end()) continue;
    places[i] = {found->second, metas[i].storage_offset};
    ++members[found->second];
  }
  for (Place& place : places) {  // where a lone input begins in its own storage makes no difference
    if (place.written >= 0 && members[place.written] == 1) place.offset = 0;
  }
  return places;
}

// Two inputs that share the storage of a written one, and how their memory met in the examples.
struct Pair {
  std::size_t first, second;
  aten::Meeting meeting;
};

std::vector<aten::Extent> extents_of(PyObject* const* inputs, const std::vector<Place>& places) {
  std::vector<aten::Extent> extents(places.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (places[i].written >= 0) extents[i] = aten::extent_of(inputs[i]);
  }
  return extents;
}

std::vector<Pair> pairs_of(const std::vector<Place>& places, const std::vector<aten::Extent>& extents) {
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < places.size(); ++i) {
    for (std::size_t k = i + 1; places[i].written >= 0 && k < places.size(); ++k) {
      if (places[k].written == places[i].written) pairs.push_back({i, k, aten::meeting(extents[i], extents[k])});
    }
  }
  return pairs;
}

struct Guard {
  PyObject_HEAD vectorcallfunc call;
  PyObject *compiled, *otherwise, *attributes, *weak;
  InputFacts* facts;
  std::vector<Place>* places;
  std::vector<aten::Extent>* extents;
  std::vector<Pair>* pairs;  // none where sizes do not change
};

// The arguments, with a tensor for each float.
class WithTensors {
 public:
  WithTensors(const InputFacts& facts, PyObject* const* args, std::size_t count) : values_(args) {
    if (facts.floats.empty()) return;
    changed_.assign(args, args + count);
    made_.reserve(facts.floats.size());
    for (const std::size_t i : facts.floats) {
      if (i >= count || !PyFloat_CheckExact(args[i])) continue;
      made_.push_back(aten::scalar_tensor(PyFloat_AS_DOUBLE(args[i])));
      changed_[i] = made_.back().get();
    }
    values_ = changed_.data();
  }
  WithTensors(const WithTensors&) = delete;
  WithTensors& operator=(const WithTensors&) = delete;
  PyObject* const* values() const noexcept { return values_; }

 private:
  PyObject* const* values_;
  std::vector<PyObject*> changed_;
  std::vector<py::Owned<>> made_;
};

bool shares_as_compiled(const Guard& guard, PyObject* const* inputs, std::size_t count) {
  if (places_of(inputs, count, guard.facts->written) != *guard.places) return false;
  if (guard.pairs->empty()) return true;
  const std::vector<aten::Extent> extents = extents_of(inputs, *guard.places);
  return std::ranges::all_of(*guard.pairs, [&](const Pair& pair) {
    const auto is_same = [&](std::size_t i) { return extents[i] == (*guard.extents)[i]; };
    if (is_same(pair.first) && is_same(pair.second)) return true;
    return pair.meeting != aten::Meeting::Unclear &&
           aten::meeting(extents[pair.first], extents[pair.second]) == pair.meeting;
  });
}

bool is_as_compiled(const Guard& guard, PyObject* const* args, std::size_t count) {
  for (const std::size_t i : guard.facts->whole) {
    if (i < count && aten::meta_of(args[i]).storage_offset != 0) return false;
  }
  for (const std::size_t i : guard.facts->simple) {
    if (i < count && aten::extent_of(args[i]).may_overlap_itself) return false;
  }
  const auto fixed = static_cast<std::size_t>(PyTuple_GET_SIZE(guard.attributes));
  if (fixed + count != guard.places->size()) return true;
  if (fixed == 0) return shares_as_compiled(guard, args, count);
  PyObject* const* attributes = reinterpret_cast<PyTupleObject*>(guard.attributes)->ob_item;
  std::vector<PyObject*> all(attributes, attributes + fixed);
  all.insert(all.end(), args, args + count);
  return shares_as_compiled(guard, all.data(), all.size());
}

PyObject* call_guarded(PyObject* self, PyObject* const* args, std::size_t nargsf, PyObject* kwnames) {
  return py::enter([&] {
    auto* guard = reinterpret_cast<Guard*>(self);
    if (guard->compiled == nullptr) {
      PyErr_SetString(PyExc_RuntimeError, "pellucid: a graph was called after the garbage collector took it apart");
      py::throw_pending();
    }
    const auto count = static_cast<std::size_t>(PyVectorcall_NARGS(nargsf));
    auto target = py::Owned<>::share(is_as_compiled(*guard, args, count) ? guard->compiled : guard->otherwise);
    const WithTensors given(*guard->facts, args, count);
    return py::take(PyObject_Vectorcall(target.get(), given.values(), count, kwnames));
  });
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  auto* guard = reinterpret_cast<Guard*>(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(guard->compiled);
  Py_VISIT(guard->otherwise);
  Py_VISIT(guard->attributes);
  return 0;
}

int clear(PyObject* self) {
  auto* guard = reinterpret_cast<Guard*>(self);
  Py_CLEAR(guard->compiled);
  Py_CLEAR(guard->otherwise);
  Py_CLEAR(guard->attributes);
  return 0;
}

void dealloc(PyObject* self) {
  auto* guard = reinterpret_cast<Guard*>(self);
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (guard->weak != nullptr) PyObject_ClearWeakRefs(self);
  clear(self);
  delete guard->facts;
  delete guard->places;
  delete guard->extents;
  delete guard->pairs;
  type->tp_free(self);
  Py_DECREF(type);
}

PyTypeObject* guard_type() {
  static PyMemberDef members[] = {
      {"__vectorcalloffset__", T_PYSSIZET, offsetof(Guard, call), READONLY, nullptr},
      {"__weaklistoffset__", T_PYSSIZET, offsetof(Guard, weak), READONLY, nullptr},
      {"compiled", T_OBJECT, offsetof(Guard, compiled), READONLY, "what the backend returned"},
      {"otherwise", T_OBJECT, offsetof(Guard, otherwise), READONLY, "the graph as it was captured"},
      {nullptr, 0, 0, 0, nullptr},
  };
  static PyType_Slot slots[] = {
      {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
      {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
      {Py_tp_clear, reinterpret_cast<void*>(clear)},
      {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
      {Py_tp_members, members},
      {0, nullptr},
  };
  static PyType_Spec spec = {
      "pellucid._core.PreparedCall", sizeof(Guard), 0,
      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  static auto* const type = reinterpret_cast<PyTypeObject*>(py::take(PyType_FromSpec(&spec)).release());
  return type;
}

}  // namespace

py::Owned<> prepared_call(PyObject* compiled, PyObject* otherwise, PyObject* attributes, PyObject* examples,
                          InputFacts facts) {
  auto fixed = py::take(PySequence_Tuple(attributes));
  auto inputs = py::take(PySequence_Tuple(examples));
  auto all = py::take(PySequence_Concat(fixed.get(), inputs.get()));
  PyObject* const* all_inputs = reinterpret_cast<PyTupleObject*>(all.get())->ob_item;
  auto places = std::make_unique<std::vector<Place>>(
      places_of(all_inputs, static_cast<std::size_t>(PyTuple_GET_SIZE(all.get())), facts.written));
  auto extents = std::make_unique<std::vector<aten::Extent>>();
  auto pairs = std::make_unique<std::vector<Pair>>();
  if (facts.sizes_change) {
    *extents = extents_of(all_inputs, *places);
    *pairs = pairs_of(*places, *extents);
  }
  PyTypeObject* type = guard_type();
  auto made = py::take(type->tp_alloc(type, 0));
  auto* guard = reinterpret_cast<Guard*>(made.get());
  guard->call = call_guarded;
  guard->compiled = Py_NewRef(compiled);
  guard->otherwise = Py_NewRef(otherwise);
  guard->attributes = fixed.release();
  guard->facts = new InputFacts(std::move(facts));
  guard->places = places.release();
  guard->extents = extents.release();
  guard->pairs = pairs.release();
  return made;
}

}  // namespace pellucid::backend
