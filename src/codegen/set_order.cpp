#include "codegen/set_order.h"

#include <algorithm>
#include <random>

#include "codegen/facts.h"

namespace pellucid::codegen {
namespace {

using Items = std::vector<PyObject*>;

constexpr int kTrials = 300;

// Hashes that are the same in a later call, by C code; otherwise there is no order to keep.
bool has_fixed_hash(PyObject* key) {
  if (PyTuple_CheckExact(key)) return std::ranges::all_of(list_items(key), has_fixed_hash);
  return PyLong_CheckExact(key) || PyUnicode_CheckExact(key) || PyFloat_CheckExact(key) || PyBytes_CheckExact(key) ||
         PyBool_Check(key) || PyComplex_CheckExact(key);
}

// The same elements in the same slots: what is added later finds the same in its way.
bool is_laid_out_as(PyObject* a, PyObject* b) {
  const auto *left = reinterpret_cast<PySetObject*>(a), *right = reinterpret_cast<PySetObject*>(b);
  if (left->mask != right->mask) return set_items(a) == set_items(b);  // one that lost elements, or was copied
  const auto element = [](const setentry& entry) { return entry.hash == -1 ? nullptr : entry.key; };  // not a dummy
  for (Py_ssize_t slot = 0; slot <= left->mask; ++slot) {
    if (element(left->table[slot]) != element(right->table[slot])) return false;
  }
  return true;
}

bool gives(const Items& order, PyObject* wanted) {
  auto trial = py::take(PySet_New(nullptr));
  for (PyObject* item : order) py::check(PySet_Add(trial.get(), item));
  return is_laid_out_as(trial.get(), wanted);
}

// Each element after those that it found in its way (set_add_entry in setobject.c), as far as they are still there.
Items behind_those_in_the_way(PyObject* set) {
  constexpr std::size_t kLinearProbes = 9;
  constexpr int kPerturbShift = 5;
  const auto* table = reinterpret_cast<PySetObject*>(set);
  const auto mask = static_cast<std::size_t>(table->mask);
  const Items items = set_items(set);
  std::vector<bool> placed(mask + 1), is_element(mask + 1);
  for (std::size_t slot = 0; slot <= mask; ++slot)
    is_element[slot] = std::ranges::find(items, table->table[slot].key) != items.end();
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
      if (!is_element[slot] || placed[slot] || first_free(static_cast<std::size_t>(table->table[slot].hash)) != slot)
        continue;
      placed[slot] = progress = true;
      order.push_back(table->table[slot].key);
    }
  }
  return order;
}

}  // namespace

Items order_of_insertion(PyObject* set) {
  const Items items = set_items(set);
  if (items.size() < 2 || !std::ranges::all_of(items, has_fixed_hash) || gives(items, set)) return items;
  Items order = behind_those_in_the_way(set);
  if (order.size() == items.size() && gives(order, set)) return order;
  order = items;
  std::mt19937 random(1);  // the same in each run
  for (int trial = 0; trial < kTrials; ++trial) {
    std::ranges::shuffle(order, random);
    if (gives(order, set)) return order;
  }
  return {};
}

py::Owned<> constant_twin(PyObject* set) {
  const Items items = set_items(set);
  if (items.empty() || !std::ranges::all_of(items, has_fixed_hash)) return {};
  const auto mask_of = [](PyObject* any) { return reinterpret_cast<PySetObject*>(any)->mask; };
  const Items order = order_of_insertion(set);
  auto added = py::take(PySet_New(nullptr)), twin = py::take(PyFrozenSet_New(set));
  for (PyObject* item : order) py::check(PySet_Add(added.get(), item));
  const auto copy = py::take(PySet_New(twin.get()));
  const bool better = order.empty() || (mask_of(added.get()) != mask_of(set) && mask_of(copy.get()) == mask_of(set));
  return better && is_laid_out_as(copy.get(), set) ? std::move(twin) : py::Owned<>();
}

bool added_at_once(PyObject* before, PyObject* after, const Items& added) {
  if (added.size() < 2 || !std::ranges::all_of(set_items(after), has_fixed_hash)) return false;
  auto one_by_one = py::take(PySet_New(before)), at_once = py::take(PySet_New(before)),
       more = py::take(PySet_New(nullptr));
  for (PyObject* item : added) {
    py::check(PySet_Add(one_by_one.get(), item));
    py::check(PySet_Add(more.get(), item));
  }
  if (set_items(one_by_one.get()) == set_items(after)) return false;
  py::check(_PySet_Update(at_once.get(), more.get()));
  return set_items(at_once.get()) == set_items(after);
}

}  // namespace pellucid::codegen
