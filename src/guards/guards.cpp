#include <algorithm>

#include "guards/guard.h"

namespace pellucid::guards {
namespace {

std::size_t mixed(std::size_t seed, std::size_t value) noexcept {
  const std::size_t h = (seed ^ value) * 0x9E3779B97F4A7C15ull;
  return h ^ (h >> 29);
}

std::size_t hash_of(PyObject* operand) noexcept {
  const PyTypeObject* const type = operand == nullptr ? nullptr : Py_TYPE(operand);
  if (type == &PyBytes_Type) return static_cast<std::size_t>(PyObject_Hash(operand));
  if (type != &PyTuple_Type) return reinterpret_cast<std::size_t>(operand) >> 4;
  std::size_t h = 0;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(operand); ++i) {
    h = mixed(h, reinterpret_cast<std::size_t>(PyTuple_GET_ITEM(operand, i)) >> 4);
  }
  return h;
}

// Payloads of tuples and bytes are made anew for every guard: what counts is what they hold.
bool same_operand(PyObject* a, PyObject* b) noexcept {
  if (a == b) return true;
  if (a == nullptr || b == nullptr || Py_TYPE(a) != Py_TYPE(b)) return false;
  if (PyBytes_CheckExact(a)) return PyObject_RichCompareBool(a, b, Py_EQ) == 1;
  if (!PyTuple_CheckExact(a)) return false;
  if (PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a); ++i) {
    if (PyTuple_GET_ITEM(a, i) != PyTuple_GET_ITEM(b, i)) return false;
  }
  return true;
}

std::uint32_t hash_of(const Guard& guard) noexcept {
  std::size_t h = mixed(static_cast<std::size_t>(guard.kind), reinterpret_cast<std::size_t>(guard.source) >> 4);
  h = mixed(h, hash_of(guard.operand.get()));
  h = mixed(h, static_cast<std::size_t>(guard.number));
  h = mixed(h, reinterpret_cast<std::size_t>(guard.other) >> 4);
  return static_cast<std::uint32_t>(h ^ (h >> 32));
}

bool is_same(const Guard& a, const Guard& b) noexcept {
  return a.kind == b.kind && a.source == b.source && a.number == b.number && a.other == b.other &&
         same_operand(a.operand.get(), b.operand.get());
}

}  // namespace

std::string_view name_of(Kind kind) noexcept {
  static constexpr std::string_view kNames[] = {
#define GUARD(kind, ...) #kind,
#include "guards/guards.def"
  };
  return kNames[static_cast<std::size_t>(kind)];
}

GuardSet::Place& GuardSet::place_of(const Guard& guard, std::uint32_t hash) noexcept {
  const std::size_t last = places_.size() - 1;
  for (std::size_t at = hash & last;; at = (at + 1) & last) {
    Place& place = places_[at];
    if (place.number == 0 || (place.hash == hash && is_same(guards_[place.number - 1], guard))) return place;
  }
}

void GuardSet::grow() {
  const auto before = std::exchange(places_, std::vector<Place>(std::max<std::size_t>(64, 2 * places_.size())));
  const std::size_t last = places_.size() - 1;
  for (const Place& place : before) {
    if (place.number == 0) continue;
    std::size_t at = place.hash & last;
    while (places_[at].number != 0) at = (at + 1) & last;
    places_[at] = place;
  }
}

Guard* GuardSet::add(Guard guard) {
  if (2 * guards_.size() >= places_.size()) grow();
  const std::uint32_t hash = hash_of(guard);
  Place& place = place_of(guard, hash);
  if (place.number != 0) return nullptr;
  guards_.push_back(std::move(guard));
  place = {hash, static_cast<std::uint32_t>(guards_.size())};
  return &guards_.back();
}

std::vector<Guard> GuardSet::release() {
  places_ = {};
  return std::exchange(guards_, {});
}

}  // namespace pellucid::guards
