#include "trace/unwinder.h"

#include "bytecode/opcodes.h"
#include "frames/frame_objects.h"
#include "py/traceback.h"
#include "trace/executor.h"

namespace pellucid::trace {

Result Unwinder::raise_with_cause(PyObject* type, py::Owned<> value, PyObject* cause) {
  if (!PyExceptionInstance_Check(value.get())) {
    return ex_.raise(PyExc_TypeError, std::string("calling ") + py::repr_of(type) +
                                          " should have returned an instance of BaseException, not " +
                                          py::repr_of(reinterpret_cast<PyObject*>(Py_TYPE(value.get()))));
  }
  if (cause != nullptr) PyException_SetCause(value.get(), cause == Py_None ? nullptr : Py_NewRef(cause));
  return ex_.raise(std::move(value));
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

py::Owned<>& Unwinder::handled_slot() { return with_exc_info(ex_.region.top)->handled; }

// Only generators begin with nothing: the program may have been called by a handler.
PyObject* Unwinder::handled_before_all() const {
  return with_exc_info(ex_.region.top)->generator != nullptr ? Py_None : frames::callers_exception();
}

void Unwinder::refuse_to_leave(const Frame& frame, PyObject* exception) const {
  if (!ex_.region.provenance.is_outside(exception) || handler_of(frame) != nullptr) return;
  unsupported(Reason::UnsupportedProtocol,
              {{"protocol", "raising an exception that existed before"}, {"type", Py_TYPE(exception)->tp_name}});
}

PyObject* Unwinder::topmost_handled() const {
  for (Frame* f = ex_.region.top; f != nullptr; f = f->back.get()) {
    f = with_exc_info(f);
    if (f->handled && f->handled.get() != Py_None) return f->handled.get();
  }
  return nullptr;
}

// A region cannot end while an exception is handled; it can before the step that raised it.
void Unwinder::note_handler(const Frame& frame) {
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

int lasti_of(const Frame& frame) {
  return frame.reraise == frame.at ? frame.reraises : frame.decoded->at(frame.at).offset;
}

}  // namespace

void Unwinder::trace_back(Frame& frame) {
  if (frame.hidden) return;
  if (ex_.region.provenance.is_outside(ex_.exception.get())) {
    unsupported(Reason::UnsupportedMutation,
                {{"target", std::string("the traceback of a ") + Py_TYPE(ex_.exception.get())->tp_name}});
  }
  py::add_traceback(ex_.exception.get(), frame_object(frame), frame.code.get(), lasti_of(frame));
}

PyObject* Unwinder::frame_object(Frame& frame) {
  if (!frame.frame_object) frame.frame_object = frames::new_frame_object(frame.code.get(), frame.globals);
  return frame.frame_object.get();
}

// Whoever has the frame object of a frame that is over finds in it what it held.
void Unwinder::close(Frame& frame) {
  if (!frame.frame_object || Py_REFCNT(frame.frame_object.get()) == 1) return;
  Frame* caller = frame.generator != nullptr ? nullptr : frame.back.get();
  while (caller != nullptr && caller->hidden) caller = caller->back.get();
  PyObject* back = caller != nullptr ? frame_object(*caller) : nullptr;
  PyObject* object = frame.frame_object.get();
  if (!ex_.region.provenance.is_outside(object)) {
    frames::close_frame_object(object, lasti_of(frame), frame.fast, back);
    ex_.region.capture->closed_frame_objects.insert(object);
    if (!frame.back) ex_.region.capture->outermost_frame_object = object;
    return;
  }
  region::Effect& effect = ex_.region.closed_frames.emplace_back();
  effect.kind = region::Effect::Kind::SetFrame;
  effect.target = frame.frame_object.copy();
  effect.value = frames::new_frame_object(frame.code.get(), frame.globals);
  effect.ends = !frame.back;
  frames::close_frame_object(effect.value.get(), lasti_of(frame), frame.fast, back);
}

// gen_send_ex of genobject.c: what the generator itself handles becomes the context (_PyErr_ChainStackItem), and what
// the exception met on its way so far is not in its traceback.
void Unwinder::throw_from_inner() {
  PyObject* handled = ex_.region.top->handled.get();
  if (handled == nullptr || Py_IsNone(handled) || ex_.region.provenance.is_outside(ex_.exception.get())) return;
  chain(ex_.exception.get(), handled);
  const bool came_far = on_its_way_.get() == ex_.exception.get();
  if (came_far) py::check(PyException_SetTraceback(ex_.exception.get(), its_traceback_.get()));
}

Result Unwinder::throw_back(py::Owned<> instance) {
  ex_.exception = std::move(instance);
  throw_from_inner();
  unchained_ = true;
  return Result::raised();
}

py::Owned<> Unwinder::generator_exit() {
  auto exit = py::take(PyObject_CallNoArgs(PyExc_GeneratorExit));
  if (PyObject* handled = topmost_handled()) chain(exit.get(), handled);
  return exit;
}

bool Unwinder::unwind(bool thrown) {
  const bool caught = find_handler(thrown);
  on_its_way_ = {};
  its_traceback_ = {};
  unchained_ = false;
  return caught;
}

bool Unwinder::find_handler(bool thrown) {
  // gen.throw() gives its exception no context but what the generator itself handles (gen_send_ex in genobject.c).
  PyObject* context = !thrown ? topmost_handled()
                      : ex_.region.top->handled && !Py_IsNone(ex_.region.top->handled.get())
                          ? ex_.region.top->handled.get()
                          : nullptr;
  if (std::exchange(unchained_, false)) context = nullptr;
  bool again = raises_again(*ex_.region.top, ex_.exception.get(), context);
  if (!again && context != nullptr && !ex_.region.provenance.is_outside(ex_.exception.get()))
    chain(ex_.exception.get(), context);
  its_traceback_ = py::Owned<>::steal(PyException_GetTraceback(ex_.exception.get()));
  if (!its_traceback_) its_traceback_ = py::Owned<>::share(Py_None);
  on_its_way_ = ex_.exception.copy();
  for (;;) {
    Frame& frame = *ex_.region.top;
    if (!again) trace_back(frame);
    again = false;
    if (const bytecode::ExceptionRange* handler = handler_of(frame)) {
      note_handler(frame);
      while (frame.stack.size() > static_cast<std::size_t>(handler->depth)) frame.stack.pop_back();
      if (handler->lasti) frame.stack.push_back(py::take(PyLong_FromLong(lasti_of(frame) / 2)));
      frame.stack.push_back(std::move(ex_.exception));
      frame.next = (*frame.decoded)[handler->target].start();
      return true;
    }
    if (frame.back) close(frame);
    if (frame.generator != nullptr) {
      auto done = ex_.pop_frame();
      done->generator->running = false;
      if (PyErr_GivenExceptionMatches(ex_.exception.get(), PyExc_StopIteration)) {
        auto text = py::str("generator raised StopIteration");
        auto error = py::take(PyObject_CallOneArg(PyExc_RuntimeError, text.get()));
        PyException_SetCause(error.get(), Py_NewRef(ex_.exception.get()));
        PyException_SetContext(error.get(), Py_NewRef(ex_.exception.get()));
        ex_.exception = std::move(error);
      }
      Result r = ex_.and_then(Result::raised(), std::move(done->then));
      if (ex_.deliver(std::move(r)) == Next::Go) return true;
      continue;
    }
    if (!frame.back) return false;
    auto done = ex_.pop_frame();
    if (ex_.deliver(ex_.and_then(Result::raised(), std::move(done->then))) == Next::Go) return true;
  }
}

}  // namespace pellucid::trace
