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

}  // namespace

std::string_view name_of(Kind kind) noexcept {
  static constexpr std::string_view kNames[] = {
#define GUARD(kind, ...) #kind,
#include "guards/guards.def"
  };
  return kNames[static_cast<std::size_t>(kind)];
}

bool GuardSet::Key::operator==(const Key& that) const noexcept {
  return kind == that.kind && source == that.source && number == that.number && other == that.other &&
         same_operand(operand, that.operand);
}

std::size_t GuardSet::Hash::operator()(const Key& k) const noexcept {
  std::size_t h = mixed(static_cast<std::size_t>(k.kind), reinterpret_cast<std::size_t>(k.source) >> 4);
  h = mixed(h, hash_of(k.operand));
  h = mixed(h, static_cast<std::size_t>(k.number));
  return mixed(h, reinterpret_cast<std::size_t>(k.other) >> 4);
}

GuardSet::Key GuardSet::key_of(const Guard& guard) noexcept {
  return {guard.kind, guard.source, guard.operand.get(), guard.number, guard.other};
}

bool GuardSet::add(Guard guard) {
  if (!keys_.try_emplace(key_of(guard), guards_.size()).second) return false;
  guards_.push_back(std::move(guard));
  return true;
}

std::vector<Guard> GuardSet::release() {
  keys_.clear();
  return std::exchange(guards_, {});
}

}  // namespace pellucid::guards
