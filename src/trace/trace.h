// The executor: runs a function's bytecode over real Python objects and fake tensors, records torch operations into a
// graph, guards what it read, and gives a Capture. No side effect is visible outside when it returns or throws.
#pragma once
#include <memory>

#include "base/reasons.h"
#include "frames/state.h"
#include "py/ref.h"
#include "region/capture.h"

namespace pellucid::trace {

// A split with the place in the user's program.
struct BreakInfo {
  Reason reason{};
  std::string message, hint;
  std::string thrown_at;  // of ours
  bool is_error = false;  // pellucid.error_on_graph_break says so at this place
  struct FrameInfo {
    py::Owned<PyCodeObject> code;
    int offset;
    int line;
  };
  std::vector<FrameInfo> stack;  // outermost first
  py::Owned<> exception;         // for ExceptionEscapes / OpFailed: the exception, else empty
};

struct Outcome {
  std::unique_ptr<region::Capture> capture;  // null when the region cannot be captured: then `stop` says why
  bool stopped = false;                      // the program goes on behind the region: `stop` says why
  BreakInfo stop;
  // Steps before which the region could end instead, the last first: where the open frames outside of what cannot be
  // told (a running generator, a handler, code of ours) can be.
  std::vector<std::int64_t> earlier;
  std::int64_t steps = 0;         // executed when it stopped
  int captures = 1;               // until the hints for what only the graph knows fitted
  bool needs_constants = false;   // sizes were open at a level of torch.func, where torch asks for plain ones
  std::int64_t ends_before = -1;  // an earlier step that the region has to end before (Region::ends_before)
  bool needs_modes = false;       // the program asks for modes of torch functions, which were not followed
  // The program has come to a parameter or buffer that has no shape yet: a lazy module gives it one, and another class,
  // in its first call.
  bool meets_uninitialized = false;
  std::string not_handed_over;  // why what was alive there cannot leave the region
};

constexpr int kLastLevels = 50;  // before RecursionError: these are the interpreter's
// Loops over the steps of a series have tens of thousands of operations: each counts less than the time that it takes.
constexpr std::int64_t kMostWork = 5'000'000, kWorkOfOperation = 50;

// How far a capture goes.
struct Extent {
  bool may_end_early = false;  // see capture()
  std::int64_t steps = -1;     // the region ends before its step of this number; -1: as far as it can be followed
  bool at_will = false;        // the program need not stop there: the first step from that one on where it can be told
  bool begins_there = false;   // the next region begins with the step before which this one ends
  std::int64_t leaves_before = -1;          // Recorder::leaves_before
  std::int64_t function_views_before = -1;  // BodyRecorder::function_views_before
  std::vector<std::int64_t> hooks_behind;   // InnerHooks::behind
  bool follows_modes = false;               // those of torch functions, which are aside
  std::int64_t work = kMostWork;  // it ends behind so many instructions; an operation counts as kWorkOfOperation
};

// `locals`: the bound arguments of `function` in co_varnames order (all argument slots, then *args tuple and **kwargs
// dict when the code has them). `code`: the code they are bound for; f.__code__ may be another one by now. Throws only
// PythonError for errors that are ours or the machine's (MemoryError, KeyboardInterrupt).
// `extent.may_end_early`: where the program cannot be captured to its end, what comes before is, when its live state
// can be told (Capture::exit).
Outcome capture(PyFunctionObject* function, PyCodeObject* code, PyObject* const* locals, Extent extent,
                const region::NumberPolicy& numbers);
// The same from the middle of a program.
Outcome capture(const frames::State& state, Extent extent, const region::NumberPolicy& numbers);

void initialise();       // resolves handler tables
void initialise_once();  // by whoever comes first: a capture does it itself

}  // namespace pellucid::trace
