// The one value by which many programs are told apart: an int, a text or another constant, a type, an object, or a size
// of a tensor. Each program that asks for one of it has a key, and so has each call: a program with another key than
// the call's cannot hold. Two values may share a key.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "guards/path.h"
#include "guards/program.h"
#include "guards/tell.h"

namespace pellucid::guards {

class Discriminant {
 public:
  using Key = std::uint64_t;
  struct Case {
    const GuardProgram* program;
    const Tells* tells;  // of that program: only what these ask for is looked at
  };

  // By what they are told apart best; null: nothing would leave less than half of them.
  static std::unique_ptr<Discriminant> of(std::span<const Case> cases);

  // Nothing: the program may hold whatever is there.
  std::optional<Key> key_of(const Case& program) const;

  // What a call has there.
  struct Reading {
    enum Kind : std::uint8_t {
      Unknown,  // it cannot be told: any program may hold
      None,     // nothing that has a key: programs with one do not hold
      Known,
    };
    Kind kind = Unknown;
    Key key = 0;
  };
  Reading read(PyObject* const* locals, PyObject* closure) const noexcept;

 private:
  enum class Aspect : std::uint8_t { Value, Object, Type, Size };
  struct Place {
    const Path* path;
    Aspect aspect;
    std::int64_t dim;  // of Size
    Key key;
  };
  struct Tally;

  Discriminant(const GuardProgram& owner, const Place& place);
  static std::vector<Place> places_of(const Case& program);
  static bool is_same(const Place& a, const Place& b) noexcept;

  const GuardProgram& owner_;  // of the path's sources
  Path path_;
  Aspect aspect_;
  std::int64_t dim_;
};

}  // namespace pellucid::guards
