// Torch functions over fakes: real tensors are lifted to placeholders, what a function computes becomes a node.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "aten/aten.h"
#include "region/body_recorder.h"
#include "region/capture.h"
#include "region/input_names.h"
#include "region/node_sizes.h"
#include "region/result.h"
#include "region/sparse_inputs.h"
#include "region/subclasses.h"
#include "region/wrapper_subclasses.h"

namespace pellucid::region {

struct Region;

// The call of the program as it stands there; empty: it has no such words.
std::string words_of_call(const graph::CallSite& where);

// Levels of torch.func that the region opens. They are the thread's: a region cannot end between.
struct OpenLevels {
  // The steps of the program's own code that led to levels which were opened first, the last one at the end. The region
  // may end before each of these instead.
  std::vector<std::int64_t> led_by;
  int left = 0;  // for a while: the region cannot end until these are entered again
  // Of these, what torch took off its stack, and the nodes that do so in the graph.
  std::vector<std::pair<py::Owned<>, graph::Node*>> taken_off;
  void note_opening(const Region& region);
};

// Arrays have no checkpoint: what a graph has written to one from outside stays, so no node behind it may raise.
struct ArrayMemory {
  bool is_written = false;
  // For backends that compile: the fake tensor that stands for an array, with which torch's functions compute. For
  // others: one that has the sizes of an array, where one of these is open.
  std::unordered_map<PyObject*, py::Owned<>> tensors;
  std::vector<const void*> storages;  // of fakes whose memory is that of an array; they are kept
  bool is_noted = false;              // what the call that is being recorded does to arrays is known
};

// While a call is recorded of which it is known what it does to arrays: any other may write to them, now or later.
class NotesArrays {
 public:
  explicit NotesArrays(ArrayMemory& arrays) : arrays_(arrays), before_(std::exchange(arrays.is_noted, true)) {}
  ~NotesArrays() { arrays_.is_noted = before_; }
  NotesArrays(const NotesArrays&) = delete;
  NotesArrays& operator=(const NotesArrays&) = delete;

 private:
  ArrayMemory& arrays_;
  bool before_;
};

class Recorder {
 public:
  explicit Recorder(Region& region);

  // Calls a torch callable on fakes and records it. `op` and `target` say how the node looks.
  Result torch_call(graph::Op op, PyObject* callable, PyObject* target, Args args);
  graph::Node* record(graph::Op op, PyObject* target, Args args, PyObject* example, bool impure,
                      bool may_raise = false);
  void give(PyObject* value, graph::Node* node);  // the node computes this tensor or array
  // A node computes these; gives what they are to the program.
  py::Owned<> unpack(PyObject* value, graph::Node* owner, const std::shared_ptr<const graph::CallSite>& site);

  // Real tensors below become fakes (placeholders on first use); containers are copied when they hold any.
  py::Owned<> to_fake(PyObject* value);
  py::Owned<> lift(PyObject* tensor);  // the fake of one tensor
  // A new object of this class over a fake that the region made, as Tensor.as_subclass gives it.
  py::Owned<> as_class(PyObject* fake, PyTypeObject* type);
  PyObject* fake_or_itself(PyObject* tensor) const;    // borrowed; itself while it has no fake
  PyObject* tensor_behind(PyObject* fake) const;       // borrowed; the fake itself where the region made it
  graph::Arg to_arg(PyObject* value);                  // node, constant or container of these
  py::Owned<> from_torch(PyObject* value);             // sizes as torch gives them, as numbers of the region
  graph::Node* node_of(PyObject* tensor) const;        // null: no node computes it
  std::shared_ptr<const graph::CallSite> call_site();  // where the program is

  void keep_size_inputs();  // at the end, when it is known which sizes are open

  // The region made gradients accumulate in this tensor, or made it a parameter.
  void note_leaf(PyObject* fake, const std::string& operation);

  aten::FakeScope& fakes() { return *fakes_; }
  // Context managers of torch entered in the region -> the node that enters.
  std::unordered_map<PyObject*, graph::Node*> contexts;
  OpenLevels levels;
  ArrayMemory arrays;
  InputNames input_names;
  BodyRecorder bodies;
  WrapperSubclasses wrappers;
  NodeSizes sizes;
  SparseInputs sparse;
  std::int64_t leaves_before = -1;  // the step before which leaves may be made and tensors moved; -1: everywhere

 private:
  graph::Node* number_node(PyObject* number);
  void check_subclass(PyObject* tensor);
  void check_alias(PyObject* fake, std::uint32_t version);
  void add_size_inputs(const aten::OpenShape& shape);
  py::Owned<> key_at_hand(PyObject* key);
  py::Owned<> torch_number(PyObject* number);
  const symbolic::Expr* given_number(PyObject* value) const;
  void fix_reshaped(const std::vector<std::pair<PyObject*, std::uint32_t>>& tensors);
  struct TorchArguments;
  TorchArguments arguments_of(PyObject* target, Args args, bool may_be_open);
  py::Owned<> fake_of_made(PyObject* made);
  Result wrap_result(graph::Op op, PyObject* target, Args args, py::Owned<> result, bool mutated);
  void set_node(PyObject* tensor, graph::Node* node);
  graph::Node* array_node(PyObject* array);

  Region& region_;
  std::unique_ptr<aten::FakeScope> fakes_;
  std::unordered_map<PyObject*, py::Owned<>> fake_of_;  // real, or of a subclass -> fake
  std::unordered_map<PyObject*, PyObject*> real_of_;    // the other way
  WrittenInstances instances_;
  std::unordered_map<PyObject*, py::Owned<>> torch_numbers_;  // open number -> torch.SymInt
};

// The sizes of an array as expressions; nothing where they are those at hand.
std::vector<const symbolic::Expr*> open_sizes_of_array(Region& region, PyObject* array);

// What does the same on fakes as a function of torch that takes plain ints alone, or reads plain sizes. `ints`: there
// are open ones among its arguments. Borrowed; the function itself where there is none.
PyObject* for_open(PyObject* callable, bool ints);

// Whether this names a fact about a tensor that no guard on it covers and that a fake need not share with it.
bool reads_unguarded_state(PyObject* name);

// Where the region has to end before it makes a tensor that gradients are accumulated in. Asked before anything is
// recorded.
void refuse_lost_leaf(const Region& region, const std::string& operation);

}  // namespace pellucid::region
