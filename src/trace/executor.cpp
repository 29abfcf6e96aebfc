#include "trace/executor.h"

#include <algorithm>

#include "aten/aten.h"
#include "bytecode/opcodes.h"
#include "frames/finalizers.h"
#include "frames/frame_objects.h"
#include "handlers/registry.h"
#include "objects/generator.h"
#include "py/cpython311.h"
#include "py/interrupts.h"

namespace pellucid::trace {

using bytecode::Opcode;
using objects::TracedGenerator;

namespace {
constexpr std::int64_t kStepsBetweenLooks = 1024;
}  // namespace

Executor::~Executor() {
  // Frames form a list: take it apart iteratively, a deep one would overflow the C stack.
  while (top_) top_ = std::move(top_->back);
  exception = {};
  thrown_ = {};
  returned_ = {};
}

void Executor::push_frame(std::unique_ptr<Frame> frame) {
  frame->back = std::move(top_);
  frame->depth = frame->back ? frame->back->depth + 1 : 0;
  if (frame->depth >= depth_left_) {
    top_ = std::move(frame->back);
    throw GraphBreak(Reason::Recursion);
  }
  capture().depth = std::max(capture().depth, frame->depth + 1);
  top_ = std::move(frame);
}

std::unique_ptr<Frame> Executor::pop_frame() {
  ++pops_;
  auto frame = std::move(top_);
  top_ = std::move(frame->back);
  return frame;
}

const bytecode::DecodedCode& Executor::decoded(PyCodeObject* code) {
  try {
    return bytecode::decoded(code);
  } catch (const py::PythonError&) {  // put together by hand, in a way that CPython's compiler never does
    unsupported(Reason::UntracedCallable, {{"callee", "the bytecode of " + py::text_of(code->co_qualname)}});
  }
}

std::unique_ptr<Frame> Executor::new_frame(PyFunctionObject* function, PyCodeObject* code) {
  auto frame = std::make_unique<Frame>();
  frame->function = py::Owned<PyFunctionObject>::share(function);
  frame->code = py::Owned<PyCodeObject>::share(code);
  frame->decoded = &decoded(code);
  frame->hidden = frames::is_hidden(code);
  frame->globals = function->func_globals;
  frame->builtins = function->func_builtins;
  frame->fast.resize(static_cast<std::size_t>(code->co_nlocalsplus));
  frame->stack.reserve(static_cast<std::size_t>(code->co_stacksize));
  return frame;
}

py::Owned<> Executor::run(const frames::State& state) {
  doing = "is alive here";
  auto& table = capture().sources;
  const auto names = frames::value_names(state);
  int at = 0;
  const auto next_source = [&] {
    const source::Source* source = table.local(at, py::interned(names[static_cast<std::size_t>(at)].c_str()).get());
    ++at;
    return source;
  };
  std::unordered_map<PyObject*, Py_ssize_t> references;
  const auto values = frames::values_of(state);
  for (PyObject* value : values) ++references[value];
  run_together = frames::run_when_dropped_together(values);
  const auto meet = [&](PyObject* value) {
    const source::Source* source = next_source();
    takes_over(value, source, references[value]);
    if (value != frames::callers_exception()) saw(value, source);
    return py::Owned<>::share(value);
  };
  auto apart = state.apart.begin();
  const auto meet_slot = [&](const py::Owned<>& held, std::size_t frame, bool on_stack, std::size_t slot) {
    if (!held) return py::Owned<>();
    auto value = meet(held.get());
    const bool is_next =
        apart != state.apart.end() && apart->frame == frame && apart->on_stack == on_stack && apart->slot == slot;
    if (!is_next) return value;
    PyObject* descriptor = apart++->descriptor;
    auto* type = reinterpret_cast<PyObject*>(Py_TYPE(value.get()));
    auto method = py::take(Py_TYPE(descriptor)->tp_descr_get(descriptor, value.get(), type));
    keep(method.get());
    return method;
  };
  for (std::size_t number = 0; number < state.frames.size(); ++number) {
    const frames::OpenFrame& open = state.frames[number];
    push_frame(new_frame(open.function.get(), open.code()));
    top_->next = open.next;
    top_->at = open.at;
    // Where the function came from does not matter: what the frame needs of it is part of the region's key.
    keep(open.function.object());
    capture().source_of.emplace(open.function.object(), next_source());
    if (open.generator) run_twin(meet(open.generator.get()));
    if (open.handled) top_->handled = meet(open.handled.get());
    if (open.frame_object) top_->frame_object = meet(open.frame_object.get());
    for (std::size_t slot = 0; slot < open.fast.size(); ++slot)
      top_->fast[slot] = meet_slot(open.fast[slot], number, false, slot);
    for (std::size_t slot = 0; slot < open.stack.size(); ++slot)
      top_->stack.push_back(meet_slot(open.stack[slot], number, true, slot));
    Continuation then;
    for (const frames::Wait& wait : open.then) {
      Continuation part(wait.kind);
      part.stage = wait.stage, part.number = wait.number;
      if (wait.a) part.a = meet(wait.a.get());
      if (wait.b) part.b = meet(wait.b.get());
      if (wait.c) part.c = meet(wait.c.get());
      then.append(std::move(part));
    }
    top_->then = std::move(then);
  }
  runs_ = true;
  loop();
  return std::move(returned_);
}

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
void each_unseen(const Frame& frame, Visit&& visit) {
  const bool returns = frame.decoded->at(frame.at).op == Opcode::RETURN_VALUE;
  for (std::size_t slot = 0; slot < frame.fast.size(); ++slot) {
    PyObject* name = PyTuple_GET_ITEM(frame.code->co_localsplusnames, static_cast<Py_ssize_t>(slot));
    if (frame.hidden || PyUnicode_READ_CHAR(name, 0) == '.') visit(frame.fast[slot]);
  }
  for (std::size_t slot = 0; slot < frame.stack.size(); ++slot) {
    const auto& value = frame.stack[slot];
    const auto* generator =
        value && objects::is_generator(value.get()) ? reinterpret_cast<TracedGenerator*>(value.get()) : nullptr;
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
  for (const Frame* outer = frame.back.get(); outer != nullptr; outer = outer->back.get()) each_unseen(*outer, count);
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

void tell_then(const Continuation& then, std::vector<frames::Wait>& to) {
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

}  // namespace

std::vector<std::int64_t> Executor::earlier_stops() {
  std::vector<const Frame*> open;
  for (const Frame* frame = top_.get(); frame != nullptr; frame = frame->back.get()) open.push_back(frame);
  std::vector<std::int64_t> stops;
  const bool in_handler = !open.empty() && open.back()->handled && open.back()->handled.get() != Py_None;
  for (std::size_t i = open.size(); i-- > 0;) {  // outermost first
    const Frame& frame = *open[i];
    if (!can_be_real(frame) || (!stops.empty() && !can_wait(*frame.back, frame.then))) break;
    if (in_handler && &frame == handles_) {
      stops.push_back(raised_at_);
      break;
    }
    if (!frame.hidden) stops.push_back(frame.at_step);
  }
  std::reverse(stops.begin(), stops.end());
  return stops;
}

// Code of ours is always the same, and so is what its module holds.
void Executor::know_ours(const Frame& frame, std::span<const frames::Wait> waiting) {
  const auto know = [&](PyObject* object) { capture().source_of.emplace(object, capture().sources.constant(object)); };
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

bool Executor::can_be_told() const {
  if (exception || thrown_ || !runs_ || torn_ || !objects::abandoned().empty()) return false;
  if (has_answer(*top_)) return false;
  for (const Frame* frame = top_.get(); frame != nullptr; frame = frame->back.get()) {
    if (!can_be_real(*frame)) return false;
    if (frame->names) return false;  // a class body
    if (frame->hidden && frame->generator == nullptr && (frame->code->co_flags & CO_GENERATOR) != 0)
      return false;  // about to be a builtin iterator
    if (frame->hidden && PyUnicode_CompareWithASCIIString(frame->code->co_name, "list_sort") == 0)
      return false;  // its list has CPython's mark, which a list that is built again has not
    if (frame->back && !can_wait(*frame->back, frame->then)) return false;
  }
  return true;
}

// What stands for a builtin iterator, and is held only where the program does not see it: by open frames, or by others
// like it.
void Executor::note_unseen() {
  std::unordered_map<PyObject*, std::ptrdiff_t> held;
  std::vector<PyObject*> known;
  const auto meet = [&](const py::Owned<>& slot) {
    if (!slot || !is_ours(slot.get())) return;
    if (++held[slot.get()] == Py_REFCNT(slot.get())) known.push_back(slot.get());
  };
  for (const Frame* frame = top_.get(); frame != nullptr; frame = frame->back.get()) each_unseen(*frame, meet);
  for (std::size_t i = 0; i < known.size(); ++i) {
    capture().unseen_generators.insert(known[i]);
    const Frame* body = reinterpret_cast<TracedGenerator*>(known[i])->frame;
    if (body == nullptr) continue;
    know_ours(*body, {});
    each_unseen(*body, meet);
  }
}

bool Executor::open_frames(frames::State& state) {
  if (!can_be_told()) return false;
  note_unseen();
  std::vector<Frame*> open;
  for (Frame* frame = top_.get(); frame != nullptr; frame = frame->back.get()) open.push_back(frame);
  for (auto at = open.rbegin(); at != open.rend(); ++at) {
    const Frame& frame = **at;
    frames::OpenFrame& to = state.frames.emplace_back();
    to.function = frame.function.copy();
    to.generator = frame.generator_ref.copy();
    if (frame.handled.get() != Py_None) to.handled = frame.handled.copy();
    if (frame.frame_object && Py_REFCNT(frame.frame_object.get()) > 1) {
      to.frame_object = frame.frame_object.copy();
      capture().open_frame_objects.insert(frame.frame_object.get());
    }
    decode(frame, to);
    if (&frame == top_.get()) {
      to.kwnames = frame.kwnames.copy();
    } else {
      to.next = frame.next;
    }
    tell_then(frame.then, to.then);
    if (frame.hidden) know_ours(frame, {});
    if (frame.back && frame.back->hidden) know_ours(*frame.back, to.then);
    for (const auto& slot : frame.fast) to.fast.push_back(slot.copy());
    for (const auto& slot : frame.stack) to.stack.push_back(slot.copy());
  }
  return true;
}

py::Owned<> Executor::run(PyFunctionObject* function, PyObject* const* locals) {
  PyCodeObject* code = capture().code.get();
  if (code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)) throw GraphBreak(Reason::GeneratorEntry);
  push_frame(new_frame(function, code));
  const int count = code->co_argcount + code->co_kwonlyargcount + ((code->co_flags & CO_VARARGS) != 0) +
                    ((code->co_flags & CO_VARKEYWORDS) != 0);
  doing = "is an argument";
  auto& table = capture().sources;
  for (int i = 0; i < count; ++i) {
    saw(locals[i], table.local(i, PyTuple_GET_ITEM(code->co_localsplusnames, i)));
    top_->fast[static_cast<std::size_t>(i)] = py::Owned<>::share(locals[i]);
  }
  for (Py_ssize_t i = 0; function->func_closure != nullptr && i < PyTuple_GET_SIZE(function->func_closure); ++i) {
    PyObject* cell = PyTuple_GET_ITEM(function->func_closure, i);
    saw(cell, table.free(static_cast<int>(i),
                         PyTuple_GET_ITEM(code->co_localsplusnames, code->co_nlocalsplus - code->co_nfreevars + i)));
  }
  runs_ = true;
  loop();
  return std::move(returned_);
}

Next Executor::deliver(Result result) {
  switch (result.did) {
    case Result::Did::Value:
      top_->stack.push_back(std::move(result.value));
      return Next::Go;
    case Result::Did::Raised:
      return Next::Raise;
    default:
      return Next::Go;
  }
}

Next Executor::return_value(Frame& frame) {
  auto value = pop(frame);
  close(frame);
  if (frame.generator != nullptr) {
    auto done = pop_frame();
    done->generator->running = false;
    Continuation then = std::move(done->then);
    auto stop = value.get() == Py_None ? py::take(PyObject_CallNoArgs(PyExc_StopIteration))
                                       : py::take(PyObject_CallOneArg(PyExc_StopIteration, value.get()));
    exception = std::move(stop);
    return deliver(and_then(Result::raised(), std::move(then)));
  }
  if (!frame.back) {
    returned_ = std::move(value);
    return Next::Finished;
  }
  auto done = pop_frame();
  return deliver(and_then(Result::of(std::move(value)), std::move(done->then)));
}

// GeneratorExit is on its way in the body of a generator that died, before the next instruction of the frame below.
void Executor::finalize_abandoned() {
  auto generator = objects::new_generator(std::move(objects::abandoned().back()));
  objects::abandoned().pop_back();
  auto* raw = reinterpret_cast<objects::TracedGenerator*>(generator.get());
  raw->started = true;
  raw->frame->generator = raw;
  exception = generator.copy();  // a break from here on is one that nothing can go on behind
  and_then(throw_into(generator.get(), generator_exit()), Continuation(Continuation::Kind::Finalize));
  exception = std::move(thrown_);
}

// A GraphBreak came from inside an instruction of the frame at `depth`: the frames that it called, which did not run
// yet, go; then the frame stands at the start of the instruction. Not so when frames were left in it.
void Executor::tear(std::int64_t pops, int depth) {
  torn_ = pops_ != pops;
  while (!torn_ && top_->depth > depth) {
    torn_ = top_->generator != nullptr;
    if (!torn_) pop_frame();
  }
}

// Looked at from time to time: what never ends, or waits for another thread, has to run.
void Executor::need_an_end() {
  const std::int64_t work = steps + kWorkOfOperation * static_cast<std::int64_t>(capture().graph.op_count());
  if (work >= most_work && (can_be_told() || work >= 2 * most_work))
    throw GraphBreak(Reason::RegionTooLong, {{"work", std::to_string(work)}});
}

Next Executor::loop() {
  for (;;) {
    if (!objects::abandoned().empty()) {
      finalize_abandoned();
      unwind(true);
      continue;
    }
    Frame& frame = *top_;
    frame.at = frame.next;
    const bytecode::Instruction& instruction = frame.decoded->at(frame.next);
    frame.next = instruction.end();
    frame.at_step = ++steps;
    if (last_step >= 0 && steps >= last_step && (!at_will || (can_be_told() && !frame.kwnames)))
      throw GraphBreak(Reason::ExplicitBreak, {{"message", "the region ends here"}});
    if (steps % kStepsBetweenLooks == 0) {
      py::run_interrupts();
      need_an_end();
    }
    doing = "runs";
    const std::int64_t pops = pops_;
    const int depth = frame.depth;
    Next next;
    try {
      next = rule_of(instruction.op)(*this, frame, instruction.arg);
    } catch (const py::Interruption&) {
      throw;
    } catch (const py::PythonError& error) {
      // A rule's own C call failed: it is the program's exception (MemoryError, a user's __hash__ …).
      raise_pending(error);
      next = Next::Raise;
    } catch (const GraphBreak&) {
      tear(pops, depth);
      throw;
    }
    if (next == Next::Finished) {
      for (const auto& slot : frame.fast) kept_.insert(slot.get());
      std::exchange(frame.fast, {}).clear();  // generators die with their frame
      if (objects::abandoned().empty()) return next;
      frame.stack.push_back(std::move(returned_));
      frame.next = frame.at;  // returns once more, after them
      continue;
    }
    const bool thrown = next == Next::Go;
    if (thrown) {
      if (!thrown_) continue;
      exception = std::move(thrown_);
    }
    bool caught = false;
    try {
      caught = unwind(thrown);
    } catch (const GraphBreak&) {
      torn_ = true;
      throw;
    }
    if (!caught) {
      throw GraphBreak(Reason::ExceptionEscapes, {{"exception", py::repr_of(exception.get())}});
    }
  }
}

}  // namespace pellucid::trace
