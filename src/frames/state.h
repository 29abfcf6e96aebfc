// The open frames of a program that stopped between two instructions: where each goes on and what it holds. The values
// are real; what is known of them for good (which slots are filled, where) is the shape.
#pragma once
#include <Python.h>

#include <cstdint>
#include <string>
#include <vector>

#include "frames/wait.h"
#include "py/ref.h"

namespace pellucid::frames {

struct OpenFrame {
  py::Owned<PyFunctionObject> function;  // a function with the frame's code; keeps globals and code alive
  int at = 0;                            // byte offset of the instruction that runs (behind EXTENDED_ARG)
  int begin = 0;                         // where the interpreter may start to run it: at KW_NAMES or EXTENDED_ARG
  int next = 0;                          // where the frame goes on behind it
  int opcode = 0, arg = 0;               // of the innermost frame's instruction, when it is known
  std::vector<py::Owned<>> fast;         // co_nlocalsplus; empty: unbound
  std::vector<py::Owned<>> stack;        // empty: NULL
  py::Owned<> kwnames;                   // of a CALL that is about to run
  std::vector<Wait> then;                // what the frame outside makes of this one's result; empty: it is pushed
  py::Owned<> generator;                 // whose body this frame is, running; empty: the frame is a call's
  py::Owned<> handled;                   // the exception that it handles, of the outermost frame and of generators
  py::Owned<> frame_object;              // what tracebacks have of it; empty: nobody does
  std::vector<std::size_t> saved_at;     // while the frame is real: where callers_exception() was on the stack

  PyCodeObject* code() const noexcept { return reinterpret_cast<PyCodeObject*>(function->func_code); }
};

struct State {
  // A bound method or slot of C ([].append, super().__setattr__) that only this slot has: nobody can tell it from
  // another one.
  struct Apart {
    std::size_t frame;
    bool on_stack;
    std::size_t slot;
    py::Owned<> method;
    PyObject* descriptor;  // borrowed from the object's class
  };
  std::vector<OpenFrame> frames;  // outermost first
  std::vector<Apart> apart;       // in the order of values_of; the slots have the methods' objects
};

// A state without its values.
struct Shape {
  struct Frame {
    py::Owned<PyCodeObject> code;
    int at, begin, next, opcode, arg;
    std::vector<char> fast, stack;  // whether the slot is filled
    py::Owned<> kwnames;
    struct Waiting {
      WaitKind kind;
      std::uint8_t stage;
      std::int64_t number;
      bool a, b, c;  // whether they are filled
    };
    std::vector<Waiting> then;
    bool of_generator, handles, has_object;
  };
  std::vector<Frame> frames;
  bool at_will = false;       // nothing is in the way of the next instruction: a region could begin with it
  bool begins_there = false;  // the next region does begin with it, whichever it is
  // Numbers and sizes below these values that may be others at the next call: hashes of their paths from where the next
  // region begins (region/seeds.h).
  struct Changing {
    std::uint64_t path;
    bool is_float;
  };
  std::vector<Changing> changing;
};

// Stands on the stack of a handler for the exception that was handled before: by whoever called the program.
PyObject* callers_exception();

// The values of a state in one row: of each frame its function, its generator, what it handles, its frame object, then
// the filled slots of fast, stack and `then`. Borrowed.
std::vector<PyObject*> values_of(const State& state);
// Names for them, for messages: "x", "stack_0", "f1_x" (frame 1), "f1_then_0_a", "<function>".
std::vector<std::string> value_names(const State& state);
// The name of what is on top of the innermost frame's stack, which has something there.
std::string name_of_top(const State& state);
Shape shape_of(const State& state);
// The innermost frame goes on with its instruction instead of behind it.
void rewind(State& state);
// The state of this shape with these values: a tuple as values_of orders them, whose first item does not matter, since
// `function` runs in the outermost frame.
State unpack(const Shape& shape, PyObject* values, PyFunctionObject* function);
// Regions begin with the object of such a method, whichever it is; the interpreter goes on with the method.
void take_methods_apart(State& state);
void put_methods_together(State& state);
// In the first turn of a loop the variables that it stores are unbound, and in the others they are not. Where nobody
// reads one any more before it is stored, the program goes the same way for both, and one region serves both: these
// slots of the state are unbound ones of that kind, each by its frame and its number.
struct Slot {
  std::size_t frame, number;
};
std::vector<Slot> unbound_in_first_turn(const State& state);
// Regions begin with empty_slot() in them; what runs for real finds them unbound.
void fill(State& state, const std::vector<Slot>& slots);
void empty_filled(State& state);
// Two states with equal keys start the same region: same code, globals, offsets and filled slots. The pointers in it
// are good as long as the functions' code and globals are held.
using Key = std::vector<std::uint64_t>;
Key key_of(const State& state);
struct KeyHash {
  std::size_t operator()(const Key& key) const noexcept;
};

}  // namespace pellucid::frames
