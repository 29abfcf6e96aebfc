// One open Python frame of the region, on the heap. The executor's loop runs the innermost one; what happens to the
// result of a frame that a call pushed waits in it as a Continuation.
#pragma once
#include <Python.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "bytecode/instruction.h"
#include "frames/wait.h"
#include "graph/graph.h"
#include "py/ref.h"

namespace pellucid::region {

struct TracedGenerator;

// What becomes of a callee's return value in the frame that waits for it.
struct Continuation {
  using Kind = frames::WaitKind;  // what each means
  Kind kind = Kind::Push;
  std::uint8_t stage = 0;
  std::int64_t number = 0;
  py::Owned<> a, b, c;
  std::unique_ptr<Continuation> next;  // what becomes of the transformed value; none: it is the result

  Continuation() = default;
  explicit Continuation(Kind k) : kind(k) {}
  Continuation(Kind k, PyObject* first, PyObject* second = nullptr, PyObject* third = nullptr)
      : kind(k), a(py::Owned<>::share(first)), b(py::Owned<>::share(second)), c(py::Owned<>::share(third)) {}
  Continuation& last() {
    Continuation* at = this;
    while (at->next) at = at->next.get();
    return *at;
  }
  // this first, then `after`; Push alone is nothing to wait for
  void append(Continuation after) {
    if (kind == Kind::Push && !next) {
      *this = std::move(after);
    } else if (after.kind != Kind::Push || after.next) {
      last().next = std::make_unique<Continuation>(std::move(after));
    }
  }
};

struct Frame {
  py::Owned<PyFunctionObject> function;            // keeps globals, closure alive
  py::Owned<PyCodeObject> code;                    // what the function had when it was called
  const bytecode::DecodedCode* decoded = nullptr;  // of `code`
  bool hidden = false;                             // polyfill: does not show in user stacks
  PyObject* globals = nullptr;                     // borrowed from function
  PyObject* builtins = nullptr;
  std::vector<py::Owned<>> fast;  // co_nlocalsplus
  std::vector<py::Owned<>> stack;
  py::Owned<> names;         // the namespace of a class body
  int next = 0;              // byte offset of the next instruction
  int at = 0;                // byte offset of the instruction that runs (of its first EXTENDED_ARG)
  std::int64_t at_step = 0;  // the executor's step that began it
  int reraise = -1;          // offset of the RERAISE that ran last …
  int reraises = 0;          // … and of the instruction where the frame then is said to be
  py::Owned<> kwnames;
  std::unique_ptr<Frame> back;           // the caller; null for the entry frame and suspended generators
  Continuation then;                     // what the caller does with our result
  TracedGenerator* generator = nullptr;  // borrowed: set while this frame is the body of a generator
  py::Owned<> generator_ref;             // keeps the generator alive while it runs
  py::Owned<> handled;                   // exc_info->exc_value; used in the entry frame and in generator frames only
  py::Owned<> frame_object;              // what tracebacks have of it; made when the first one needs it
  py::Owned<> module_type;               // when this frame is the call of an nn.Module
  std::string module_path, module_key;   // how the program named it; the same, told from earlier calls
  std::shared_ptr<const graph::CallSite> site;  // cache of the call site at `site_at`
  int site_at = -1;
  int asked_at = -1;           // `and`/`or` at this offset waits for a user's __bool__ …
  std::size_t asked_size = 0;  // … with the value on top of a stack of this size
  int depth = 0;
  int profiled = -1;  // its place in the profile that records; none yet
  PyObject* local(int slot) const { return fast[static_cast<std::size_t>(slot)].get(); }
};

// The decoded instructions of `code`; a GraphBreak when they were put together by hand, in a way that CPython's
// compiler never does.
const bytecode::DecodedCode& decoded_code(PyCodeObject* code);

}  // namespace pellucid::region
