#include "guards/discriminant.h"

#include <algorithm>
#include <bit>
#include <unordered_set>

#include "guards/equality.h"

namespace pellucid::guards {
namespace {

using Key = Discriminant::Key;

Key mixed(Key kind, Key value) noexcept {
  Key mix = (value + kind) * 0x9E3779B97F4A7C15ull;
  return mix ^ (mix >> 32);
}

Key key_of_object(const void* object) noexcept { return mixed(0, reinterpret_cast<Key>(object)); }

// The same for all values that EQUALS_MATCH takes for this one; nothing for those that it compares in other ways.
std::optional<Key> key_of_value(PyObject* value) noexcept {
  PyTypeObject* type = Py_TYPE(value);
  if (value == Py_None || type == &PyBool_Type) return key_of_object(value);
  if (type == &PyLong_Type) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    return overflow == 0 ? std::optional(mixed(1, static_cast<Key>(number))) : std::nullopt;
  }
  if (type == &PyFloat_Type) return mixed(2, std::bit_cast<Key>(PyFloat_AS_DOUBLE(value)));
  if (type == &PyUnicode_Type) return mixed(3, static_cast<Key>(PyObject_Hash(value)));  // C code that cannot fail
  return std::nullopt;
}

}  // namespace

bool Discriminant::is_same(const Place& a, const Place& b) noexcept {
  return a.aspect == b.aspect && a.dim == b.dim && equal_paths(a.path->back(), b.path->back());
}

std::vector<Discriminant::Place> Discriminant::places_of(const Case& program) {
  std::vector<Place> places;
  for (const Tells::Tell& tell : program.tells->tells_) {
    const Check& check = program.program->checks_[tell.check];
    const Path& path = tell.paths.front();
    switch (check.kind) {
      case Kind::EQUALS_MATCH:
        if (const auto key = key_of_value(check.operand)) places.push_back({&path, Aspect::Value, 0, *key});
        break;
      case Kind::ID_MATCH:
        places.push_back({&path, Aspect::Object, 0, key_of_object(check.operand)});
        break;
      case Kind::TYPE_MATCH:
        places.push_back({&path, Aspect::Type, 0, key_of_object(check.operand)});
        break;
      case Kind::TENSOR_MATCH: {
        constexpr std::int64_t kMostDims = 8;
        std::int64_t size = 0;
        for (std::int64_t dim = 0; dim < kMostDims; ++dim) {
          if (check.tensor->size_at(dim, &size))
            places.push_back({&path, Aspect::Size, dim, mixed(4, static_cast<Key>(size))});
        }
        break;
      }
      default:
        break;
    }
  }
  return places;
}

// A place, and the different keys that programs have there.
struct Discriminant::Tally {
  const GuardProgram* owner;
  Place place;
  std::unordered_set<Key> keys;
  std::size_t keyed = 0;

  // How many of all programs a call that has a key here leaves, if each key is met as often as others.
  double left_of(std::size_t all) const noexcept {
    return static_cast<double>(all - keyed) + static_cast<double>(keyed) / static_cast<double>(keys.size());
  }
};

std::unique_ptr<Discriminant> Discriminant::of(std::span<const Case> cases) {
  std::vector<Tally> tallies;
  for (const Case& program : cases) {
    if (!program.program->alive()) continue;  // what its guards name may be gone
    for (const Place& place : places_of(program)) {
      auto found = std::ranges::find_if(tallies, [&](const Tally& tally) { return is_same(tally.place, place); });
      if (found == tallies.end()) found = tallies.insert(found, Tally{program.program, place, {}, 0});
      found->keys.insert(place.key);
      ++found->keyed;
    }
  }
  const auto left = [&](const Tally& tally) { return tally.left_of(cases.size()); };
  const auto best = std::ranges::min_element(tallies, {}, left);
  if (best == tallies.end() || 2 * left(*best) > static_cast<double>(cases.size())) return nullptr;
  return std::unique_ptr<Discriminant>(new Discriminant(*best->owner, best->place));
}

Discriminant::Discriminant(const GuardProgram& owner, const Place& place)
    : owner_(owner), path_(*place.path), aspect_(place.aspect), dim_(place.dim) {}

std::optional<Key> Discriminant::key_of(const Case& program) const {
  if (!program.program->alive() || !owner_.alive()) return std::nullopt;
  const Place wanted{&path_, aspect_, dim_, 0};
  for (const Place& place : places_of(program)) {
    if (is_same(place, wanted)) return place.key;
  }
  return std::nullopt;
}

Discriminant::Reading Discriminant::read(PyObject* const* locals, PyObject* closure) const noexcept {
  if (!owner_.alive()) return {};
  PyObject* value = object_at(path_, path_.size(), locals, closure);
  if (value == nullptr) return {.kind = Reading::None};
  const auto known = [](Key key) { return Reading{Reading::Known, key}; };
  switch (aspect_) {
    case Aspect::Object:
      return known(key_of_object(value));
    case Aspect::Type:
      return known(key_of_object(Py_TYPE(value)));
    case Aspect::Size: {
      std::int64_t size = 0;
      // A tensor that answers with Python code has sizes too, and may fit.
      return aten::size_at(value, dim_, &size) ? known(mixed(4, static_cast<Key>(size))) : Reading{};
    }
    case Aspect::Value:
      break;
  }
  const auto key = key_of_value(value);
  return key ? known(*key) : Reading{.kind = Reading::None};
}

}  // namespace pellucid::guards
