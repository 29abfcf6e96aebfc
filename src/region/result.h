// What an operation of the region gives, and what a call gets.
#pragma once
#include <Python.h>

#include <cstdint>
#include <span>

#include "py/ref.h"

namespace pellucid::region {

struct Frame;

// The outcome of an operation: a value at once; a frame was pushed, and what becomes of its result waits in its `then`;
// or the program raised (Interpreter::exception holds the instance). Interpreter::and_then goes on from any of these.
struct Result {
  enum class Did : std::uint8_t { Value, Pushed, Raised, Done } did = Did::Value;  // Done: nothing to push
  py::Owned<> value;
  Frame* frame = nullptr;  // Pushed: the frame whose result is the operation's; others may be above it already
  static Result of(py::Owned<> v) { return {Did::Value, std::move(v)}; }
  static Result none() { return of(py::Owned<>::share(Py_None)); }
  static Result boolean(bool b) { return of(py::Owned<>::share(b ? Py_True : Py_False)); }
  static Result pushed(Frame* frame) { return {Did::Pushed, {}, frame}; }
  static Result raised() { return {Did::Raised, {}}; }
  static Result done() { return {Did::Done, {}}; }
  bool is_value() const noexcept { return did == Did::Value; }
};

// Arguments of a call: positional first, then the values of the keywords named in kwnames (a tuple or null).
struct Args {
  std::span<PyObject* const> values;
  PyObject* kwnames = nullptr;
  std::size_t keyword_count() const noexcept {
    return kwnames == nullptr ? 0 : static_cast<std::size_t>(PyTuple_GET_SIZE(kwnames));
  }
  std::size_t size() const noexcept { return values.size() - keyword_count(); }
  PyObject* operator[](std::size_t i) const { return values[i]; }
  std::span<PyObject* const> positional() const { return values.first(size()); }
  PyObject* keyword(const char* name) const;  // borrowed or null
  // The keyword of values[i], borrowed; null: it is positional.
  PyObject* keyword_of(std::size_t i) const noexcept {
    return kwnames == nullptr || i < size() ? nullptr : PyTuple_GET_ITEM(kwnames, static_cast<Py_ssize_t>(i - size()));
  }
};

}  // namespace pellucid::region
