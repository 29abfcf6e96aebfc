// How to reach a value from the arguments of a region. A Source is one step from its
// base; the chain of bases ends in a root (Local, Free or Const). Sources are interned in
// a SourceTable, so equal paths are one pointer, and guards, emitted code and messages all
// name a value by that pointer.
//
//   L['self']._modules['h'][0]  =  Item(DictItem(InstanceAttr(Local(0), "_modules"), "h"), 0)
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "py/ref.h"

namespace pellucid::source {

enum class Step : std::uint8_t {
#define SOURCE(kind, operand, printed) kind,
#include "source/sources.def"
};

struct Source {
  Step step;
  const Source* base;   // null for roots
  py::Owned<> operand;  // name, key, or the object itself (Const); may be empty
  std::int64_t index;   // local slot, free variable or item index; -1 when unused
  int id;               // position in the table: parents have smaller ids than children

  const Source* root() const noexcept {
    const Source* s = this;
    while (s->base != nullptr) s = s->base;
    return s;
  }
};

class SourceTable {
 public:
  SourceTable() = default;
  SourceTable(const SourceTable&) = delete;
  SourceTable& operator=(const SourceTable&) = delete;

  const Source* local(int slot, PyObject* name);  // slot in the entry's co_varnames arguments
  const Source* free(int index, PyObject* name);  // the cell object of free variable `index` of the entry function
  const Source* constant(PyObject* object);       // an object known by identity; the table holds it
  const Source* drawn();                          // the random numbers of this call
  const Source* instance_attr(const Source* base, PyObject* name);
  const Source* dict_of(const Source* base);
  const Source* item(const Source* base, std::int64_t index);
  const Source* dict_item(const Source* base, PyObject* key);  // dict_item(dict_of(x), str k) is instance_attr(x, k)
  const Source* member(const Source* base,
                       PyObject* name);  // slot or C-level getset attribute, read through its descriptor
  const Source* cell_contents(const Source* base);
  const Source* size_of(const Source* tensor, std::int64_t dim);  // of an array, too
  const Source* stride_of(const Source* tensor, std::int64_t dim);
  const Source* plain(const Source* tensor);
  const Source* over_array(const Source* array);
  const Source* function_mode(std::int64_t index);  // of torch, the outermost first
  const Source* part(const Source* iterator, std::int64_t index);
  const Source* ahead(const Source* iterator, std::int64_t count);
  const Source* value_ahead(const Source* iterator, std::int64_t count);

  std::size_t size() const noexcept { return all_.size(); }
  const Source* at(std::size_t id) const noexcept { return all_[id].get(); }

 private:
  const Source* intern(Step step, const Source* base, PyObject* operand, std::int64_t index);
  struct Key {
    Step step;
    const Source* base;
    PyObject* operand;  // by identity; strings are interned, other keys are looked up by equality first
    std::int64_t index;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& k) const noexcept;
  };
  py::Owned<> canonical(PyObject* key);  // one object for all equal keys of builtin immutable types
  std::unordered_map<Key, const Source*, Hash> by_key_;
  py::Owned<> keys_;  // {(type(key), key): key}
  std::vector<std::unique_ptr<Source>> all_;
};

// "L['x'].weight[0]": Python source of the path (G[...] for globals reached from a Const dict that is a
// module's namespace). Never raises.
std::string print(const Source* source);

// The same with G for these globals alone; another module's read "vars(builtins)['len']".
std::string print_from(const Source* source, const PyObject* globals);

// The same, with the text of roots, and of keys that are not plain constants, chosen by the caller ("" leaves it to
// print): code to be evaluated needs other roots than messages.
using RootText = std::function<std::string(const Source*)>;
std::string print(const Source* source, const RootText& root_text);

// Prints many sources: what several begin with is printed once.
class Printer {
 public:
  explicit Printer(RootText root_text) : root_text_(std::move(root_text)) {}
  static Printer from(const PyObject* globals);  // as print_from()
  const std::string& text_of(const Source* source);

 private:
  RootText root_text_;
  std::unordered_map<const Source*, std::string> texts_;
};

// Name of the imported module whose namespace this dict is; "" for any other object. Never raises.
std::string module_of_namespace(PyObject* object);

// "torch.nn.modules.linear.Linear", "'h'", "<dict at 0x7f…>": names an object without running user code.
std::string describe(PyObject* object);

// Reads the value with CPython's own operations, without running Python code and without side effects.
// `locals` are the entry's arguments in co_varnames order, `closure` its tuple of cells or null.
// Returns an empty Owned (no error pending) when a step does not exist any more.
py::Owned<> evaluate(const Source* source, PyObject* const* locals, PyObject* closure);

// The hot form of evaluate_step: a borrowed value, null when the step does not exist. `fresh` holds the reference when
// the value may have no other owner (Member, deque items, sizes).
PyObject* load_step(const Source& source, PyObject* base_value, PyObject* const* locals, PyObject* closure,
                    py::Owned<>& fresh) noexcept;

// Size or Stride: what they give is a number of 64 bits, which has no identity.
constexpr bool is_of_layout(Step step) noexcept { return step == Step::Size || step == Step::Stride; }
// Such a step without a Python int; false: it does not exist.
bool load_number(const Source& source, PyObject* tensor, std::int64_t* out) noexcept;

// The C function (iterator, index) or (tensor, dim) that takes a step Part, Ahead, ValueAhead, FunctionMode, Size,
// Stride or Plain; LookupError when it does not exist.
py::Owned<> step_function(Step step);
// "PART", "AHEAD", "VALUE_AHEAD", "size_of", "stride_of", "plain_alias", "FUNCTION_MODE"; null: no such step.
const char* step_function_name(Step step) noexcept;

// len() of a list, tuple, dict, set, frozenset, deque or a subclass, never calling __len__; -1 for anything else.
std::int64_t native_length(PyObject* object) noexcept;

// One step of evaluate: the child of `base_value` (null for roots).
py::Owned<> evaluate_step(const Source* source, PyObject* base_value, PyObject* const* locals, PyObject* closure);

}  // namespace pellucid::source
