#include "frames/state.h"

namespace pellucid::frames {
namespace {

std::vector<bool> filled(const std::vector<py::Owned<>>& slots) {
  std::vector<bool> result;
  result.reserve(slots.size());
  for (const auto& slot : slots) result.push_back(static_cast<bool>(slot));
  return result;
}

void add_bits(std::vector<std::uint64_t>& key, const std::vector<py::Owned<>>& slots) {
  key.push_back(slots.size());
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (i % 64 == 0) key.push_back(0);
    if (slots[i]) key.back() |= std::uint64_t{1} << (i % 64);
  }
}

std::uint64_t bits(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

// A function's __code__ may be replaced while a frame still runs the old one.
py::Owned<PyFunctionObject> with_code(PyFunctionObject* function, PyCodeObject* code) {
  if (function->func_code == reinterpret_cast<PyObject*>(code)) return py::Owned<PyFunctionObject>::share(function);
  auto other = py::take(PyFunction_New(reinterpret_cast<PyObject*>(code), function->func_globals));
  return py::Owned<PyFunctionObject>::steal(reinterpret_cast<PyFunctionObject*>(other.release()));
}

}  // namespace

std::vector<PyObject*> values_of(const State& state) {
  std::vector<PyObject*> values;
  for (const OpenFrame& frame : state.frames) {
    values.push_back(frame.function.object());
    for (const auto* slots : {&frame.fast, &frame.stack}) {
      for (const auto& slot : *slots) {
        if (slot) values.push_back(slot.get());
      }
    }
  }
  return values;
}

std::vector<std::string> value_names(const State& state) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < state.frames.size(); ++i) {
    const OpenFrame& frame = state.frames[i];
    const std::string prefix = i == 0 ? std::string() : std::string("f").append(std::to_string(i)).append("_");
    names.push_back(prefix + "<function>");
    for (std::size_t slot = 0; slot < frame.fast.size(); ++slot) {
      if (!frame.fast[slot]) continue;
      PyObject* name = PyTuple_GET_ITEM(frame.code()->co_localsplusnames, static_cast<Py_ssize_t>(slot));
      names.push_back(prefix + py::text_of(name));
    }
    for (std::size_t slot = 0; slot < frame.stack.size(); ++slot) {
      if (frame.stack[slot]) names.push_back(std::string(prefix).append("stack_").append(std::to_string(slot)));
    }
  }
  return names;
}

Shape shape_of(const State& state) {
  Shape shape;
  for (const OpenFrame& frame : state.frames) {
    shape.frames.push_back({py::Owned<PyCodeObject>::share(frame.code()), frame.at, frame.begin, frame.next,
                            frame.opcode, frame.arg, filled(frame.fast), filled(frame.stack), frame.kwnames.copy()});
  }
  return shape;
}

State unpack(const Shape& shape, PyObject* values, PyFunctionObject* function) {
  State state;
  Py_ssize_t at = 0;
  const auto take = [&](const std::vector<bool>& filled, std::vector<py::Owned<>>& slots) {
    for (const bool full : filled) {
      slots.push_back(full ? py::Owned<>::share(PyTuple_GET_ITEM(values, at++)) : py::Owned<>());
    }
  };
  for (const Shape::Frame& part : shape.frames) {
    OpenFrame& frame = state.frames.emplace_back();
    auto* given = reinterpret_cast<PyFunctionObject*>(PyTuple_GET_ITEM(values, at++));
    frame.function = with_code(state.frames.size() == 1 ? function : given, part.code.get());
    frame.at = part.at, frame.begin = part.begin, frame.next = part.next;
    frame.opcode = part.opcode, frame.arg = part.arg;
    take(part.fast, frame.fast);
    take(part.stack, frame.stack);
    frame.kwnames = part.kwnames.copy();
  }
  return state;
}

std::vector<std::uint64_t> key_of(const State& state) {
  std::vector<std::uint64_t> key;
  for (const OpenFrame& frame : state.frames) {
    key.push_back(bits(frame.function->func_code));
    key.push_back(bits(frame.function->func_globals));
    key.push_back(static_cast<std::uint64_t>(frame.next));
    add_bits(key, frame.fast);
    add_bits(key, frame.stack);
  }
  return key;
}

}  // namespace pellucid::frames
