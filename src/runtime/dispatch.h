// What happens on a call of a compiled function: hit, compile, or run eagerly.
#pragma once
#include <Python.h>

#include "codegen/input_loader.h"
#include "py/ref.h"
#include "runtime/bind.h"
#include "runtime/cache.h"
#include "runtime/compile.h"
#include "runtime/hook.h"

namespace pellucid::runtime {

struct Call {
  PyFunctionObject* function;  // the original
  PyObject* const* args;
  std::size_t nargsf;
  PyObject* kwnames;
  // A call that came by the frame hook: the frame that stands ready.
  PyThreadState* tstate = nullptr;
  py::InterpreterFrame* frame = nullptr;

  PyObject* run_eagerly() const;
};

// Runs the call eagerly, and compiles nothing that it calls.
py::Owned<> run_alone(const Call& call);
// Runs the call eagerly, but compiles the functions that it calls. `cache` must be held by the caller.
PyObject* run_with_inner_functions(Cache& cache, const Call& call);

// What of an entry is needed behind its call, which may drop it.
struct StateBehind {
  explicit StateBehind(const Entry& entry)
      : number(entry.number), follows_modes(entry.follows_modes), after(entry.after) {}
  int number;
  bool follows_modes;
  std::shared_ptr<const aten::GlobalState> after;
};

// Calls a region's function and leaves torch's state as the program leaves it. A new reference, or null with an error
// pending.
PyObject* call_region(PyFunctionObject* region, const StateBehind& state, PyObject* const* arguments,
                      std::size_t count);

// What the guards have read a moment ago, for the region that is called while this lives. `just_checked`: they held and
// no Python code ran since.
codegen::ReadyInputs ready_inputs(const Entry& entry, bool just_checked) noexcept;

// Whether the interpreter would let the program go so deep from here, and some way further (trace::kLastLevels).
bool is_deep_enough(int depth) noexcept;
inline constexpr int kWorthCapturing = 10;  // levels

// Runs the region with these arguments. `just_checked`: the entry's guards held a moment ago and no Python code ran
// since, so the inputs of the graph that they read are taken over. When its graph raises, nothing has happened yet and
// the call runs eagerly: effects that come before the error happen, and the program's own handlers see it. NULL with an
// error pending when the call raises. `entry` need not outlive the call: what runs may drop it.
// The call ran again because the graph raised, and gave a result. Does nothing unless the entry `may_give_up`.
void note_rerun_of(Cache& cache, PyObject* graph_call, PyFunctionObject* function);
PyObject* run_region(Cache& cache, const Entry& entry, const Call& call, BoundArguments& bound, bool just_checked);

// The stop is an error of the program: Unsupported with its record.
[[noreturn]] void raise_unsupported(const Attempt& attempt);
bool raises(const Attempt& attempt);  // pellucid.error_on_graph_break asks for it

// No entry fits: compiles one and runs it, or runs the call eagerly. `cache` must be held by the caller.
py::Owned<> call_missed(Cache& cache, const Call& call, BoundArguments& bound, bool fullgraph);

// What another instance has compiled serves this one too: an entry like it, or null. Those that a cache took over count
// for its limit like those that it compiled.
std::unique_ptr<Entry> adopted(const Cache& cache, const std::vector<py::Owned<>>& others, PyObject* const* slots,
                               PyObject* closure, bool fullgraph);

// Keeps the record of a stop, and gives the code up when it stops again and again without a region, unless it is
// raised.
void remember_stop(Cache& cache, Cache& root, const Attempt& attempt, bool is_raised);

}  // namespace pellucid::runtime
