#include "trace/executor.h"

#include <algorithm>

#include "aten/aten.h"
#include "bytecode/opcodes.h"
#include "frames/finalizers.h"
#include "frames/frame_objects.h"
#include "protocols/call.h"
#include "protocols/table.h"
#include "py/cpython.h"
#include "py/eval_frame.h"
#include "py/interrupts.h"
#include "region/generator.h"
#include "region/instruction_listener.h"
#include "region/profile.h"
#include "trace/hand_over.h"

namespace pellucid::trace {

using bytecode::Opcode;
namespace {

constexpr std::int64_t kStepsBetweenLooks = 1024;

}  // namespace

Executor::Executor(PyFunctionObject* function, PyCodeObject* code, const Extent& extent)
    : Interpreter(function, code), extent_(extent), depth_left_(py::depth_left() - kLastLevels) {}

Executor::~Executor() {
  region.top = nullptr;
  // Frames form a list: take it apart iteratively, a deep one would overflow the C stack.
  while (top_) top_ = std::move(top_->back);
  exception = {};
  thrown_ = {};
  returned_ = {};
}

std::unique_ptr<region::Capture> Executor::finish(py::Owned<> result, const std::vector<PyObject*>& taken) {
  const bool was_mid_instruction = std::exchange(mid_instruction_, true);  // the frames are as they are at the end
  region.drops.refuse_lost(result.get(), taken);
  mid_instruction_ = was_mid_instruction;
  return region::finish(region, std::move(result));
}

bool Executor::frames_are_whole() const {
  return !exception && !thrown_ && runs_ && !mid_instruction_ && region::abandoned().empty();
}

void Executor::push_frame(std::unique_ptr<Frame> frame) {
  frame->back = std::move(top_);
  frame->depth = frame->back ? frame->back->depth + 1 : 0;
  frame->profiled = -1;  // a generator goes on below another caller
  if (frame->depth >= depth_left_) {
    top_ = std::move(frame->back);
    throw GraphBreak(Reason::Recursion);
  }
  region.capture->depth = std::max(region.capture->depth, frame->depth + 1);
  top_ = std::move(frame);
  region.top = top_.get();
}

std::unique_ptr<Frame> Executor::pop_frame() {
  ++pops_;
  auto frame = std::move(top_);
  top_ = std::move(frame->back);
  region.top = top_.get();
  return frame;
}

std::unique_ptr<Frame> new_frame(PyFunctionObject* function, PyCodeObject* code) {
  auto frame = std::make_unique<Frame>();
  frame->function = py::Owned<PyFunctionObject>::share(function);
  frame->code = py::Owned<PyCodeObject>::share(code);
  frame->decoded = &region::decoded_code(code);
  frame->hidden = frames::is_hidden(code);
  frame->globals = function->func_globals;
  frame->builtins = function->func_builtins;
  frame->fast.resize(static_cast<std::size_t>(py::slot_count(code)));
  frame->stack.reserve(static_cast<std::size_t>(code->co_stacksize));
  return frame;
}

namespace {
// The next instruction of the frame drops the value on top of its stack, or puts it into a variable.
bool only_moves(const Frame& frame) {
  const Opcode op = frame.decoded->at(frame.next).op;
  return op == Opcode::POP_TOP || op == Opcode::STORE_FAST;
}
}  // namespace

py::Owned<> Executor::run(const frames::State& state) {
  region.doing = "is alive here";
  auto& table = region.capture->sources;
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
  region.drops.note_runs_together(frames::run_when_dropped_together(values));
  const auto meet = [&](PyObject* value) {
    const source::Source* source = next_source();
    region.drops.note_live(value, source, references[value]);
    if (value != frames::callers_exception()) region.provenance.note_read(value, source);
    return py::Owned<>::share(value);
  };
  const auto meet_number = [&](PyObject* value) {
    const source::Source* source = next_source();
    region.drops.note_live(value, source, references[value]);
    return region.numbers.read(value, source);
  };
  // What only moves a value needs no guard. A cell is read through, and a generator of ours knows its frame's
  // variables.
  const auto may_stay_unread = [&](PyObject* value) {
    return !top_->hidden && !PyCell_Check(value) && !PyGen_CheckExact(value) && value != frames::callers_exception();
  };
  const auto leave_unread = [&](PyObject* value) {
    const source::Source* source = next_source();
    region.drops.note_live(value, source, references[value]);
    return region.provenance.note_unread(value, source, references[value]);
  };
  auto apart = state.apart.begin();
  const auto meet_slot = [&](const py::Owned<>& held, std::size_t frame, bool on_stack, std::size_t slot) {
    if (!held) return py::Owned<>();
    const bool is_next =
        apart != state.apart.end() && apart->frame == frame && apart->on_stack == on_stack && apart->slot == slot;
    const bool is_last = frame + 1 == state.frames.size() && slot + 1 == state.frames[frame].stack.size();
    const bool moves = on_stack ? is_last && only_moves(*top_) : true;
    if (!is_next && moves && may_stay_unread(held.get())) return leave_unread(held.get());
    const bool may_open = PyLong_CheckExact(held.get()) || PyFloat_CheckExact(held.get()) || PyTuple_Check(held.get());
    auto value = may_open ? meet_number(held.get()) : meet(held.get());
    if (!is_next) return value;
    if (region::is_number(value.get())) value = py::Owned<>::share(region.numbers.plain(value.get()));
    PyObject* descriptor = apart++->descriptor;
    auto* type = reinterpret_cast<PyObject*>(Py_TYPE(value.get()));
    auto method = py::take(Py_TYPE(descriptor)->tp_descr_get(descriptor, value.get(), type));
    region.provenance.keep(method.get());
    return method;
  };
  for (std::size_t number = 0; number < state.frames.size(); ++number) {
    const frames::OpenFrame& open = state.frames[number];
    push_frame(new_frame(open.function.get(), open.code()));
    top_->next = open.next;
    top_->at = open.at;
    // Where the function came from does not matter: what the frame needs of it is part of the region's key.
    region.provenance.keep(open.function.object());
    region.capture->source_of.emplace(open.function.object(), next_source());
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

py::Owned<> Executor::run(PyFunctionObject* function, PyObject* const* locals) {
  PyCodeObject* code = region.capture->code.get();
  if (code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)) throw GraphBreak(Reason::GeneratorEntry);
  push_frame(new_frame(function, code));
  const int count = code->co_argcount + code->co_kwonlyargcount + ((code->co_flags & CO_VARARGS) != 0) +
                    ((code->co_flags & CO_VARKEYWORDS) != 0);
  region.doing = "is an argument";
  auto& table = region.capture->sources;
  const int rest = (code->co_flags & CO_VARARGS) != 0 ? code->co_argcount + code->co_kwonlyargcount : -1;
  for (int i = 0; i < count; ++i) {
    const bool is_kwargs = (code->co_flags & CO_VARKEYWORDS) != 0 && i == count - 1;
    if (i == rest || is_kwargs) {
      top_->fast[static_cast<std::size_t>(i)] =
          region.numbers.read_rest(locals[i], table.local(i, py::slot_name(code, i)));
      continue;
    }
    top_->fast[static_cast<std::size_t>(i)] = region.numbers.read(locals[i], table.local(i, py::slot_name(code, i)));
  }
  for (Py_ssize_t i = 0; function->func_closure != nullptr && i < PyTuple_GET_SIZE(function->func_closure); ++i) {
    PyObject* cell = PyTuple_GET_ITEM(function->func_closure, i);
    region.provenance.note_read(
        cell, table.free(static_cast<int>(i), py::slot_name(code, py::first_free_slot(code) + static_cast<int>(i))));
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
  unwinder.close(frame);
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
  auto generator = region::new_generator(std::move(region::abandoned().back()));
  region::abandoned().pop_back();
  auto* raw = reinterpret_cast<region::TracedGenerator*>(generator.get());
  raw->started = true;
  raw->frame->generator = raw;
  exception = generator.copy();  // a break from here on is one that nothing can go on behind
  and_then(throw_into(generator.get(), unwinder.generator_exit()), Continuation(Continuation::Kind::Finalize));
  exception = std::move(thrown_);
}

// A GraphBreak came from inside an instruction of the frame at `depth`: the frames that it called, which did not run
// yet, go; then the frame stands at the start of the instruction. Not so when frames were left in it.
void Executor::drop_unstarted(std::int64_t pops, int depth) {
  mid_instruction_ = pops_ != pops;
  while (!mid_instruction_ && top_->depth > depth) {
    mid_instruction_ = top_->generator != nullptr;
    if (!mid_instruction_) pop_frame();
  }
}

// Looked at from time to time: what never ends, or waits for another thread, has to run.
void Executor::need_an_end() {
  const std::int64_t work =
      region.steps + kWorkOfOperation * static_cast<std::int64_t>(region.capture->graph.op_count());
  if (work >= extent_.work && (can_hand_over(*this) || work >= 2 * extent_.work))
    throw GraphBreak(Reason::RegionTooLong, {{"work", std::to_string(work)}});
}

namespace {

// An exception for a message, which is no reason to look at numbers of the region, to run a `__repr__` of the program,
// or to print a tensor, whose values are not there yet.
std::string shown(PyObject* exception) {
  PyObject* args = reinterpret_cast<PyBaseExceptionObject*>(exception)->args;
  std::string text;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) {
    PyObject* argument = PyTuple_GET_ITEM(args, i);
    if (region::is_number(argument)) argument = region::as_number(argument)->value;
    text.append(i == 0 ? "" : ", ").append(source::describe(argument));
  }
  const std::string_view name = Py_TYPE(exception)->tp_name;
  return std::string(name.substr(name.rfind('.') + 1)).append("(").append(text).append(")");
}

}  // namespace

Next Executor::loop() {
  const auto& abandoned = region::abandoned();
  for (;;) {
    if (!abandoned.empty()) {
      finalize_abandoned();
      unwinder.unwind(true);
      continue;
    }
    Frame& frame = *top_;
    frame.at = frame.next;
    const bytecode::Instruction& instruction = frame.decoded->at(frame.next);
    frame.next = instruction.end();
    frame.at_step = ++region.steps;
    if (extent_.steps >= 0 && region.steps >= extent_.steps &&
        (!extent_.at_will || (can_hand_over(*this) && !frame.kwnames)))
      throw GraphBreak(Reason::ExplicitBreak, {{"message", "the region ends here"}});
    if (region.steps % kStepsBetweenLooks == 0) {
      py::run_interrupts();
      need_an_end();
    }
    if (region::each_instruction) region::note_instruction(frame, region);
    region.doing = "runs";
    const std::int64_t pops = pops_;
    const int depth = frame.depth;
    Next next;
    try {
      for (int i = bytecode::looks(instruction.op, instruction.arg); i > 0; --i) {
        py::Owned<>& looked_at = frame.stack[frame.stack.size() - static_cast<std::size_t>(i)];
        if (region::is_number(looked_at.get())) looked_at = py::Owned<>::share(region.numbers.plain(looked_at.get()));
      }
      next = rule_of(instruction.op)(*this, frame, instruction.arg);
    } catch (const py::Interruption&) {
      throw;
    } catch (const py::PythonError& error) {
      // A rule's own C call failed: it is the program's exception (MemoryError, a user's __hash__ …).
      raise_pending(error);
      next = Next::Raise;
    } catch (const GraphBreak&) {
      drop_unstarted(pops, depth);
      throw;
    }
    if (next == Next::Finished) {
      for (const auto& slot : frame.fast) region.drops.note_kept(slot.get());
      std::exchange(frame.fast, {}).clear();  // generators die with their frame
      if (abandoned.empty()) return next;
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
      caught = unwinder.unwind(thrown);
    } catch (const GraphBreak&) {
      mid_instruction_ = true;
      throw;
    }
    if (!caught) {
      throw GraphBreak(Reason::ExceptionEscapes, {{"exception", shown(exception.get())}});
    }
  }
}

// The newest frame is the call of an nn.Module from outside: nodes recorded below it say so (nn_module_stack).
void Executor::note_module(PyObject* module) {
  static PyObject* module_class = py::import_attr("torch.nn", "Module").release();
  PyTypeObject* type = Py_TYPE(module);
  if (!PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(module_class))) return;
  const source::Source* source = region.provenance.source_of(module);
  if (source == nullptr) return;
  Frame& frame = *top_;
  frame.module_type = py::Owned<>::share(reinterpret_cast<PyObject*>(type));
  frame.module_path = region.provenance.module_path(source);
  frame.module_key = frame.module_path;
  const int before = module_calls_[frame.module_path]++;
  if (before > 0) frame.module_key.append("@").append(std::to_string(before));
}

Result Executor::inline_function(PyObject* callable, Args args) {
  auto* function = reinterpret_cast<PyFunctionObject*>(callable);
  auto* code = reinterpret_cast<PyCodeObject*>(function->func_code);
  if (code->co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE)) {
    unsupported(Reason::UntracedCallable, {{"callee", "the coroutine function " + protocols::describe(callable)}});
  }
  protocols::refuse_disabled(function);
  region.doing = "calls a function";
  const bool hidden = frames::is_hidden(code);
  if (!hidden) region.provenance.guard_function(callable);
  auto frame = new_frame(function, code);
  if (!protocols::bind_arguments(*this, function, code, args, frame->fast)) {
    if (hidden)  // of the builtin that the polyfill stands for: it has words of its own
      unsupported(Reason::BadArguments, {{"callee", "a builtin with these arguments"}});
    // The call cannot start, so nothing of the function runs: CPython itself words the error.
    auto impossible = py::Owned<>::steal(PyObject_Vectorcall(callable, args.values.data(), args.size(), args.kwnames));
    if (impossible)
      unsupported(Reason::Internal, {{"detail", "binding the arguments of " + protocols::describe(callable)}});
    return raise_pending(py::PythonError());
  }
  push_frame(std::move(frame));
  return Result::pushed(top_.get());
}

}  // namespace pellucid::trace
