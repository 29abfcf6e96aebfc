#include "frames/state.h"

#include <algorithm>

#include "bytecode/unread_slots.h"
#include "frames/frame_objects.h"
#include "frames/generators.h"
#include "py/cpython.h"

namespace pellucid::frames {
namespace {

std::vector<char> filled(const std::vector<py::Owned<>>& slots) {
  std::vector<char> result;
  result.reserve(slots.size());
  for (const auto& slot : slots) result.push_back(slot ? 1 : 0);
  return result;
}

void add_bits(Key& key, const std::vector<py::Owned<>>& slots) {
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

PyObject* callers_exception() {
  static PyObject* const marker =
      py::take(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type))).release();
  return marker;
}

std::vector<PyObject*> values_of(const State& state) {
  std::vector<PyObject*> values;
  std::size_t most = 0;
  for (const OpenFrame& frame : state.frames)
    most += 4 + frame.fast.size() + frame.stack.size() + 3 * frame.then.size();
  values.reserve(most);
  const auto add = [&](const py::Owned<>& slot) {
    if (slot) values.push_back(slot.get());
  };
  for (const OpenFrame& frame : state.frames) {
    values.push_back(frame.function.object());
    for (const auto* part : {&frame.generator, &frame.handled, &frame.frame_object}) add(*part);
    for (const auto& slot : frame.fast) add(slot);
    for (const auto& slot : frame.stack) add(slot);
    for (const Wait& wait : frame.then) {
      for (const auto* part : {&wait.a, &wait.b, &wait.c}) add(*part);
    }
  }
  return values;
}

namespace {

std::string prefix_of_frame(std::size_t i) {
  return i == 0 ? std::string() : std::string("f").append(std::to_string(i)).append("_");
}

std::string name_on_stack(std::size_t slot) { return std::string("stack_").append(std::to_string(slot)); }

}  // namespace

std::string name_of_top(const State& state) {
  return prefix_of_frame(state.frames.size() - 1) + name_on_stack(state.frames.back().stack.size() - 1);
}

std::vector<std::string> value_names(const State& state) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < state.frames.size(); ++i) {
    const OpenFrame& frame = state.frames[i];
    const std::string prefix = prefix_of_frame(i);
    const auto add = [&](const py::Owned<>& slot, const std::string& name) {
      if (slot) names.push_back(prefix + name);
    };
    names.push_back(prefix + "<function>");
    add(frame.generator, "<generator>");
    add(frame.handled, "<handled>");
    add(frame.frame_object, "<frame>");
    for (std::size_t slot = 0; slot < frame.fast.size(); ++slot) {
      PyObject* name = py::slot_name(frame.code(), static_cast<int>(slot));
      add(frame.fast[slot], py::text_of(name));
    }
    for (std::size_t slot = 0; slot < frame.stack.size(); ++slot) add(frame.stack[slot], name_on_stack(slot));
    for (std::size_t at = 0; at < frame.then.size(); ++at) {
      const std::string name = std::string("then_").append(std::to_string(at));
      add(frame.then[at].a, name + "_a");
      add(frame.then[at].b, name + "_b");
      add(frame.then[at].c, name + "_c");
    }
  }
  return names;
}

Shape shape_of(const State& state) {
  Shape shape;
  for (const OpenFrame& frame : state.frames) {
    shape.frames.push_back({py::Owned<PyCodeObject>::share(frame.code()),
                            frame.at,
                            frame.begin,
                            frame.next,
                            frame.opcode,
                            frame.arg,
                            filled(frame.fast),
                            filled(frame.stack),
                            frame.kwnames.copy(),
                            {},
                            static_cast<bool>(frame.generator),
                            static_cast<bool>(frame.handled),
                            static_cast<bool>(frame.frame_object)});
    for (const Wait& wait : frame.then) {
      shape.frames.back().then.push_back({wait.kind, wait.stage, wait.number, static_cast<bool>(wait.a),
                                          static_cast<bool>(wait.b), static_cast<bool>(wait.c)});
    }
  }
  return shape;
}

State unpack(const Shape& shape, PyObject* values, PyFunctionObject* function) {
  State state;
  Py_ssize_t at = 0;
  const auto next = [&](bool full) {
    return full ? py::Owned<>::share(PyTuple_GET_ITEM(values, at++)) : py::Owned<>();
  };
  const auto take = [&](const std::vector<char>& filled, std::vector<py::Owned<>>& slots) {
    slots.reserve(filled.size());
    for (const char full : filled) slots.push_back(next(full != 0));
  };
  state.frames.reserve(shape.frames.size());
  for (const Shape::Frame& part : shape.frames) {
    OpenFrame& frame = state.frames.emplace_back();
    auto* given = reinterpret_cast<PyFunctionObject*>(PyTuple_GET_ITEM(values, at++));
    frame.function = with_code(state.frames.size() == 1 ? function : given, part.code.get());
    frame.at = part.at, frame.begin = part.begin, frame.next = part.next;
    frame.opcode = part.opcode, frame.arg = part.arg;
    frame.generator = next(part.of_generator);
    frame.handled = next(part.handles);
    frame.frame_object = next(part.has_object);
    take(part.fast, frame.fast);
    take(part.stack, frame.stack);
    frame.kwnames = part.kwnames.copy();
    frame.then.reserve(part.then.size());
    for (const auto& waiting : part.then) {
      Wait& wait = frame.then.emplace_back();
      wait.kind = waiting.kind, wait.stage = waiting.stage, wait.number = waiting.number;
      wait.a = next(waiting.a);
      wait.b = next(waiting.b);
      wait.c = next(waiting.c);
    }
  }
  empty_filled(state);
  return state;
}

void rewind(State& state) {
  OpenFrame& innermost = state.frames.back();
  innermost.next = innermost.begin;
  innermost.kwnames = {};
}

void take_methods_apart(State& state) {
  for (std::size_t at = 0; at < state.frames.size(); ++at) {
    for (const bool on_stack : {false, true}) {
      auto& slots = on_stack ? state.frames[at].stack : state.frames[at].fast;
      for (std::size_t slot = 0; slot < slots.size(); ++slot) {
        PyObject* method = slots[slot].get();
        if (method == nullptr || Py_REFCNT(method) != 1) continue;
        const bool is_function = PyCFunction_CheckExact(method);
        if (!is_function && !Py_IS_TYPE(method, &_PyMethodWrapper_Type)) continue;
        if (is_function && reinterpret_cast<PyCFunctionObject*>(method)->m_weakreflist != nullptr) continue;
        const py::BoundNative bound = py::bound_native(method);
        if (bound.descriptor == nullptr) continue;
        if (is_function && !Py_IS_TYPE(bound.descriptor, &PyMethodDescr_Type)) continue;
        auto self = py::Owned<>::share(bound.self);
        std::swap(slots[slot], self);
        state.apart.push_back({at, on_stack, slot, std::move(self), bound.descriptor});
      }
    }
  }
}

void put_methods_together(State& state) {
  for (State::Apart& part : state.apart) {
    OpenFrame& frame = state.frames[part.frame];
    (part.on_stack ? frame.stack : frame.fast)[part.slot] = std::move(part.method);
  }
  state.apart.clear();
}

std::vector<Slot> unbound_in_first_turn(const State& state) {
  std::vector<Slot> slots;
  for (std::size_t number = 0; number < state.frames.size(); ++number) {
    const OpenFrame& frame = state.frames[number];
    PyCodeObject* const code = frame.code();
    // What a generator holds, and what a frame object shows, is told apart by what is bound.
    if (frame.generator || frame.frame_object || is_hidden(code)) continue;
    if (std::ranges::none_of(frame.fast, [](const auto& slot) { return !slot; })) continue;
    const bytecode::DecodedCode& decoded = bytecode::decoded(code);
    const int next = decoded.index_at(frame.next);
    // A frame that waits may go on at the handler of what it called.
    const bytecode::ExceptionRange* const handler = decoded.handler_of(decoded.index_at(frame.at));
    for (const int slot : bytecode::stored_on_the_way_back(decoded, next)) {
      const bool is_argument = slot < code->co_argcount + code->co_kwonlyargcount;  // which super() reads
      if (frame.fast[static_cast<std::size_t>(slot)] || is_argument) continue;
      if (bytecode::is_read_from(decoded, next, slot)) continue;
      if (handler != nullptr && bytecode::is_read_from(decoded, handler->target, slot)) continue;
      slots.push_back({number, static_cast<std::size_t>(slot)});
    }
  }
  return slots;
}

void fill(State& state, const std::vector<Slot>& slots) {
  for (const Slot& slot : slots) state.frames[slot.frame].fast[slot.number] = py::Owned<>::share(empty_slot());
}

void empty_filled(State& state) {
  PyObject* const empty = empty_slot();
  for (OpenFrame& frame : state.frames) {
    for (auto& slot : frame.fast) {
      if (slot.get() == empty) slot = {};
    }
  }
}

Key key_of(const State& state) {
  Key key;
  key.reserve(1 + 2 * state.apart.size() + 12 * state.frames.size());
  for (const State::Apart& part : state.apart) {
    key.push_back(part.frame << 32 | part.slot << 1 | (part.on_stack ? 1 : 0));
    if (Py_IS_TYPE(part.descriptor, &PyMethodDescr_Type)) {
      key.push_back(bits(reinterpret_cast<PyMethodDescrObject*>(part.descriptor)->d_method));
      continue;
    }
    const auto* slot = reinterpret_cast<PyWrapperDescrObject*>(part.descriptor);
    key.push_back(bits(slot->d_base));
    key.push_back(bits(slot->d_wrapped));
  }
  key.push_back(state.apart.size());
  for (const OpenFrame& frame : state.frames) {
    key.push_back(bits(frame.function->func_code));
    key.push_back(bits(frame.function->func_globals));
    key.push_back(static_cast<std::uint64_t>(frame.next) << 3 | (frame.generator ? 1 : 0) | (frame.handled ? 2 : 0) |
                  (frame.frame_object ? 4 : 0));
    add_bits(key, frame.fast);
    add_bits(key, frame.stack);
    for (const Wait& wait : frame.then) {
      const auto part = [](const py::Owned<>& value, unsigned bit) { return value ? std::uint64_t{1} << bit : 0; };
      key.push_back(static_cast<std::uint64_t>(wait.kind) | std::uint64_t{wait.stage} << 8 | part(wait.a, 16) |
                    part(wait.b, 17) | part(wait.c, 18));
      key.push_back(static_cast<std::uint64_t>(wait.number));
    }
    key.push_back(frame.then.size());
  }
  return key;
}

std::size_t KeyHash::operator()(const Key& key) const noexcept {
  std::uint64_t hash = 0;
  for (const std::uint64_t word : key) hash = (hash ^ word) * 0x9E3779B97F4A7C15ULL;
  return static_cast<std::size_t>(hash ^ hash >> 32);
}

}  // namespace pellucid::frames
