// The rows of callables with a rule, one table per file.
#pragma once
#include "protocols/policies.h"
#include "protocols/protocols.h"
#include "protocols/table.h"
#include "region/names.h"

namespace pellucid::rows {

using protocols::adds_to_self;
using protocols::Args;
using protocols::Cat;
using protocols::Contents;
using protocols::Continuation;
using protocols::describe;
using protocols::Interpreter;
using protocols::mutates_self;
using protocols::NamedRow;
using protocols::nothing;
using protocols::pure;
using protocols::refuse;
using protocols::Result;
using protocols::Row;
using protocols::run_native;
using protocols::runs_as_it_is;
using protocols::shallow;
using protocols::walker_of;

// The region ends here inside blocks of torch: the graph leaves those that it entered, how the state is then is
// Capture::after. False: one of them cannot be entered again.
bool leave_contexts(Interpreter& t);
// Records the end of a range for torch's profiler.
void end_range(Interpreter& t, graph::Node* begun);
// A switch of thread state: carried out now, so that what follows is captured under it, and recorded, so that the graph
// does it again.
Result state_switch(Interpreter& t, PyObject* f, Args args);
// The same of levels of torch.func, whose size may be open.
Result switch_level(Interpreter& t, PyObject* f, Args args);
// (number, size, randomness) of the innermost level of torch.func; of one that is no torch.vmap, the number and two
// None.
Result parts_of_innermost_level(Interpreter& t);
// The call of an autograd.Function, (class, arguments …), where gradients are asked for.
Result function_as_node(Interpreter& t, Args args);
// Of torch's own numbers that only a graph knows; capture has others (region/unbacked.h).
Result has_free_unbacked_symbols(Interpreter& t, PyObject* f, Args args);
Result distributed_tensor(Interpreter& t, PyObject* f, Args args);
Result distributed_property(Interpreter& t, PyObject* f, Args args);
Result flex_attention(Interpreter& t, PyObject* f, Args args);
// Whether this is a function of torch that traces what it calls: nothing below it is captured.
bool is_tracer(PyObject* function);
void add_numpy_functions();
void add_numpy_draws();
void initialise();

// pellucid.comptime(fn), and torch._dynamo's: runs it now.
Result run_comptime(Interpreter& t, PyObject* callable, Args args);

// pure, with an encoding and errors behind the first argument
Result coded(Interpreter& t, PyObject* callable, Args args);

// The wrong number or kind of arguments: CPython words the TypeError.
inline Result complain(Interpreter& t, PyObject* callable, Args args) { return run_native(t, callable, args); }
// A new tuple of these.
py::Owned<> tuple_of(std::span<PyObject* const> items);
inline bool only_positional(Args args, std::size_t least, std::size_t most) {
  return args.keyword_count() == 0 && args.size() >= least && args.size() <= most;
}

extern const std::span<const Row> kBuiltinRows, kContainerRows, kPureRows, kTorchRows, kOperatorRows, kFunctoolsRows,
    kGeneratorRows, kInspectRows, kRegexRows, kLoggingRows, kExceptionRows, kClassRows, kCompilingRows, kIteratorRows,
    kComptimeRows, kTrainingRows, kTensorFactorRows, kTransformRows, kBodyRows, kNumpyRows, kTorchFunctionRows,
    kFunctionModeRows, kHookRows, kHigherOrderRows, kRandomRows, kDistributedRows, kScanRows;
extern const std::span<const NamedRow> kNamedTorchRows;

}  // namespace pellucid::rows
