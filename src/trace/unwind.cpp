// The program's exceptions: raising and finding the handler.
#include "bytecode/opcodes.h"
#include "frames/frame_objects.h"
#include "py/traceback.h"
#include "trace/executor.h"

namespace pellucid::objects {

Result Tracer::raise(py::Owned<> instance) {
  if (took_all_at_ == steps) {  // the program itself may have stopped half way through that iterator
    unsupported(Reason::OutsideIterator, {{"type", "iterator from outside of the region that raises"}});
  }
  exception = std::move(instance);
  return Result::raised();
}
Result Tracer::raise(PyObject* type, const std::string& message) {
  auto text = py::str(message);
  return raise(py::take(PyObject_CallOneArg(type, text.get())));
}
Result Tracer::raise_name_error(PyObject* name, const std::string& message) {
  raise(PyExc_NameError, message);
  py::check(PyObject_SetAttrString(exception.get(), "name", name));
  return Result::raised();
}
Result Tracer::raise_pending(const py::PythonError& error) {
  PyObject* value = error.value();
  if (PyErr_GivenExceptionMatches(value, PyExc_KeyboardInterrupt)) throw error;
  if (PyErr_GivenExceptionMatches(value, PyExc_MemoryError))  // ours or the program's: a real run will tell
    throw GraphBreak(Reason::ExceptionEscapes, {{"exception", py::repr_of(value)}});
  return raise(py::Owned<>::share(value));
}

Result Tracer::as_none(Result result) {
  if (result.did == Result::Did::Pushed) {  // Python code does it, whose own result was to be dropped
    result.frame->then.last() = Continuation(Continuation::Kind::Replace, Py_None);
    return result;
  }
  return result.did == Result::Did::Raised ? std::move(result) : Result::none();
}

Result Tracer::call1(PyObject* callable, PyObject* a) { return call(callable, Args{{&a, 1}, nullptr}); }
Result Tracer::call2(PyObject* callable, PyObject* a, PyObject* b) {
  PyObject* values[] = {a, b};
  return call(callable, Args{values, nullptr});
}
Result Tracer::call3(PyObject* callable, PyObject* a, PyObject* b, PyObject* c) {
  PyObject* values[] = {a, b, c};
  return call(callable, Args{values, nullptr});
}

}  // namespace pellucid::objects

namespace pellucid::trace {

using K = Continuation::Kind;

Result Executor::raise_with_cause(PyObject* type, py::Owned<> value, PyObject* cause) {
  if (!PyExceptionInstance_Check(value.get())) {
    return raise(PyExc_TypeError, std::string("calling ") + py::repr_of(type) +
                                      " should have returned an instance of BaseException, not " +
                                      py::repr_of(reinterpret_cast<PyObject*>(Py_TYPE(value.get()))));
  }
  if (cause != nullptr) PyException_SetCause(value.get(), cause == Py_None ? nullptr : Py_NewRef(cause));
  return raise(std::move(value));
}

namespace {

// A generator on whose behalf the inner iterator's throw() or close() runs, which is not running itself.
bool hands_on(const Frame& frame) {
  return frame.generator != nullptr && frame.next == frame.at &&
         frame.decoded->at(frame.at).op == bytecode::Opcode::YIELD_VALUE;
}

// Generators have an exc_info of their own; every other frame uses its caller's.
Frame* with_exc_info(Frame* frame) {
  while (frame->back && (frame->generator == nullptr || hands_on(*frame))) frame = frame->back.get();
  return frame;
}

}  // namespace

py::Owned<>& Executor::handled_slot() { return with_exc_info(top_.get())->handled; }

// Only generators begin with nothing: the program may have been called by a handler.
PyObject* Executor::handled_before_all() {
  return with_exc_info(top_.get())->generator != nullptr ? Py_None : frames::callers_exception();
}

void Executor::refuse_to_leave(const Frame& frame, PyObject* exception) {
  if (!is_outside(exception) || handler_of(frame) != nullptr) return;
  unsupported(Reason::UnsupportedProtocol,
              {{"protocol", "raising an exception that existed before"}, {"type", Py_TYPE(exception)->tp_name}});
}

PyObject* Executor::topmost_handled() {
  for (Frame* f = top_.get(); f != nullptr; f = f->back.get()) {
    f = with_exc_info(f);
    if (f->handled && f->handled.get() != Py_None) return f->handled.get();
  }
  return nullptr;
}

// A region cannot end while an exception is handled; it can before the step that raised it.
void Executor::note_handler(const Frame& frame) {
  const Frame* outermost = &frame;
  while (outermost->back) outermost = outermost->back.get();
  if (outermost->handled && outermost->handled.get() != Py_None) return;
  handles_ = &frame;
  raised_at_ = frame.at_step;
}

namespace {

// `raise` and the end of a `finally` go on with an exception that has this frame in its traceback already.
bool raises_again(const Frame& frame, PyObject* exception, PyObject* handled) {
  const bytecode::Instruction& instruction = frame.decoded->at(frame.at);
  if (instruction.op == bytecode::Opcode::RERAISE) return true;
  return instruction.op == bytecode::Opcode::RAISE_VARARGS && instruction.arg == 0 && exception == handled;
}

// As _PyErr_SetObject: the exception being handled becomes the context, without making a cycle. A cycle that is there
// already, without the exception, is found by a second walk at half the speed.
void chain(PyObject* exception, PyObject* context) {
  if (context == exception) return;
  const auto context_of = [](PyObject* error) { return reinterpret_cast<PyBaseExceptionObject*>(error)->context; };
  PyObject* slow = context;
  bool step = false;
  for (PyObject* at = context; PyObject* next = context_of(at); at = next) {
    if (next == exception) {
      PyException_SetContext(at, nullptr);
      break;
    }
    if (next == slow) break;
    if (step) slow = context_of(slow);
    step = !step;
  }
  PyException_SetContext(exception, Py_NewRef(context));
}

}  // namespace

namespace {
int lasti_of(const Frame& frame) {
  return frame.reraise == frame.at ? frame.reraises : frame.decoded->at(frame.at).offset;
}
}  // namespace

void Executor::trace_back(Frame& frame) {
  if (frame.hidden) return;
  if (is_outside(exception.get())) {
    unsupported(Reason::UnsupportedMutation,
                {{"target", std::string("the traceback of a ") + Py_TYPE(exception.get())->tp_name}});
  }
  py::add_traceback(exception.get(), frame_object(frame), frame.code.get(), lasti_of(frame));
}

PyObject* Executor::frame_object(Frame& frame) {
  if (!frame.frame_object) frame.frame_object = frames::new_frame_object(frame.code.get(), frame.globals);
  return frame.frame_object.get();
}

// Whoever has the frame object of a frame that is over finds in it what it held.
void Executor::close(Frame& frame) {
  if (!frame.frame_object || Py_REFCNT(frame.frame_object.get()) == 1) return;
  Frame* caller = frame.generator != nullptr ? nullptr : frame.back.get();
  while (caller != nullptr && caller->hidden) caller = caller->back.get();
  PyObject* back = caller != nullptr ? frame_object(*caller) : nullptr;
  PyObject* object = frame.frame_object.get();
  if (!is_outside(object)) {
    frames::close_frame_object(object, lasti_of(frame), frame.fast, back);
    capture().closed_frame_objects.insert(object);
    if (!frame.back) capture().outermost_frame_object = object;
    return;
  }
  objects::Effect& effect = closed_frames_.emplace_back();
  effect.kind = objects::Effect::Kind::SetFrame;
  effect.target = frame.frame_object.copy();
  effect.value = frames::new_frame_object(frame.code.get(), frame.globals);
  effect.ends = !frame.back;
  frames::close_frame_object(effect.value.get(), lasti_of(frame), frame.fast, back);
}

// gen_send_ex of genobject.c: what the generator itself handles becomes the context (_PyErr_ChainStackItem), and what
// the exception met on its way so far is not in its traceback.
void Executor::throw_from_inner() {
  PyObject* handled = top_->handled.get();
  if (handled == nullptr || Py_IsNone(handled) || is_outside(exception.get())) return;
  chain(exception.get(), handled);
  const bool came_far = on_its_way_.get() == exception.get();
  if (came_far) py::check(PyException_SetTraceback(exception.get(), its_traceback_.get()));
}

Result Executor::throw_back(py::Owned<> instance) {
  exception = std::move(instance);
  throw_from_inner();
  unchained_ = true;
  return Result::raised();
}

py::Owned<> Executor::generator_exit() {
  auto exit = py::take(PyObject_CallNoArgs(PyExc_GeneratorExit));
  if (PyObject* handled = topmost_handled()) chain(exit.get(), handled);
  return exit;
}

bool Executor::unwind(bool thrown) {
  const bool caught = climb(thrown);
  on_its_way_ = {};
  its_traceback_ = {};
  unchained_ = false;
  return caught;
}

bool Executor::climb(bool thrown) {
  // gen.throw() gives its exception no context but what the generator itself handles (gen_send_ex in genobject.c).
  PyObject* context = !thrown                                            ? topmost_handled()
                      : top_->handled && !Py_IsNone(top_->handled.get()) ? top_->handled.get()
                                                                         : nullptr;
  if (std::exchange(unchained_, false)) context = nullptr;
  bool again = raises_again(*top_, exception.get(), context);
  if (!again && context != nullptr && !is_outside(exception.get())) chain(exception.get(), context);
  its_traceback_ = py::Owned<>::steal(PyException_GetTraceback(exception.get()));
  if (!its_traceback_) its_traceback_ = py::Owned<>::share(Py_None);
  on_its_way_ = exception.copy();
  for (;;) {
    Frame& frame = *top_;
    if (!again) trace_back(frame);
    again = false;
    if (const bytecode::ExceptionRange* handler = handler_of(frame)) {
      note_handler(frame);
      while (frame.stack.size() > static_cast<std::size_t>(handler->depth)) frame.stack.pop_back();
      if (handler->lasti) frame.stack.push_back(py::take(PyLong_FromLong(lasti_of(frame) / 2)));
      frame.stack.push_back(std::move(exception));
      frame.next = (*frame.decoded)[handler->target].start();
      return true;
    }
    if (frame.back) close(frame);
    if (frame.generator != nullptr) {
      auto done = pop_frame();
      done->generator->running = false;
      if (PyErr_GivenExceptionMatches(exception.get(), PyExc_StopIteration)) {
        auto text = py::str("generator raised StopIteration");
        auto error = py::take(PyObject_CallOneArg(PyExc_RuntimeError, text.get()));
        PyException_SetCause(error.get(), Py_NewRef(exception.get()));
        PyException_SetContext(error.get(), Py_NewRef(exception.get()));
        exception = std::move(error);
      }
      Result r = and_then(Result::raised(), std::move(done->then));
      if (deliver(std::move(r)) == Next::Go) return true;
      continue;
    }
    if (!frame.back) return false;
    auto done = pop_frame();
    if (deliver(and_then(Result::raised(), std::move(done->then))) == Next::Go) return true;
  }
}

}  // namespace pellucid::trace
