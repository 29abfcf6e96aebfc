// throw() and close() of a generator that is suspended in a `yield from`: they belong to the inner iterator first
// (genobject.c).
#include "bytecode/opcodes.h"
#include "protocols/protocols.h"
#include "trace/executor.h"

namespace pellucid::trace {

using K = Continuation::Kind;
using region::names;

namespace {

// What a SEND makes of the inner iterator's answer: a value is yielded again, StopIteration goes on behind the loop.
// The frame is suspended at the YIELD_VALUE behind the SEND.
Continuation as_send(const Frame& body) {
  const bytecode::DecodedCode& code = *body.decoded;
  const bytecode::Instruction& send = code[code.index_at(body.at) - 1];
  Continuation send_again(K::Send);
  send_again.stage = frames::kThrownIn;
  send_again.number = code[send.target].start();
  return send_again;
}

PyObject* method_of(Executor& ex, PyObject* receiver, PyObject* name) {
  if (region::cat_of(receiver) == Cat::Iterator) return nullptr;  // builtin iterators have neither throw() nor close()
  PyObject* method = ex.region.lookups.type_lookup(Py_TYPE(receiver), name);
  if (method == nullptr && ex.region.lookups.instance_get(receiver, name) == nullptr) return nullptr;
  if (method == nullptr || !PyFunction_Check(method))
    unsupported(Reason::UnsupportedProtocol, {{"protocol", "delegating to"}, {"type", Py_TYPE(receiver)->tp_name}});
  return method;
}

// The body is on top, at its YIELD_VALUE, with the inner iterator on its stack.
Result throw_into_inner(Executor& ex, Frame& body, py::Owned<> instance) {
  auto inner = py::Owned<>::share(peek(body, 0));
  static PyObject* const throw_name = py::interned("throw").release();
  Result r = Result::done();
  if (PyErr_GivenExceptionMatches(instance.get(), PyExc_GeneratorExit)) {
    Continuation raises(K::Raise);
    raises.stage = frames::kThrownIn;
    Continuation raise_again(K::Replace, instance.get());
    raise_again.append(std::move(raises));
    if (region::is_generator(inner.get())) {
      r = ex.and_then(ex.close(inner.get()), std::move(raise_again));
    } else if (PyObject* method = method_of(ex, inner.get(), names().close)) {
      r = ex.and_then(protocols::call1(ex, method, inner.get()), std::move(raise_again));
    } else {
      r = ex.raise(std::move(instance));
    }
  } else if (region::is_generator(inner.get())) {
    r = ex.and_then(ex.throw_into(inner.get(), std::move(instance)), as_send(body));
  } else if (PyObject* method = method_of(ex, inner.get(), throw_name)) {
    r = ex.and_then(protocols::call2(ex, method, inner.get(), instance.get()), as_send(body));
  } else {
    r = ex.raise(std::move(instance));
  }
  return r;
}

}  // namespace

// Starts the body again with an exception for what it delegates to.
Result Executor::throw_through(PyObject* object, py::Owned<> instance) {
  auto* generator = reinterpret_cast<region::TracedGenerator*>(object);
  std::unique_ptr<Frame> frame(std::exchange(generator->frame, nullptr));
  generator->running = true;
  frame->generator_ref = py::Owned<>::share(object);
  frame->next = frame->at;
  Frame& body = *frame;
  push_frame(std::move(frame));
  Result r = throw_into_inner(*this, body, std::move(instance));
  if (r.is_value()) body.stack.push_back(std::move(r.value));
  if (r.did == Result::Did::Raised) thrown_ = std::move(exception);
  return Result::pushed(&body);
}

}  // namespace pellucid::trace
