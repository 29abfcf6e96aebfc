#include "trace/hand_over.h"

#include <algorithm>
#include <functional>
#include <span>

#include "bytecode/opcodes.h"
#include "py/cpython.h"
#include "region/generator.h"
#include "trace/executor.h"

namespace pellucid::trace {

using bytecode::Opcode;
using region::TracedGenerator;
namespace {

// Where the interpreter may start to run the call at `at`: with the KW_NAMES and PRECALL that belong to it.
int begin_of_call(const bytecode::DecodedCode& code, int at) {
  const auto prepares = [](Opcode op) { return op == Opcode::KW_NAMES || op == Opcode::PRECALL; };
  int begin = code.index_at(at);
  while (begin > 0 && prepares(code[begin - 1].op)) --begin;
  return code[begin].start();
}

// The slots of `frame` that the program itself does not see: those of ours (but for what they return), the argument of
// a comprehension, and where a loop keeps its iterator.
template <class Visit>
void each_hidden_slot(const Frame& frame, Visit&& visit) {
  const bool returns = frame.decoded->at(frame.at).op == Opcode::RETURN_VALUE;
  for (std::size_t slot = 0; slot < frame.fast.size(); ++slot) {
    PyObject* name = py::slot_name(frame.code.get(), static_cast<int>(slot));
    if (frame.hidden || PyUnicode_READ_CHAR(name, 0) == '.') visit(frame.fast[slot]);
  }
  for (std::size_t slot = 0; slot < frame.stack.size(); ++slot) {
    const auto& value = frame.stack[slot];
    const auto* generator =
        value && region::is_generator(value.get()) ? reinterpret_cast<TracedGenerator*>(value.get()) : nullptr;
    const bool loops = generator != nullptr && generator->loop == &frame && generator->loop_slot == slot;
    const bool is_result = returns && slot + 1 == frame.stack.size();
    if ((frame.hidden && !is_result) || loops) visit(value);
  }
}

// Whether a generator that runs can be a real one. One of ours stands for a builtin iterator, and is no such thing:
// only where the program does not see it.
bool can_be_real(const Frame& frame) {
  if (frame.generator == nullptr || !frame.hidden || frame.generator->is_twin) return true;
  std::ptrdiff_t unseen = 1;  // the frame's own
  const auto count = [&](const py::Owned<>& slot) { unseen += slot.get() == frame.generator_ref.get(); };
  for (const Frame* outer = frame.back.get(); outer != nullptr; outer = outer->back.get())
    each_hidden_slot(*outer, count);
  return Py_REFCNT(frame.generator_ref.get()) == unseen;
}

// Behind a user's __bool__: `and` or `or` runs again, with its answer on top of the stack.
bool has_answer(const Frame& frame) { return frame.asked_at == frame.at && frame.stack.size() == frame.asked_size + 1; }

// Whether real frames can wait like this: `frame` for what is inside it, `then` for the result of the one inside.
bool can_wait(const Frame& frame, const Continuation& then) {
  if (frame.asked_at == frame.at && frame.next == frame.at) return false;  // `and`/`or` with an answer under way
  for (const Continuation* part = &then; part != nullptr; part = part->next.get()) {
    if (!frames::can_settle(part->kind)) return false;
  }
  return true;
}

void append_waits(const Continuation& then, std::vector<frames::Wait>& to) {
  for (const Continuation* part = &then; part != nullptr; part = part->next.get()) {
    if (part->kind == Continuation::Kind::Push) continue;
    frames::Wait& wait = to.emplace_back();
    wait.kind = part->kind, wait.stage = part->stage, wait.number = part->number;
    wait.a = part->a.copy();
    wait.b = part->b.copy();
    wait.c = part->c.copy();
  }
}

void decode(const Frame& frame, frames::OpenFrame& to) {
  const bytecode::Instruction& instruction = frame.decoded->at(frame.at);
  to.opcode = static_cast<std::uint8_t>(instruction.op), to.arg = instruction.arg;
  to.at = instruction.offset, to.next = instruction.end();
  const bool calls = instruction.op == Opcode::CALL || instruction.op == Opcode::PRECALL;
  to.begin = calls ? begin_of_call(*frame.decoded, frame.at) : frame.at;
}

// Polyfills of which no part can run for real: the list that is sorted has CPython's mark, which a list that is built
// again has not; a function behind a cache is called by the cache; a backward pass and a copy call functions that rules
// of the core stand for, and a body is a graph of its own.
bool runs_as_a_whole(PyObject* name) {
  constexpr const char* kNames[] = {"list_sort",
                                    "tensor_backward",
                                    "autograd_backward",
                                    "activation_checkpoint",
                                    "run_checkpoint",
                                    "run_function_as_node",
                                    "autograd_function_under_no_grad",
                                    "autograd_function_below_vmap",
                                    "autograd_function_below_gradients",
                                    "choose_branch",
                                    "repeat_body",
                                    "scan_rows",
                                    "map_rows",
                                    "region_as_operator",
                                    "attend",
                                    "tensor_deepcopy",
                                    "lone_tensor_deepcopy",
                                    "log_once"};
  return std::ranges::any_of(kNames,
                             [&](const char* known) { return PyUnicode_CompareWithASCIIString(name, known) == 0; });
}

// A deep copy keeps in its memo what it has copied by addresses, and the memo by its own. A region behind a break
// within would ask for these very objects, which are others at the next call, and would serve no other one.
bool is_deep_copy(const Frame& frame) {
  static PyObject* const code =
      py::take(PyObject_GetAttrString(py::import_attr("copy", "deepcopy").get(), "__code__")).release();
  return reinterpret_cast<PyObject*>(frame.code.get()) == code;
}

// Whether no region can begin in the middle of this frame.
bool is_undivided(const Frame& frame) {
  return is_deep_copy(frame) || (frame.hidden && runs_as_a_whole(frame.code->co_name));
}

}  // namespace

std::vector<std::int64_t> before_levels(const Executor& ex) {
  const auto& steps = ex.region.recorder.levels.led_by;
  return {steps.rbegin(), steps.rend()};
}

std::vector<std::int64_t> earlier_stops(const Executor& ex, bool in_level) {
  std::vector<const Frame*> open;
  for (const Frame* frame = ex.region.top; frame != nullptr; frame = frame->back.get()) open.push_back(frame);
  std::vector<std::int64_t> stops;
  const bool in_handler = !open.empty() && open.back()->handled && open.back()->handled.get() != Py_None;
  for (std::size_t i = open.size(); i-- > 0;) {  // outermost first
    const Frame& frame = *open[i];
    if (is_undivided(frame)) break;
    if (!can_be_real(frame) || (!stops.empty() && !can_wait(*frame.back, frame.then))) break;
    if (const std::int64_t raised_at = ex.unwinder.raised_in(frame); in_handler && raised_at >= 0) {
      stops.push_back(raised_at);
      break;
    }
    if (!frame.hidden) stops.push_back(frame.at_step);
  }
  const std::vector<std::int64_t> levels = before_levels(ex);
  if (in_level && !levels.empty()) std::erase_if(stops, [&](std::int64_t step) { return step >= levels.front(); });
  stops.insert(stops.end(), levels.begin(), levels.end());
  std::ranges::sort(stops, std::greater<>());
  stops.erase(std::unique(stops.begin(), stops.end()), stops.end());
  return stops;
}
namespace {

// Code of ours is always the same, and so is what its module holds.
void note_polyfill(Executor& ex, const Frame& frame, std::span<const frames::Wait> waiting) {
  const auto know = [&](PyObject* object) {
    ex.region.capture->source_of.emplace(object, ex.region.capture->sources.constant(object));
  };
  know(frame.function.object());
  PyObject *name = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(frame.globals, &at, &name, &value) != 0;) {
    const auto is_it = [&](const py::Owned<>& slot) { return slot.get() == value; };
    const auto has_it = [&](const frames::Wait& wait) { return is_it(wait.a) || is_it(wait.b) || is_it(wait.c); };
    if (std::ranges::any_of(frame.fast, is_it) || std::ranges::any_of(frame.stack, is_it) ||
        std::ranges::any_of(waiting, has_it))
      know(value);
  }
}

}  // namespace

bool can_hand_over(const Executor& ex) {
  if (!ex.frames_are_whole()) return false;
  if (has_answer(*ex.region.top)) return false;
  for (const Frame* frame = ex.region.top; frame != nullptr; frame = frame->back.get()) {
    if (!can_be_real(*frame)) return false;
    if (frame->names) return false;  // a class body
    if (frame->hidden && frame->generator == nullptr && (frame->code->co_flags & CO_GENERATOR) != 0)
      return false;  // about to be a builtin iterator
    if (is_undivided(*frame)) return false;
    if (frame->back && !can_wait(*frame->back, frame->then)) return false;
  }
  return true;
}
namespace {

// What stands for a builtin iterator, and is held only where the program does not see it: by open frames, or by others
// like it.
void note_hidden_iterators(Executor& ex) {
  std::unordered_map<PyObject*, std::ptrdiff_t> held;
  std::vector<PyObject*> known;
  const auto meet = [&](const py::Owned<>& slot) {
    if (!slot || !region::is_polyfill(slot.get())) return;
    if (++held[slot.get()] == Py_REFCNT(slot.get())) known.push_back(slot.get());
  };
  for (const Frame* frame = ex.region.top; frame != nullptr; frame = frame->back.get()) each_hidden_slot(*frame, meet);
  for (std::size_t i = 0; i < known.size(); ++i) {
    ex.region.capture->unseen_generators.insert(known[i]);
    const Frame* body = reinterpret_cast<TracedGenerator*>(known[i])->frame;
    if (body == nullptr) continue;
    note_polyfill(ex, *body, {});
    each_hidden_slot(*body, meet);
  }
}

}  // namespace

bool open_frames(Executor& ex, frames::State& state) {
  if (!can_hand_over(ex)) return false;
  note_hidden_iterators(ex);
  std::vector<Frame*> open;
  for (Frame* frame = ex.region.top; frame != nullptr; frame = frame->back.get()) open.push_back(frame);
  for (auto at = open.rbegin(); at != open.rend(); ++at) {
    const Frame& frame = **at;
    frames::OpenFrame& to = state.frames.emplace_back();
    to.function = frame.function.copy();
    to.generator = frame.generator_ref.copy();
    if (frame.handled.get() != Py_None) to.handled = frame.handled.copy();
    if (frame.frame_object && Py_REFCNT(frame.frame_object.get()) > 1) {
      to.frame_object = frame.frame_object.copy();
      ex.region.capture->open_frame_objects.insert(frame.frame_object.get());
    }
    decode(frame, to);
    if (&frame == ex.region.top) {
      to.kwnames = frame.kwnames.copy();
    } else {
      to.next = frame.next;
    }
    append_waits(frame.then, to.then);
    if (frame.hidden) note_polyfill(ex, frame, {});
    if (frame.back && frame.back->hidden) note_polyfill(ex, *frame.back, to.then);
    for (const auto& slot : frame.fast) to.fast.push_back(slot.copy());
    for (const auto& slot : frame.stack) to.stack.push_back(slot.copy());
  }
  return true;
}

}  // namespace pellucid::trace
