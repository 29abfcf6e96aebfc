#include "py/set_table.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <vector>

namespace pellucid::py {
namespace {

PySetObject* as_set(PyObject* set) noexcept { return reinterpret_cast<PySetObject*>(set); }

std::span<setentry> slots_of(PyObject* set) noexcept {
  return {as_set(set)->table, static_cast<std::size_t>(as_set(set)->mask) + 1};
}

char kind_of(const setentry& slot) noexcept {
  if (slot.key == nullptr) return kEmptySlot;
  return slot.key == _PySet_Dummy ? kLeftSlot : kElementSlot;
}

struct FreeMemory {
  void operator()(setentry* table) const noexcept { PyMem_Free(table); }
};
using Table = std::unique_ptr<setentry, FreeMemory>;

// What the slots held before.
std::vector<Owned<>> share_slots(PyObject* set, std::span<const setentry> slots) {
  PySetObject* self = as_set(set);
  std::vector<Owned<>> before;
  before.reserve(static_cast<std::size_t>(self->used));
  Table larger;
  if (slots.size() > PySet_MINSIZE) {
    larger.reset(PyMem_New(setentry, slots.size()));
    if (!larger) throw std::bad_alloc();
  }
  for (const setentry& slot : slots_of(set)) {
    if (kind_of(slot) == kElementSlot) before.push_back(Owned<>::steal(slot.key));
  }
  const Table old(self->table == self->smalltable ? nullptr : self->table);
  self->table = larger ? larger.release() : self->smalltable;
  std::ranges::copy(slots, self->table);
  self->mask = static_cast<Py_ssize_t>(slots.size()) - 1;
  self->used = std::ranges::count(slots, kElementSlot, kind_of);
  self->fill = self->used + std::ranges::count(slots, kLeftSlot, kind_of);
  for (const setentry& slot : slots) {
    if (kind_of(slot) == kElementSlot) Py_INCREF(slot.key);
  }
  return before;
}

bool all_found(PyObject* set) {
  for (const setentry& slot : slots_of(set)) {
    if (kind_of(slot) != kElementSlot) continue;
    const int found = PySet_Contains(set, slot.key);
    check(found);
    if (found == 0) return false;
  }
  return true;
}

// The element of the set that is equal to this one, with a dict of the set's elements.
PyObject* own_element(PyObject* elements, PyObject* element) {
  PyObject* own = PyDict_GetItemWithError(elements, element);
  if (own == nullptr && PyErr_Occurred()) throw_pending();
  return own == nullptr ? element : own;
}

}  // namespace

std::string table_of(PyObject* set) {
  std::string table;
  for (const setentry& slot : slots_of(set)) table.push_back(kind_of(slot));
  return table;
}

bool has_table(PyObject* set, std::string_view table) noexcept {
  return std::ranges::equal(slots_of(set), table, {}, kind_of);
}

bool has_same_table(PyObject* a, PyObject* b) noexcept {
  return std::ranges::equal(slots_of(a), slots_of(b), {}, &setentry::key, &setentry::key);
}

Py_ssize_t finger_of(PyObject* set) noexcept { return as_set(set)->finger; }

Owned<> copy_with_table(PyObject* set, Py_ssize_t finger) {
  auto copy = take(PySet_New(nullptr));
  share_slots(copy.get(), slots_of(set));
  as_set(copy.get())->finger = finger;
  return copy;
}

void lay_out(PyObject* set, std::span<PyObject* const> elements, std::string_view table, Py_ssize_t finger) {
  auto own = take(PyDict_New());
  for (const setentry& slot : slots_of(set)) {
    if (kind_of(slot) == kElementSlot) check(_PyDict_SetItem_KnownHash(own.get(), slot.key, slot.key, slot.hash));
  }
  auto laid_out = take(PySet_New(nullptr));
  std::vector<Owned<>> held;
  std::vector<setentry> slots;
  auto element = elements.begin();
  for (const char kind : table) {
    setentry slot{nullptr, 0};
    if (kind == kLeftSlot) slot = {_PySet_Dummy, -1};
    if (kind == kElementSlot || kind == kKeptSlot) {
      if (element == elements.end()) throw std::logic_error("fewer elements than slots for them");
      slot.key = kind == kKeptSlot ? own_element(own.get(), *element) : *element;
      slot.hash = PyObject_Hash(slot.key);
      if (slot.hash == -1) throw_pending();
      held.push_back(Owned<>::share(slot.key));
      ++element;
    }
    slots.push_back(slot);
  }
  const bool is_table = slots.size() >= PySet_MINSIZE && std::has_single_bit(slots.size());
  if (!is_table || std::ranges::count(slots, kEmptySlot, kind_of) == 0)
    throw std::logic_error("not the table of a set");
  share_slots(laid_out.get(), slots);
  if (!all_found(laid_out.get())) {
    check(PySet_Clear(laid_out.get()));
    for (const auto& each : held) check(PySet_Add(laid_out.get(), each.get()));
  }
  const auto before = share_slots(set, slots_of(laid_out.get()));
  if (finger >= 0) as_set(set)->finger = finger;
}

}  // namespace pellucid::py
