#include "base/small_vector.h"
#include "bytecode/exception_table.h"
#include "frames/frame_objects.h"
#include "frames/generators.h"
#include "frames/real_step.h"
#include "frames/replace.h"
#include "frames/settle.h"
#include "py/eval_frame311.h"

#define Py_BUILD_CORE
#include <frameobject.h>
#include <internal/pycore_code.h>
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE

#include <utility>

namespace pellucid::frames {
namespace {

// One replacement under way: each frame of the state is made by calling its function, whose fresh frame is filled
// before it starts.
struct Session {
  State* state;
  std::size_t at = 0;  // the frame that is made next
  bool stepping = false;
  py::PythonError* raises = nullptr;  // instead of running the innermost frame's next instruction
  bool collects = false;              // the collector was on
  bool stepped = false;               // the state is one instruction further, the frames are gone
  py::Owned<> before;                 // what the program's caller handles: an exception or None
};

thread_local Session* pending = nullptr;
py::EvalFrame hook_before = nullptr;  // while `fill_hook` is installed; under the GIL

PyObject* fill_hook(PyThreadState* tstate, _PyInterpreterFrame* frame, int throwing);

void started(const Session& session) noexcept {
  pending = nullptr;
  py::set_eval_frame(hook_before);
  if (session.collects) PyGC_Enable();
}

PyObject* call_function(const OpenFrame& open) noexcept {
  PyCodeObject* code = open.code();
  const auto positional = static_cast<std::size_t>(code->co_argcount);
  const auto count = positional + static_cast<std::size_t>(code->co_kwonlyargcount);
  const SmallVector<PyObject*, 32> nothing(count + 1, Py_None);  // the arguments are replaced
  PyObject* names = nullptr;
  if (code->co_kwonlyargcount != 0) {
    names = PyTuple_GetSlice(code->co_localsplusnames, code->co_argcount, code->co_argcount + code->co_kwonlyargcount);
    if (names == nullptr) return nullptr;
  }
  PyObject* result = PyObject_Vectorcall(open.function.object(), nothing.data(), positional, names);
  Py_XDECREF(names);
  return result;
}

PyObject* enter_next(Session& session) noexcept {
  const OpenFrame& open = session.state->frames[session.at];
  const auto generator = open.generator.copy();
  // Nothing runs between here and fill_hook: no collection, so no finaliser, so no other thread.
  session.collects = PyGC_Disable() != 0;
  hook_before = py::eval_frame();
  py::set_eval_frame(fill_hook);
  pending = &session;
  PyObject* result = generator ? resume_generator(generator.get()) : call_function(open);
  if (pending == &session) started(session);  // the call itself failed
  if (generator && session.stepped) rest_generator(generator.get());
  return result;
}

bool is_expected(const _PyInterpreterFrame* frame, const OpenFrame& open) noexcept {
  return open.generator ? is_frame_of(frame, open.generator.get()) : frame->f_func == open.function.get();
}

// The values are the frame's from now on: what the program drops is gone when it drops it.
void fill(_PyInterpreterFrame* frame, OpenFrame& open, const Session& session) {
  // What a generator from outside held when a region went on with it goes last: a destructor may look at the frame.
  std::vector<PyObject*> dropped;
  if (open.generator) dropped.assign(frame->localsplus, frame->localsplus + frame->stacktop);
  std::size_t slot = 0;
  for (auto& value : open.fast) {
    PyObject* old = std::exchange(frame->localsplus[slot++], value.release());
    if (!open.generator) Py_XDECREF(old);  // the placeholder of an argument
  }
  open.saved_at.clear();
  for (auto& value : open.stack) {
    if (value.get() == callers_exception()) {
      open.saved_at.push_back(slot - open.fast.size());
      value = session.before.copy();
    }
    frame->localsplus[slot++] = value.release();
  }
  frame->stacktop = static_cast<int>(slot);
  if (open.frame_object) adopt(frame, open.frame_object.get());
  if (open.generator) set_handled(open.generator.get(), std::move(open.handled));
  for (PyObject* value : dropped) Py_XDECREF(value);
}

_Py_CODEUNIT* unit(_PyInterpreterFrame* frame, int offset) noexcept { return _PyCode_CODE(frame->f_code) + offset / 2; }

// The frame as one that runs an instruction: what looks at the stack finds it.
class Linked {
 public:
  Linked(PyThreadState* tstate, _PyInterpreterFrame* frame, int at) noexcept : tstate_(tstate), frame_(frame) {
    frame->prev_instr = unit(frame, at);
    frame->previous = tstate->cframe->current_frame;
    tstate->cframe->current_frame = frame;
    --tstate->recursion_remaining;
  }
  ~Linked() {
    ++tstate_->recursion_remaining;
    tstate_->cframe->current_frame = frame_->previous;
  }
  Linked(const Linked&) = delete;
  Linked& operator=(const Linked&) = delete;

 private:
  PyThreadState* tstate_;
  _PyInterpreterFrame* frame_;
};

// The values are the state's again; what is left of the frame is empty.
void take_values(_PyInterpreterFrame* frame, OpenFrame& open, PyObject* const* top) {
  const auto take = [](PyObject*& slot) { return py::Owned<>::steal(std::exchange(slot, nullptr)); };
  std::size_t slot = 0;
  for (auto& value : open.fast) value = take(frame->localsplus[slot++]);
  open.stack.clear();
  for (PyObject** at = frame->localsplus + slot; at != top; ++at) open.stack.push_back(take(*at));
  frame->stacktop = static_cast<int>(slot);
  for (const std::size_t at : open.saved_at) {
    if (at < open.stack.size()) open.stack[at] = py::Owned<>::share(callers_exception());
  }
  if (!open.frame_object) open.frame_object = py::Owned<>::share(reinterpret_cast<PyObject*>(frame->frame_obj));
  if (open.frame_object) {
    rest(frame);
    if (!is_wanted(open.frame_object.get())) open.frame_object = {};
  }
  if (open.generator) open.handled = take_handled(open.generator.get());
}

void read_back(_PyInterpreterFrame* frame, OpenFrame& open, PyObject* const* top, int next) {
  take_values(frame, open, top);
  open.at = open.begin = open.next = next;
  open.opcode = open.arg = 0;
  open.kwnames = {};
}

PyObject* go_on(PyThreadState* tstate, _PyInterpreterFrame* frame, int next) noexcept {
  if (!py::tell_trace_function(tstate, frame, next)) return py::kDefaultEvalFrame(tstate, frame, 1);
  frame->prev_instr = unit(frame, next) - 1;
  return py::kDefaultEvalFrame(tstate, frame, 0);
}

// An exception that the instruction at `open.at` raised is on its way. Whether the frame handles it: then it stands at
// its handler, as exception_unwind of ceval.c leaves it.
bool catches(PyThreadState* tstate, _PyInterpreterFrame* frame, OpenFrame& open, const Session& session) {
  if (!session.stepping) return false;
  PyCodeObject* code = frame->f_code;
  const auto handler = bytecode::handler_at(
      {PyBytes_AS_STRING(code->co_exceptiontable), static_cast<std::size_t>(PyBytes_GET_SIZE(code->co_exceptiontable))},
      open.at);
  if (!handler) return false;
  {
    const Linked linked(tstate, frame, open.at);
    if (!is_hidden(code)) PyTraceBack_Here(PyEval_GetFrame());
    const int depth = static_cast<int>(open.fast.size()) + handler->depth;
    while (frame->stacktop > depth) {
      PyObject* value = std::exchange(frame->localsplus[--frame->stacktop], nullptr);
      Py_XDECREF(value);
    }
  }
  const auto push = [&](PyObject* value) { frame->localsplus[frame->stacktop++] = value; };
  py::PythonError error;  // normalized, with its traceback
  if (handler->lasti) push(py::take(PyLong_FromLong(open.at / 2)).release());
  push(Py_NewRef(error.value()));
  read_back(frame, open, frame->localsplus + frame->stacktop, handler->target);
  return true;
}

// The frame's values are in the state again.
PyObject* leave(Session& session, const OpenFrame& open) noexcept {
  if (open.generator) park_generator(open.generator.get());
  session.stepped = true;
  return Py_NewRef(Py_None);
}

PyObject* run_innermost(PyThreadState* tstate, _PyInterpreterFrame* frame, Session& session) {
  OpenFrame& open = session.state->frames.back();
  if (session.raises != nullptr) {
    frame->prev_instr = unit(frame, open.begin);
    session.raises->restore();
    return py::kDefaultEvalFrame(tstate, frame, 1);
  }
  Step step{.base = frame->localsplus + open.fast.size(),
            .top = frame->localsplus + frame->stacktop,
            .arg = open.arg,
            .next = open.next,
            .kwnames = open.kwnames.get(),
            .code = frame->f_code};
  const Rule rule = session.stepping ? rule_for(open.opcode, step) : nullptr;
  if (rule == nullptr) return go_on(tstate, frame, open.begin);
  bool done = false;
  {
    const Linked linked(tstate, frame, open.at);
    done = rule(step);
    keep_locals_of_running(frame);
  }
  frame->stacktop = static_cast<int>(step.top - frame->localsplus);
  if (!done)
    return catches(tstate, frame, open, session) ? leave(session, open) : py::kDefaultEvalFrame(tstate, frame, 1);
  read_back(frame, open, step.top, step.next);
  return leave(session, open);
}

PyObject* run_outer(PyThreadState* tstate, _PyInterpreterFrame* frame, Session& session) {
  const std::size_t here = session.at;
  OpenFrame& open = session.state->frames[here];
  PyObject* result = nullptr;
  {
    const Linked linked(tstate, frame, open.at);
    ++session.at;
    result = enter_next(session);
    keep_locals_of_running(frame);
  }
  if (session.stepped) {
    take_values(frame, session.state->frames[here], frame->localsplus + frame->stacktop);
    Py_DECREF(result);
    return leave(session, session.state->frames[here]);
  }
  Step step{.base = frame->localsplus + open.fast.size(),
            .top = frame->localsplus + frame->stacktop,
            .arg = 0,
            .next = open.next,
            .kwnames = nullptr,
            .code = frame->f_code};
  bool settled = false;
  {
    const Linked linked(tstate, frame, open.at);
    settled = settle(step, session.state->frames[here + 1].then, result);
    keep_locals_of_running(frame);
  }
  session.state->frames[here + 1].generator = {};  // it may die before this frame ends
  frame->stacktop = static_cast<int>(step.top - frame->localsplus);
  if (settled && !session.stepping) return go_on(tstate, frame, step.next);
  if (!settled && !catches(tstate, frame, open, session)) return py::kDefaultEvalFrame(tstate, frame, 1);
  // The inner frames are done; from here on the program is a state again.
  if (settled) read_back(frame, open, step.top, step.next);
  session.state->frames.resize(here + 1);
  return leave(session, session.state->frames[here]);
}

PyObject* fill_hook(PyThreadState* tstate, _PyInterpreterFrame* frame, int throwing) {
  Session* const session = pending;
  if (session == nullptr || throwing != 0 || !is_expected(frame, session->state->frames[session->at])) {
    return hook_before(tstate, frame, throwing);
  }
  started(*session);
  try {
    fill(frame, session->state->frames[session->at], *session);
    if (session->at + 1 == session->state->frames.size()) return run_innermost(tstate, frame, *session);
    return run_outer(tstate, frame, *session);
  } catch (...) {
    PyErr_NoMemory();
    return nullptr;
  }
}

}  // namespace

bool has_rule(const State& state) {
  const OpenFrame& open = state.frames.back();
  std::vector<PyObject*> stack;  // a rule looks at the operands
  for (const auto& value : open.stack) stack.push_back(value.get());
  Step step{.base = stack.data(),
            .top = stack.data() + stack.size(),
            .arg = open.arg,
            .next = open.next,
            .kwnames = open.kwnames.get(),
            .code = open.code()};
  return rule_for(open.opcode, step) != nullptr;
}

namespace {

// While the frames are open, the thread handles what the outermost one does.
class Handling {
 public:
  explicit Handling(Session& session) noexcept : slot_(PyThreadState_Get()->exc_info->exc_value) {
    session.before = py::Owned<>::share(slot_ == nullptr ? Py_None : slot_);
    before_ = session.before.copy();
    py::Owned<>& handled = session.state->frames.front().handled;
    if (handled) put(std::move(handled));
  }
  ~Handling() {
    if (slot_ != before_.get()) put(std::move(before_));
  }
  Handling(const Handling&) = delete;
  Handling& operator=(const Handling&) = delete;

  py::Owned<> now() const noexcept {
    return slot_ == before_.get() || slot_ == Py_None ? py::Owned<>() : py::Owned<>::share(slot_);
  }

 private:
  void put(py::Owned<> exception) noexcept {
    const auto old = py::Owned<>::steal(std::exchange(slot_, exception.release()));
  }

  PyObject*& slot_;
  py::Owned<> before_;
};

PyObject* run(Session& session) noexcept {
  const Handling handling(session);
  PyObject* result = enter_next(session);
  if (session.stepped) session.state->frames.front().handled = handling.now();
  return result;
}

}  // namespace

PyObject* finish(State state) noexcept {
  Session session{.state = &state};
  return run(session);
}

PyObject* finish_raising(State state, py::PythonError error) noexcept {
  Session session{.state = &state, .raises = &error};
  return run(session);
}

Outcome step(State state) noexcept {
  Outcome outcome;
  Session session{.state = &state, .stepping = true};
  outcome.result = run(session);
  outcome.finished = !session.stepped;
  if (session.stepped) {
    Py_CLEAR(outcome.result);
    outcome.state = std::move(state);
  }
  return outcome;
}

}  // namespace pellucid::frames
