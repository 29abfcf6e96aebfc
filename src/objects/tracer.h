// The state of one capture and the tracked operations on Python objects: what is read from an object that existed
// before the region is guarded, what is written goes to a shadow, what a torch function computes becomes a node. Opcode
// rules (trace) and function rules (handlers) are written in terms of these operations.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "aten/aten.h"
#include "base/reasons.h"
#include "objects/capture.h"
#include "objects/frame.h"
#include "objects/types.h"
#include "py/ref.h"

namespace pellucid::objects {

using guards::Kind;
using source::Source;

// The outcome of an operation: a value at once; a frame was pushed, and what becomes of its result waits in its `then`;
// or the program raised (Tracer::exception holds the instance). Tracer::and_then goes on from any of these.
struct Result {
  enum class Did : std::uint8_t { Value, Pushed, Raised, Done } did = Did::Value;  // Done: nothing to push
  py::Owned<> value;
  Frame* frame = nullptr;  // Pushed: the frame whose result is the operation's; others may be above it already
  static Result of(py::Owned<> v) { return {Did::Value, std::move(v)}; }
  static Result none() { return of(py::Owned<>::share(Py_None)); }
  static Result boolean(bool b) { return of(py::Owned<>::share(b ? Py_True : Py_False)); }
  static Result pushed(Frame* frame) { return {Did::Pushed, {}, frame}; }
  static Result raised() { return {Did::Raised, {}}; }
  static Result done() { return {Did::Done, {}}; }
  bool is_value() const noexcept { return did == Did::Value; }
};

// Arguments of a call: positional first, then the values of the keywords named in kwnames (a tuple or null).
struct Args {
  std::span<PyObject* const> values;
  PyObject* kwnames = nullptr;
  std::size_t keyword_count() const noexcept {
    return kwnames == nullptr ? 0 : static_cast<std::size_t>(PyTuple_GET_SIZE(kwnames));
  }
  std::size_t size() const noexcept { return values.size() - keyword_count(); }
  PyObject* operator[](std::size_t i) const { return values[i]; }
  std::span<PyObject* const> positional() const { return values.first(size()); }
  PyObject* keyword(const char* name) const;  // borrowed or null
};

// What deep_touch found below a value.
struct Contents {
  bool tensor = false;    // a tensor, real or fake
  bool user = false;      // an object that may run Python code in C-level operations, or a generator of the region
  bool shadowed = false;  // a container that has a shadow, below the top
};

class Tracer {
 public:
  Tracer(PyFunctionObject* function, PyCodeObject* code);
  virtual ~Tracer();
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  // ---- executor, implemented by the room trace
  virtual Result call(PyObject* callable, Args args) = 0;
  virtual Frame* top() = 0;
  // What `next` makes of the outcome of an operation, which never says itself what becomes of it: at once of a value or
  // a raised exception; behind all that waits already when a frame was pushed; nothing when there is nothing to push.
  virtual Result and_then(Result result, Continuation next) = 0;

  virtual PyObject* topmost_handled() = 0;  // the exception that the region handles; borrowed or null

  // ---- protocols: Python's operators on any object
  virtual Result binary(PyObject* left, PyObject* right, int op) = 0;   // op as in BINARY_OP
  virtual Result compare(PyObject* left, PyObject* right, int op) = 0;  // Py_LT …
  virtual Result unary(PyObject* value, int opcode) = 0;
  virtual Result truth(PyObject* value) = 0;  // a bool
  virtual Result contains(PyObject* container, PyObject* item) = 0;
  virtual Result subscript(PyObject* container, PyObject* key) = 0;
  virtual Result store_subscript(PyObject* container, PyObject* key, PyObject* value) = 0;  // null value deletes
  virtual Result iterate(PyObject* iterable) = 0;                                           // iter(x)
  virtual Result next(PyObject* iterator) = 0;                                              // raises StopIteration
  virtual Result length(PyObject* value) = 0;
  virtual Result to_text(PyObject* value, const char* how) = 0;  // __str__, __repr__
  virtual Result format(PyObject* value, PyObject* spec) = 0;
  // A tuple of all elements when that needs no Python code; null when `value` must be iterated by a polyfill.
  virtual py::Owned<> native_elements(PyObject* value) = 0;
  virtual Result is_instance(PyObject* object, PyObject* type, bool subclass) = 0;
  virtual Result resume(PyObject* generator, PyObject* value) = 0;
  virtual Result throw_into(PyObject* generator, py::Owned<> instance) = 0;
  virtual Result close(PyObject* generator) = 0;
  // A generator that existed before goes on in the region as its twin; null: not one, or it cannot be read.
  virtual PyObject* twin_of_generator(PyObject* generator) = 0;
  virtual PyObject* known_twin(PyObject* generator) const = 0;  // null: the region did nothing with it
  // A generator that the region knows, alone or in containers: suspended in a block.
  virtual bool would_run_when_lost(PyObject* value, int depth = 0) = 0;
  virtual Result inline_function(PyObject* function, Args args) = 0;
  virtual Result make_instance(PyObject* type, Args args) = 0;  // __new__, then __init__

  // The result of setattr, setitem and their like (nothing to push) as that of a call which gives None.
  Result as_none(Result result);
  Result call1(PyObject* callable, PyObject* a);
  Result call2(PyObject* callable, PyObject* a, PyObject* b);
  Result call3(PyObject* callable, PyObject* a, PyObject* b, PyObject* c);
  Result call_polyfill(const char* name, std::span<PyObject* const> args);

  Result call_polyfill(const char* name, Args args);

  // ---- the program's exceptions
  Result raise(py::Owned<> instance);  // with __context__ from what is being handled
  Result raise(PyObject* type, const std::string& message);
  Result raise_name_error(PyObject* name, const std::string& message);
  Result raise_pending(const py::PythonError& error);  // an exception of a C function that ran for real
  py::Owned<> exception;                               // set while Raised travels

  // ---- provenance (provenance.cpp)
  const Source* source_of(PyObject* object) const;  // null: made by the region
  bool is_outside(PyObject* object) const { return source_of(object) != nullptr; }
  void saw(PyObject* value,
           const Source* source);      // `value` was read from there: guard it, remember where it came from
  void saw_constant(PyObject* value);  // known by identity through something already guarded (a class attribute)
  std::string module_path(const Source* source) const;  // "L['self'].h.0": as the program read the module last
  void guard(Kind kind, const Source* source, py::Owned<> operand = {}, std::int64_t number = 0,
             const Source* other = nullptr);
  void keep(PyObject* object);  // alive until the capture is dropped
  // A break when its end would run code of the program: the guards of a set keep its elements alive.
  void refuse_to_hold(PyObject* value);
  // A value that is alive where the region begins, of which the frames have so many references.
  void takes_over(PyObject* value, const Source* source, Py_ssize_t references);
  bool run_together = false;  // what these values hold together runs code when all of them go
  bool has_let_go() const { return let_go_; }
  // Nothing is handled by the frames that called the region, nor will be in later calls; a break when something is.
  void guard_not_handling(const std::string& reader);
  void guard_function(PyObject* function);  // __code__, defaults, kwdefaults as they are now

  // ---- containers from outside (containers.cpp). `readable` is what C code may look at once its contents were
  // touched.
  PyObject* readable(PyObject* container);     // the shadow when there is one, else the object
  PyObject* original(PyObject* maybe_shadow);  // the object a shadow stands for, else the object
  PyObject* touch(PyObject* container);        // guards length/keys and registers every element; returns readable()
  PyObject* view_of(
      PyObject* container);  // what a live view or iterator may hold: later writes of the region show in it
  PyObject* writable(PyObject* container);  // touch, then the shadow (fresh objects: themselves)
  PyObject* growable(PyObject* container);  // the same for what takes nothing out
  Contents deep_touch(PyObject* value);     // touch everything below; what is there
  bool is_shadowed(PyObject* container) const { return shadows_.contains(container); }

  std::int64_t length_of(PyObject* container);  // guarded; -1 when the kind has no C-level length
  Result dict_get(PyObject* dict, PyObject* key,
                  bool* found);  // no __missing__; guarded presence; value {} when absent
  bool dict_contains(PyObject* dict, PyObject* key);
  void dict_set(PyObject* dict, PyObject* key, PyObject* value);  // value null deletes (key must be there)
  PyObject* sequence_item(PyObject* sequence, Py_ssize_t index);  // list/tuple/deque, in range; borrowed
  bool hashable_natively(PyObject* key);                          // hashing and comparing runs no Python code
  bool same(PyObject* a, PyObject* b);                            // `is`, guarded
  // Keys that are found by identity: which object `key`, or a part of it, is.
  void guard_key(PyObject* container, PyObject* key, bool part = false);

  // ---- iterators that existed before (iterators.cpp): they stay as they are; how far they get is an effect at the end
  // The next element, or null at the end. Throws GraphBreak when nobody knows what advancing it does.
  py::Owned<> next_of_outside(PyObject* iterator) { return next_of_outside(iterator, 0); }
  // All that are left, as a tuple.
  py::Owned<> rest_of_outside(PyObject* iterator);
  // The function and the iterators of a map or filter; of each the source is known now.
  const std::vector<py::Owned<>>& parts_of_outside(PyObject* iterator);
  // A dict_keys, dict_values or dict_items from outside, over what the region reads and writes; null: not one of these.
  py::Owned<> view_of_outside(PyObject* view);
  void walks(PyObject* container, PyObject* walker);  // an iterator or view that the region made, of the container
  bool is_known_iterator(PyObject* iterator) const;   // whether what it does is known, all the way down
  // A GraphBreak leaves the frame at the start of its instruction: iterators go back to where they were then.
  void undo_unfinished();

  // ---- cells
  PyObject* cell_get(PyObject* cell);              // borrowed or null when empty
  void cell_set(PyObject* cell, PyObject* value);  // null empties

  // ---- attributes (attributes.cpp)
  Result getattr(PyObject* object, PyObject* name);
  // LOAD_METHOD: when the attribute is a plain function or method descriptor found on the type, gives it unbound and
  // sets *unbound.
  Result getattr_method(PyObject* object, PyObject* name, bool* unbound);
  Result setattr(PyObject* object, PyObject* name, PyObject* value);  // null value deletes; user __setattr__ is called
  Result generic_getattr(PyObject* object, PyObject* name);           // object.__getattribute__
  Result generic_setattr(PyObject* object, PyObject* name, PyObject* value);  // object.__setattr__
  Result type_setattr(PyObject* type, PyObject* name, PyObject* value);       // type.__setattr__
  PyObject* type_lookup(PyTypeObject* type, PyObject* name);                  // guarded MRO look-up; borrowed or null
  PyObject* type_lookup(PyTypeObject* type, const char* name);
  // The same from the `first` class of the MRO on, each class's own dict guarded: as super() looks up, and in classes
  // that the region makes or changes.
  PyObject* mro_lookup(PyTypeObject* type, Py_ssize_t first, PyObject* name);
  void guard_mro(PyTypeObject* type);
  PyObject* instance_get(PyObject* object, PyObject* name);  // entry of the instance dict, guarded; borrowed or null
  Result instance_dict(PyObject* object);                    // obj.__dict__
  Result type_getattr(PyObject* type, PyObject* name);
  Result bind(PyObject* descriptor, PyObject* object, PyObject* type);  // descriptor.__get__
  Result named(Result bound, PyObject* descriptor, PyObject* object, PyObject* name);
  // type(object).name(object, *args); the type has `name`.
  Result special(PyObject* object, const char* name, std::span<PyObject* const> args);

  // ---- tensors (tensors.cpp)
  py::Owned<> to_fake(PyObject* value);  // real tensors below become fakes (placeholders on first use); containers are
                                         // copied when they hold any
  py::Owned<> lift(PyObject* tensor);    // the fake of one tensor
  // Calls a torch callable on fakes and records it. `op` and `target` say how the node looks.
  Result torch_call(graph::Op op, PyObject* callable, PyObject* target, Args args);
  Result tensor_getattr(PyObject* tensor, PyObject* name);
  graph::Arg to_arg(PyObject* value);  // node, constant or container of these
  graph::Node* node_of(PyObject* fake) const;
  std::shared_ptr<const graph::CallSite> call_site();
  graph::Node* record(graph::Op op, PyObject* target, Args args, PyObject* example, bool impure);

  // ---- effects
  void defer_call(PyObject* callable, PyObject* args, PyObject* kwargs);  // logging: happens after the graph call
  // The same for a callable that may look at what the region has changed: the changes up to here come first.
  void defer_call_in_order(PyObject* callable, PyObject* args, PyObject* kwargs);
  py::Owned<> reorderable;  // config.reorderable_logging_functions as a tuple; empty when there are none
  std::unique_ptr<Capture> finish(py::Owned<> result);  // net effects, aliasing guards; the tracer is done afterwards

  Capture& capture() { return *capture_; }
  aten::FakeScope& fakes() { return *fakes_; }
  [[noreturn]] void unsupported(Reason reason, std::initializer_list<Field> fields) {
    throw GraphBreak(reason, fields);
  }
  std::unordered_map<PyObject*, graph::Node*>
      contexts;  // context managers of torch entered in the region -> the node that enters
  std::unordered_set<PyObject*> made_functions;  // functions, cells and classes made by the region
  bool is_made(PyObject* object) const { return made_functions.contains(object); }
  void made(PyObject* object);  // a new function, cell or class

  // The program asks something that objects and frames that are built again answer differently.
  bool cannot_be_built_again = false;
  const char* doing = "runs";  // what the current operation is, for guard messages
  std::int64_t steps = 0;      // instructions executed so far

 protected:
  struct Shadow {
    py::Owned<> object;   // the copy that capture reads and writes
    py::Owned<> written;  // dicts: {key: key} that the region wrote or deleted (reading them needs no guard)
    bool keys_guarded = false;
    bool changed = false;
  };
  struct IteratorState {
    std::int64_t taken = 0;
    bool ended = false;
    std::int64_t step = -1;  // the instruction that changed it last …
    std::int64_t taken_before = 0;
    bool ended_before = false;  // … and what it was before that
  };
  py::Owned<> next_of_outside(PyObject* iterator, int depth);
  py::Owned<> next_of_enumerate(PyObject* iterator, int depth);
  py::Owned<> next_of_zip(PyObject* iterator, int depth);
  py::Owned<> next_of_simple(PyObject* iterator, const Source* source);
  py::Owned<> next_of_changed_list(PyObject* iterator, const Source* source, PyObject* list);
  py::Owned<> item_ahead(PyObject* iterator, std::int64_t ahead, const Shadow* changed);
  py::Owned<> part_of_outside(PyObject* iterator, std::int64_t index);
  void has_moved(PyObject* iterator, bool ended);
  void refuse_in_use(PyObject* container);
  void guard_same_keys(PyObject* iterator, PyObject* dict, const Shadow& shadow);
  Shadow& shadow_of(PyObject* container, bool touch_all);
  bool written(const Shadow& shadow, PyObject* key) const;
  void guard_replay(PyObject* dict, const Shadow& shadow, PyObject* key, PyObject* value, bool again);
  void guard_presence(PyObject* dict, PyObject* key);
  void touch_dict(PyObject* dict, const Source* source, const Shadow* shadow);
  Contents deep_touch_inner(PyObject* value, int depth, std::unordered_set<PyObject*>& seen);
  void changes_until_now(std::vector<Effect>& out, bool as_copies);
  void watch_late_tensors(PyObject* value);
  void freeze_late_tensors();
  void put_frozen_tensors();
  void add_aliasing_guards();
  void guard_distinct(const std::vector<const Source*>& sources);
  void add_effects();
  struct AttributeWrite {
    py::Owned<> name, value;  // no value: deleted
    bool was_there;           // before the region; known of what is deleted
  };
  const AttributeWrite* written_attribute(PyObject* object, PyObject* name) const;  // a slot or class attribute
  // What the region writes over or takes out (dropped.cpp): a break when that would run code of the program, else
  // guards that it does not.
  bool lets_go(PyObject* value);
  void lets_go_of_entry(const Source* dict, PyObject* key, PyObject* before);  // null: there is none
  void lets_go_of_slot(PyObject* object, PyObject* slot, PyObject* before);
  void lets_go_of_contents(PyObject* cell);
  void lets_go_of_walked(PyObject* iterator);  // one that comes to its end
  void lets_go_of_item(PyObject* item);
  void lets_go_of_item_at(PyObject* list, PyObject* index);
  void lets_go_of_items(PyObject* container);
  void write_attribute(PyObject* object, PyObject* name, PyObject* value, bool was_there = true);
  bool delete_attribute(PyObject* object, PyObject* name, bool was_there);
  bool changes_classes_of(PyTypeObject* type) const;
  Result class_setattr(PyObject* type, PyObject* name, PyObject* value);
  Result slot_setattr(PyObject* object, PyObject* slot, PyObject* name, PyObject* value);
  Result super_getattr(PyObject* super, PyObject* name);
  Result module_getattr(PyObject* module, PyObject* name);
  Result native_attribute(PyObject* object, PyObject* name);
  Result enum_attribute(PyObject* member, PyObject* name);
  void guard_generic_getattr(PyTypeObject* type);
  Result attribute_error(PyObject* object, PyObject* name, bool told = true);
  Result wrap_torch_result(graph::Op op, PyObject* target, Args args, py::Owned<> result, bool mutated);

  std::unique_ptr<Capture> capture_;
  std::unique_ptr<aten::FakeScope> fakes_;
  std::unordered_map<PyObject*, Shadow> shadows_;           // original -> shadow
  std::unordered_map<PyObject*, PyObject*> shadowed_by_;    // shadow -> original
  std::unordered_map<PyObject*, py::Owned<>> cell_values_;  // outside cells that were written: value or empty
  std::unordered_map<PyObject*, py::Owned<>> fake_of_;      // real -> fake
  std::unordered_map<PyObject*, PyObject*> real_of_;        // fake -> real
  std::unordered_set<PyObject*> touched_;
  std::unordered_set<const Source*> looked_up_;               // (type, name) pairs with a TYPE_LOOKUP guard
  std::unordered_map<const Source*, const Source*> seen_as_;  // of an object met by several paths -> the newest path
  std::unordered_map<PyObject*, std::vector<AttributeWrite>> attribute_effects_;  // of slots and classes, by object
  std::vector<PyObject*> order_of_attribute_effects_;
  bool classes_changed_ = false;
  std::unordered_map<PyObject*, py::Owned<>> generators_;  // from outside -> the TracedGenerator that goes on with it
  std::vector<PyObject*> order_of_generators_;
  std::unordered_map<PyObject*, IteratorState> iterators_;  // from outside, those that the region advanced
  std::vector<PyObject*> order_of_iterators_;
  std::unordered_map<PyObject*, std::vector<py::Owned<>>> iterator_parts_;
  std::vector<std::pair<PyObject*, py::Owned<>>> walkers_;
  std::unordered_set<PyObject*> drained_;  // containers out of which something may have been taken
  struct TakenOver {
    PyObject* value;
    const Source* source;
    Py_ssize_t references;
    bool runs;                          // code of the program when it goes …
    std::vector<PyObject*> generators;  // … or these do, in their `finally`; they may come to their end before
  };
  void lost(const TakenOver& taken);  // in the region: a break when that runs code, else a guard that it does not
  std::vector<TakenOver> taken_over_;
  bool let_go_ = false;
  std::int64_t took_all_at_ = -1;      // the instruction that took all elements of one at once
  std::vector<Effect> closed_frames_;  // of frame objects from outside
  std::vector<Effect> deferred_;
  // A tensor that a deferred call gets. When the region writes into it later, the call gets a copy made before.
  struct LateTensor {
    std::size_t call;  // index in deferred_
    py::Owned<> tensor, frozen;
    std::uint32_t version;
    std::vector<std::int64_t> sizes;
  };
  std::vector<LateTensor> late_tensors_;
  std::vector<PyObject*> order_of_shadows_;
  std::vector<PyObject*> outside_;  // in order of first sight, mutable ones
  std::vector<PyObject*> keys_;     // objects from outside that C code told apart by identity
};

// Name tables used all over: interned once.
struct Names {
#define NAME(n) PyObject* n;
#define NAME_AS(n, text) PyObject* n;
#include "objects/names.def"
};
const Names& names();
void initialise_objects();

// Whether dict(x), d.update(x) and {**x} take what lies in the storage of `x` (dict_merge in dictobject.c): a subclass
// that iterates in its own way is asked for its keys() and items.
bool merges_as_dict(Tracer& tracer, PyObject* object);
// Whether list(x) and the like run Python code to learn how many elements there may be.
bool has_python_length(Tracer& tracer, PyObject* object);

}  // namespace pellucid::objects
