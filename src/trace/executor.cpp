#include "trace/executor.h"

#include "aten/aten.h"
#include "handlers/registry.h"
#include "objects/generator.h"
#include "py/cpython311.h"
#include "trace/code_info.h"

namespace pellucid::trace {

namespace {
void forget_abandoned() {
  while (!objects::abandoned().empty()) std::exchange(objects::abandoned(), {});  // one may hold others
}
}  // namespace

Executor::~Executor() {
  // Frames form a list: take it apart iteratively, a deep one would overflow the C stack.
  while (top_) top_ = std::move(top_->back);
  exception = {};
  thrown_ = {};
  returned_ = {};
  forget_abandoned();
}

void Executor::push_frame(std::unique_ptr<Frame> frame) {
  frame->back = std::move(top_);
  frame->depth = frame->back ? frame->back->depth + 1 : 0;
  if (frame->depth > Py_GetRecursionLimit() - 50) {
    top_ = std::move(frame->back);
    throw GraphBreak(Reason::Recursion);
  }
  top_ = std::move(frame);
}

std::unique_ptr<Frame> Executor::pop_frame() {
  auto frame = std::move(top_);
  top_ = std::move(frame->back);
  return frame;
}

py::Owned<> Executor::run(PyFunctionObject* function, PyObject* const* locals) {
  PyCodeObject* code = capture().code.get();
  if (code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)) throw GraphBreak(Reason::GeneratorEntry);
  auto frame = std::make_unique<Frame>();
  frame->function = py::Owned<PyFunctionObject>::share(function);
  frame->code = code;
  frame->info = info_of(code);
  frame->globals = function->func_globals;
  frame->builtins = function->func_builtins;
  frame->fast.resize(static_cast<std::size_t>(code->co_nlocalsplus));
  frame->stack.reserve(static_cast<std::size_t>(code->co_stacksize));
  push_frame(std::move(frame));
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
  if (frame.generator != nullptr) {
    auto done = pop_frame();
    done->generator->running = false;
    Continuation then = std::move(done->then);
    auto stop = value.get() == Py_None ? py::take(PyObject_CallNoArgs(PyExc_StopIteration))
                                       : py::take(PyObject_CallOneArg(PyExc_StopIteration, value.get()));
    exception = std::move(stop);
    return deliver(settle(std::move(then), Result::raised()));
  }
  if (!frame.back) {
    returned_ = std::move(value);
    return Next::Finished;
  }
  auto done = pop_frame();
  return deliver(settle(std::move(done->then), Result::of(std::move(value))));
}

// GeneratorExit is on its way in the body of a generator that died, before the next instruction of the frame below.
void Executor::finalize_abandoned() {
  auto generator = objects::new_generator(std::move(objects::abandoned().back()));
  objects::abandoned().pop_back();
  auto* raw = reinterpret_cast<objects::TracedGenerator*>(generator.get());
  raw->started = true;
  raw->frame->generator = raw;
  exception = generator.copy();  // a break from here on is one that nothing can go on behind
  if (delegates(*raw->frame)) {
    unsupported(Reason::UnsupportedProtocol,
                {{"protocol", "the end of a generator that delegates"}, {"type", "generator"}});
  }
  auto exit = py::take(PyObject_CallNoArgs(PyExc_GeneratorExit));
  throw_into(generator.get(), std::move(exit), Continuation(Continuation::Kind::Finalize));
  exception = std::move(thrown_);
}

Next Executor::loop() {
  forget_abandoned();  // what an earlier capture kept until its end
  for (;;) {
    if (!objects::abandoned().empty()) {
      finalize_abandoned();
      unwind();
      continue;
    }
    Frame& frame = *top_;
    frame.at = frame.next;
    const std::uint8_t* units = frame.info->units;
    int offset = frame.next;
    std::uint8_t opcode = units[offset];
    int arg = units[offset + 1];
    while (opcode == kExtendedArg) {
      offset += 2;
      opcode = units[offset];
      arg = (arg << 8) | units[offset + 1];
    }
    frame.next = offset + 2 + 2 * cache_units(opcode);
    ++steps;
    doing = "runs";
    Next next;
    try {
      next = rule_of(opcode)(*this, frame, arg);
    } catch (const py::PythonError& error) {
      // A rule's own C call failed: it is the program's exception (MemoryError, a user's __hash__ …).
      raise_pending(error);
      next = Next::Raise;
    }
    if (next == Next::Finished) {
      std::exchange(frame.fast, {}).clear();  // generators die with their frame
      if (objects::abandoned().empty()) return next;
      frame.stack.push_back(std::move(returned_));
      frame.next = frame.at;  // returns once more, after them
      continue;
    }
    if (next == Next::Go) {
      if (!thrown_) continue;
      exception = std::move(thrown_);
    }
    if (!unwind()) {
      throw GraphBreak(Reason::ExceptionEscapes, {{"exception", py::repr_of(exception.get())}});
    }
  }
}

}  // namespace pellucid::trace
