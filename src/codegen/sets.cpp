#include "codegen/sets.h"

#include <algorithm>
#include <unordered_set>

#include "py/keys.h"
#include "py/set_table.h"
#include "region/number.h"
#include "region/types.h"

namespace pellucid::codegen {
namespace {

using Items = std::vector<PyObject*>;

// Hashed by what it is; what it is was guarded when capture hashed it.
bool is_hashed_by_value(py::KeyFamily family) {
  switch (family) {
    case py::KeyFamily::Number:
    case py::KeyFamily::Float:
    case py::KeyFamily::Complex:
    case py::KeyFamily::Text:
    case py::KeyFamily::Bytes:
    case py::KeyFamily::Alias:
    case py::KeyFamily::Union:
    case py::KeyFamily::Decimal:
    case py::KeyFamily::Date:
    case py::KeyFamily::DateTime:
    case py::KeyFamily::Time:
    case py::KeyFamily::TimeDelta:
    case py::KeyFamily::TimeZone:
    case py::KeyFamily::Pattern:
    case py::KeyFamily::Range:
    case py::KeyFamily::Device:
    case py::KeyFamily::NumpyScalar:
    case py::KeyFamily::NumpyDtype:
      return true;
    default:
      return false;
  }
}

// The family of the builtin class that says how objects of this one are hashed: a class of the program over one has a
// family of its own, or none.
py::KeyFamily hashed_as(const PyTypeObject* type) {
  for (PyTypeObject* base = const_cast<PyTypeObject*>(type); base != nullptr; base = base->tp_base) {
    const py::KeyFamily family = py::key_family(base);
    if (family != py::KeyFamily::Unknown && base->tp_hash == type->tp_hash) return family;
  }
  return py::KeyFamily::Unknown;
}

// Equal or identical in later calls: by what it is, or because a guard says so of what is a key.
bool has_fixed_hash(const Walker& walker, PyObject* key, bool is_outside) {
  if (region::is_number(key)) return region::as_number(key)->settled;
  const auto is_fixed = [&](PyObject* part) { return has_fixed_hash(walker, part, is_outside); };
  const py::KeyFamily family = hashed_as(Py_TYPE(key));
  if (family == py::KeyFamily::Tuple) return std::ranges::all_of(list_items(key), is_fixed);
  if (family == py::KeyFamily::FrozenSet) return std::ranges::all_of(set_items(key), is_fixed);
  if (is_hashed_by_value(family) && !is_nan(key)) return true;
  const auto found = walker.capture().source_of.find(key);
  const Source* source = found == walker.capture().source_of.end() ? nullptr : found->second;
  if (source == nullptr && is_nan(key)) return false;  // hashed by its address, and new at every call
  const bool is_same = region::is_atom(region::cat_of(key)) || PyType_Check(key) || walker.is_constant(key) ||
                       (source != nullptr && (is_outside || source->step == source::Step::Const));
  return is_same && has_c_hash(key);
}

bool gives(const Items& order, PyObject* wanted) {
  auto trial = py::take(PySet_New(nullptr));
  for (PyObject* item : order) py::check(PySet_Add(trial.get(), item));
  return py::has_same_table(trial.get(), wanted);
}

// Each element after those that it found in its way (set_add_entry in setobject.c), as far as they are still there.
Items behind_those_in_the_way(PyObject* set) {
  constexpr std::size_t kLinearProbes = 9;
  constexpr int kPerturbShift = 5;
  const auto* table = reinterpret_cast<PySetObject*>(set);
  const auto mask = static_cast<std::size_t>(table->mask);
  const std::string kinds = py::table_of(set);
  std::vector<bool> placed(mask + 1);
  const auto first_free = [&](std::size_t hash) {
    std::size_t at = hash & mask;
    for (std::size_t perturb = hash;;) {
      const std::size_t probes = at + kLinearProbes <= mask ? kLinearProbes : 0;
      for (std::size_t i = at; i <= at + probes; ++i) {
        if (!placed[i]) return i;
      }
      perturb >>= kPerturbShift;
      at = (at * 5 + 1 + perturb) & mask;
    }
  };
  Items order;
  for (bool progress = true; std::exchange(progress, false);) {
    for (std::size_t slot = 0; slot <= mask; ++slot) {
      if (kinds[slot] != py::kElementSlot || placed[slot]) continue;
      if (first_free(static_cast<std::size_t>(table->table[slot].hash)) != slot) continue;
      placed[slot] = progress = true;
      order.push_back(table->table[slot].key);
    }
  }
  return order;
}

PyObject* lay_out_function(PyObject*, PyObject* const* args, Py_ssize_t count) noexcept {
  return py::enter([&]() -> py::Owned<> {
    const bool fits = count == 4 && PyAnySet_Check(args[0]) && PyTuple_Check(args[1]) && PyBytes_Check(args[2]);
    const Py_ssize_t finger = fits ? PyLong_AsSsize_t(args[3]) : -1;
    if (!fits) PyErr_SetString(PyExc_TypeError, "lay_out_set(set, elements, table, finger)");
    if (PyErr_Occurred() != nullptr) py::throw_pending();
    const Items elements = list_items(args[1]);
    py::lay_out(args[0], elements, {PyBytes_AS_STRING(args[2]), static_cast<std::size_t>(PyBytes_GET_SIZE(args[2]))},
                finger);
    return py::Owned<>::share(args[0]);
  });
}

PyObject* lay_out_object() {
  static PyMethodDef def{"__lay_out_set", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(lay_out_function)),
                         METH_FASTCALL, nullptr};
  static PyObject* const object = py::take(PyCFunction_New(&def, nullptr)).release();
  return object;
}

}  // namespace

bool has_fixed_hashes(const Walker& walker, PyObject* set, bool is_outside) {
  return std::ranges::all_of(set_items(set), [&](PyObject* item) { return has_fixed_hash(walker, item, is_outside); });
}

std::optional<Items> order_of_insertion(const Walker& walker, PyObject* set, bool is_outside) {
  Items items = set_items(set);
  if (!has_fixed_hashes(walker, set, is_outside)) return items;
  if (py::finger_of(set) > 0) return std::nullopt;
  if (gives(items, set)) return items;
  Items order = behind_those_in_the_way(set);
  if (order.size() == items.size() && gives(order, set)) return order;
  return std::nullopt;
}

Expr laid_out(Walker& walker, Expr target, PyObject* wanted, const Items& before) {
  const std::unordered_set<PyObject*> kept(before.begin(), before.end());
  std::vector<Expr> elements;
  std::string table = py::table_of(wanted);
  auto slot = table.begin();
  for (PyObject* item : set_items(wanted)) {
    slot = std::find(slot, table.end(), py::kElementSlot);
    if (kept.contains(item)) *slot = py::kKeptSlot;
    ++slot;
    elements.push_back(walker.ref(item));
  }
  const auto bytes = py::take(PyBytes_FromStringAndSize(table.data(), static_cast<Py_ssize_t>(table.size())));
  const auto finger = py::take(PyLong_FromSsize_t(py::finger_of(wanted)));
  return Expr::call(lay_out_object(), exprs(std::move(target), Expr::list(Expr::Kind::Tuple, std::move(elements)),
                                            Expr::constant(bytes.get()), Expr::constant(finger.get())));
}

}  // namespace pellucid::codegen
