// Operators, subscripts, truth and jumps.
#include "bytecode/opcodes.h"
#include "trace/rules/rules.h"
#include "trace/value_checks.h"

namespace pellucid::trace {

using K = Continuation::Kind;

namespace {

// The truth of the top of the stack when it is known at once; otherwise the bool is put in its place and the
// instruction runs again.
enum class Truth { Yes, No, Again, Raised };
Truth test(Executor& ex, Frame& f) {
  PyObject* value = peek(f, 0);
  if (value == Py_True) return Truth::Yes;
  if (value == Py_False || value == Py_None) return Truth::No;
  auto held = py::Owned<>::share(value);
  Result r = protocols::truth(ex, value);
  switch (r.did) {
    case Result::Did::Value:
      return r.value.get() == Py_True ? Truth::Yes : Truth::No;
    case Result::Did::Raised:
      return Truth::Raised;
    default:
      break;
  }
  drop(f, 1);  // the frame of __bool__ will push its answer here
  f.next = f.at;
  return Truth::Again;
}

Next jump_if(Executor& ex, Frame& f, bool when, int target) {
  if (PyObject* value = peek(f, 0); !PyBool_Check(value) && region::cat_of(value) == region::Cat::Tensor) {
    if (const auto asserted = asserted_truth(ex, f, value, when, target)) {
      drop(f, 1);
      if (*asserted == when) f.next = target;
      return Next::Go;
    }
  }
  const Truth t = test(ex, f);
  if (t == Truth::Raised) return Next::Raise;
  if (t == Truth::Again) return Next::Go;
  drop(f, 1);
  if ((t == Truth::Yes) == when) f.next = target;
  return Next::Go;
}

Next jump_if_or_pop(Executor& ex, Frame& f, bool when, int target) {
  if (f.asked_at == f.at && f.stack.size() == f.asked_size + 1) {  // the answer of __bool__ lies above the value
    const bool yes = peek(f, 0) == Py_True;
    drop(f, 1);
    f.asked_at = -1;
    if (yes == when)
      f.next = target;
    else
      drop(f, 1);
    return Next::Go;
  }
  auto held = py::Owned<>::share(peek(f, 0));
  Result r = protocols::truth(ex, held.get());
  if (r.did == Result::Did::Raised) return Next::Raise;
  if (r.did == Result::Did::Pushed) {
    f.asked_at = f.at;
    f.asked_size = f.stack.size();
    f.next = f.at;
    return Next::Go;
  }
  if ((r.value.get() == Py_True) == when)
    f.next = target;
  else
    drop(f, 1);
  return Next::Go;
}

Next jump_if_none(Executor& ex, Frame& f, bool none, int target) {
  if (region::is_number(peek(f, 0))) ex.region.numbers.guard_type(peek(f, 0));
  const bool is_none = peek(f, 0) == Py_None;
  drop(f, 1);
  if (is_none == none) f.next = target;
  return Next::Go;
}

Next unary(Executor& ex, Frame& f, int opcode) {
  auto value = py::Owned<>::share(peek(f, 0));
  Result r = protocols::unary(ex, value.get(), opcode);
  drop_below(f, r, 1);
  return push(f, std::move(r));
}

}  // namespace

Next do_UNARY_POSITIVE(Executor& ex, Frame& f, int) {
  return unary(ex, f, static_cast<int>(bytecode::Opcode::UNARY_POSITIVE));
}
Next do_UNARY_NEGATIVE(Executor& ex, Frame& f, int) {
  return unary(ex, f, static_cast<int>(bytecode::Opcode::UNARY_NEGATIVE));
}
Next do_UNARY_INVERT(Executor& ex, Frame& f, int) {
  return unary(ex, f, static_cast<int>(bytecode::Opcode::UNARY_INVERT));
}
Next do_UNARY_NOT(Executor& ex, Frame& f, int) {
  const Truth t = test(ex, f);
  if (t == Truth::Raised) return Next::Raise;
  if (t == Truth::Again) return Next::Go;
  drop(f, 1);
  f.stack.push_back(py::Owned<>::share(t == Truth::Yes ? Py_False : Py_True));
  return Next::Go;
}

Next do_BINARY_OP(Executor& ex, Frame& f, int arg) {
  auto right = py::Owned<>::share(peek(f, 0)), left = py::Owned<>::share(peek(f, 1));
  Result r = protocols::binary(ex, left.get(), right.get(), arg);
  drop_below(f, r, 2);
  return push(f, std::move(r));
}
Next do_COMPARE_OP(Executor& ex, Frame& f, int arg) {
  auto right = py::Owned<>::share(peek(f, 0)), left = py::Owned<>::share(peek(f, 1));
  Result r = protocols::compare(ex, left.get(), right.get(), arg);
  drop_below(f, r, 2);
  return push(f, std::move(r));
}
Next do_IS_OP(Executor& ex, Frame& f, int arg) {
  const bool same = protocols::is_same(ex, peek(f, 1), peek(f, 0));
  drop(f, 2);
  f.stack.push_back(py::Owned<>::share(same != (arg == 1) ? Py_True : Py_False));
  return Next::Go;
}
Next do_CONTAINS_OP(Executor& ex, Frame& f, int arg) {
  auto container = py::Owned<>::share(peek(f, 0)), item = py::Owned<>::share(peek(f, 1));
  Continuation as_bool(K::Bool);
  as_bool.number = arg;
  Result r = ex.and_then(protocols::contains(ex, container.get(), item.get()), std::move(as_bool));
  drop_below(f, r, 2);
  return push(f, std::move(r));
}
Next do_BINARY_SUBSCR(Executor& ex, Frame& f, int) {
  auto key = py::Owned<>::share(peek(f, 0)), container = py::Owned<>::share(peek(f, 1));
  Result r = protocols::subscript(ex, container.get(), key.get());
  drop_below(f, r, 2);
  return push(f, std::move(r));
}
Next do_STORE_SUBSCR(Executor& ex, Frame& f, int) {
  auto key = py::Owned<>::share(peek(f, 0)), container = py::Owned<>::share(peek(f, 1)),
       value = py::Owned<>::share(peek(f, 2));
  Result r = protocols::store_subscript(ex, container.get(), key.get(), value.get());
  if (r.did == Result::Did::Raised) return Next::Raise;
  drop(f, 3);
  return Next::Go;
}
Next do_DELETE_SUBSCR(Executor& ex, Frame& f, int) {
  auto key = py::Owned<>::share(peek(f, 0)), container = py::Owned<>::share(peek(f, 1));
  Result r = protocols::store_subscript(ex, container.get(), key.get(), nullptr);
  if (r.did == Result::Did::Raised) return Next::Raise;
  drop(f, 2);
  return Next::Go;
}

Next do_JUMP_FORWARD(Executor&, Frame& f, int arg) {
  f.next += 2 * arg;
  return Next::Go;
}
Next do_JUMP_BACKWARD(Executor&, Frame& f, int arg) {
  f.next -= 2 * arg;
  return Next::Go;
}
Next do_JUMP_BACKWARD_NO_INTERRUPT(Executor&, Frame& f, int arg) {
  f.next -= 2 * arg;
  return Next::Go;
}
Next do_POP_JUMP_FORWARD_IF_TRUE(Executor& ex, Frame& f, int arg) { return jump_if(ex, f, true, f.next + 2 * arg); }
Next do_POP_JUMP_FORWARD_IF_FALSE(Executor& ex, Frame& f, int arg) { return jump_if(ex, f, false, f.next + 2 * arg); }
Next do_POP_JUMP_BACKWARD_IF_TRUE(Executor& ex, Frame& f, int arg) { return jump_if(ex, f, true, f.next - 2 * arg); }
Next do_POP_JUMP_BACKWARD_IF_FALSE(Executor& ex, Frame& f, int arg) { return jump_if(ex, f, false, f.next - 2 * arg); }
Next do_POP_JUMP_FORWARD_IF_NONE(Executor& ex, Frame& f, int arg) {
  return jump_if_none(ex, f, true, f.next + 2 * arg);
}
Next do_POP_JUMP_FORWARD_IF_NOT_NONE(Executor& ex, Frame& f, int arg) {
  return jump_if_none(ex, f, false, f.next + 2 * arg);
}
Next do_POP_JUMP_BACKWARD_IF_NONE(Executor& ex, Frame& f, int arg) {
  return jump_if_none(ex, f, true, f.next - 2 * arg);
}
Next do_POP_JUMP_BACKWARD_IF_NOT_NONE(Executor& ex, Frame& f, int arg) {
  return jump_if_none(ex, f, false, f.next - 2 * arg);
}
Next do_JUMP_IF_TRUE_OR_POP(Executor& ex, Frame& f, int arg) { return jump_if_or_pop(ex, f, true, f.next + 2 * arg); }
Next do_JUMP_IF_FALSE_OR_POP(Executor& ex, Frame& f, int arg) { return jump_if_or_pop(ex, f, false, f.next + 2 * arg); }

}  // namespace pellucid::trace
