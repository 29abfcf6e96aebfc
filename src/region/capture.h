// The immutable result of tracing one region: everything codegen, backend and runtime need, and nothing of the
// executor.
//
// Capture works on real Python objects (ARCHITECTURE.md, "Concrete objects"): what a region returns is a real object
// made during capture. Codegen walks it: an object with a source is loaded from there, a fake tensor is an output of
// the graph, an immutable constant is itself, and anything else was made by the region and is built anew at every call.
#pragma once
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "frames/state.h"
#include "graph/bodies.h"
#include "graph/graph.h"
#include "guards/guard.h"
#include "py/ref.h"
#include "region/freed_tensors.h"
#include "region/number_history.h"
#include "region/open_numbers.h"
#include "source/source.h"

namespace pellucid::region {

using guards::Kind;
using source::Source;

// The finger (py/set_table.h) of the copy of a set from outside until pop() is called on it: when one element is left,
// wherever it would begin to look.
inline constexpr Py_ssize_t kNotPopped = -1;

// One thing that must happen after the graph call, in program order.
struct Effect {
  enum class Kind : std::uint8_t {
    SetList,       // target[:] = value          (value: the list as it is at the end)
    AppendToList,  // target.extend(value): nobody has looked at what it holds
    SetDict,       // make target equal to value, keys in value's order (exact dict or a subclass, through dict's own
                   // methods;
                   //   an OrderedDict through OrderedDict's own methods)
    SetSet,        // target := value, of a set also its table
    SetDeque,      // target := value
    SetCell,       // target.cell_contents = value (value empty: the cell becomes empty)
    SetAttr,       // setattr through object.__setattr__: name = value (value empty: delete); for slots and C-level
                   // attributes
    SetFrame,      // target is the frame object of a frame that is over: like `value`, which capture has closed
    SetGenerator,  // target is a generator: suspended like `value`, a TracedGenerator
    Advance,       // target is an iterator: it takes `count` elements, and meets its end when `ends`
    Call,          // target(*args, **kwargs), result dropped: deferred logging (the callable may also stand in `value`)
  } kind;
  py::Owned<> target;  // the original object (has a source); for Call: the callable
  py::Owned<> value;
  py::Owned<> name;          // SetAttr
  py::Owned<> args, kwargs;  // Call: tuple, dict or empty
  py::Owned<> keys;          // SetDict: {key: key} as the region has them; `value` keeps those that target had
  std::int64_t count = 0;    // Advance
  bool ends = false;
};

// A call that draws a random number: function(generator, *arguments), with constants as arguments. Without a generator:
// function() of a number that was drawn before, whose index is the argument.
struct Draw {
  py::Owned<> generator;
  const Source* source;  // of the generator, or of that number
  py::Owned<> function, arguments;
};

// A tensor from outside that the region has moved to other memory (`tensor.data = …`), for a graph that is compiled.
struct Moved {
  std::int64_t step;
  py::Owned<> fake;
  const graph::Node* node;
  std::shared_ptr<const void> from, to;
};

// Tensors whose hooks an operator of a compiled graph calls (inner_hooks.h).
struct HookedInside {
  std::int64_t step;
  py::Owned<> fake;
  bool of_module;  // `fake` is the first of what passes on
  py::Owned<> key;
  // What was given, and the copies that pass on in the graph.
  std::vector<std::pair<py::Owned<>, py::Owned<>>> passed;
};

struct FlaggedLeaf {
  std::int64_t step = 0;           // the first one that changes it
  std::vector<PyObject*> aliases;  // what nodes give that stand for it while it is another one than at the beginning
};

struct Capture {
  py::Owned<PyFunctionObject> function;  // the entry function
  py::Owned<PyCodeObject> code;          // its code during capture: f.__code__ may be replaced at any time
  source::SourceTable sources;
  guards::GuardSet guards;
  graph::Graph graph;
  std::unique_ptr<graph::Bodies> bodies = std::make_unique<graph::Bodies>(graph);  // the graphs inside of it
  py::Owned<> result;                                                              // what the region returns
  // The region ends before the program does: `result` is a tuple of the live values (of the outermost frame no
  // function), this says where they stand.
  std::shared_ptr<const frames::Shape> exit;
  // How the region leaves grad mode and its like, when not as it found them.
  std::shared_ptr<const aten::GlobalState> after;
  // Of a region that starts in the middle of a program: the names of its arguments, the values of the open frames.
  std::vector<std::string> arguments;
  std::vector<Draw> draws;        // in program order, all of them before the graph
  const Source* drawn = nullptr;  // the numbers of these
  py::Owned<> drawer;             // what emitted code calls for them, with the generators; made with the entry
  std::vector<Effect> effects;    // net changes of objects that existed before
  // The first source of each object that existed before the region and is known by identity.
  std::unordered_map<PyObject*, const source::Source*> source_of;
  // The private copy of a container that the region wrote to or iterated -> the container that existed before.
  std::unordered_map<PyObject*, PyObject*> stands_for;
  // Iterators that the region made and that the instruction used up which it could not go through with -> a tuple of
  // what they gave it: they are handed over as they were before.
  std::unordered_map<PyObject*, py::Owned<>> given_back;
  // Fakes and lifted real tensors -> their node. A real tensor (input) has a placeholder and a source.
  std::unordered_map<PyObject*, graph::Node*> node_of;
  // Tensors in which gradients are accumulated, and parameters, that the region made -> the step that made them so.
  std::unordered_map<PyObject*, std::int64_t> leaves;
  // Parameters without gradients of which the graph gives the elements: emitted code makes them.
  std::unordered_set<PyObject*> late_parameters;
  std::vector<Moved> moved;
  std::vector<HookedInside> hooked_inside;
  // Of leaves from outside of which the region changes whether they require gradients, by their fakes.
  std::unordered_map<PyObject*, FlaggedLeaf> flagged;
  std::unordered_map<PyObject*, py::Owned<>> gradients;  // what the region put into `.grad` of tensors that it made
  std::shared_ptr<FreedTensors> freed;               // null: a backend that leaves autograd to torch, or no such pass
  std::vector<const source::Source*> unused_inputs;  // that were read, but that no node of the finished graph has
  std::unordered_map<const graph::Node*, PyObject*> input_of;  // placeholder -> the real tensor met during capture
  // ids of objects that the region made: good as keys inside it, meaningless outside, so they must not leave.
  std::unordered_set<PyObject*> region_ids;
  std::unordered_set<PyObject*> made_classes;  // by the region: every call makes its own, so they must not leave
  // Frame objects that capture made, for tracebacks: of frames that are open at the exit, of frames that are over.
  std::unordered_set<PyObject*> open_frame_objects, closed_frame_objects;
  PyObject* outermost_frame_object = nullptr;  // of the frame that the region's caller called
  // Generators that stand for builtin iterators and that the program does not see: they may leave as what they are.
  std::unordered_set<PyObject*> unseen_generators;
  std::vector<std::pair<PathHash, SeenNumber>> numbers;  // what was read of numbers, for later captures
  OpenNumbers open;                                      // those that stay open, for a backend that compiles for all
  bool follows_modes = false;                            // the modes of torch functions have been asked
  bool fills_cache = false;                              // a functools.lru_cache gets what later calls find in it
  bool computes_arrays = false;                          // torch's functions stand for those of numpy
  bool has_unbacked = false;                             // the graph reads numbers of tensors
  bool has_value_checks = false;                         // the graph asserts what a branch of the program asks
  const char* of_this_process = nullptr;                 // why it holds in no other process (region/process.h)
  std::vector<py::Owned<>> alive;                        // keeps every key of these maps alive
  std::vector<std::string> notes;                        // deferred decisions worth showing in explain
  std::int64_t instructions = 0;                         // executed symbolically
  int depth = 0;                                         // the most frames that were open at once
  int starts_at = -1;    // where a region behind a break goes on: byte offset in the code of `function`
  int returned_at = -1;  // byte offset of the instruction of `function` that ends the region
  // Operators of libraries other than torch's own that the graph calls: those that are tagged as fit for compilation,
  // and the others.
  std::vector<py::Owned<>> compliant_operators, other_operators;
};

}  // namespace pellucid::region
