#include "region/known_elements.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "aten/elements.h"
#include "base/digest.h"
#include "py/gil.h"
#include "py/interrupts.h"
#include "region/node_tensors.h"
#include "region/objects.h"
#include "region/region.h"

namespace pellucid::region {

namespace {

constexpr Py_ssize_t kMostBytes = 16384;         // of a tensor from outside: it is compared at each call
constexpr std::size_t kMostNodes = 1000;         // that are run once more for one question
constexpr std::int64_t kMostElements = 1 << 20;  // of what they give

// In the place of a path: where the history of a function has that tensors from outside change, and what a setup of a
// capture names that goes by elements.
constexpr PathHash kElements = 0x656c656d656e7473;

std::uint64_t digest_of(PyObject* bytes) {
  const std::string made = digest({PyBytes_AS_STRING(bytes), static_cast<std::size_t>(PyBytes_GET_SIZE(bytes))});
  std::uint64_t half = 0;
  std::memcpy(&half, made.data(), sizeof half);
  return half;
}

// The nodes that compute a tensor, and the tensors from outside that they begin with.
class Slice {
 public:
  explicit Slice(Region& region) : region_(region) {}

  bool find(PyObject* fake);  // false: there is none that could be run
  py::Owned<> run(PyObject* fake);
  void guard() const;

 private:
  bool add_inputs();
  void add_writes();
  bool take_leaf(PyObject* real);
  bool copy_leaves();
  py::Owned<> value_of(const graph::Arg& arg) const;
  py::Owned<> run_node(const graph::Node& node) const;
  bool agrees(PyObject* example, PyObject* value) const;

  Region& region_;
  std::unordered_set<const graph::Node*> all_;
  std::unordered_set<const void*> storages_;  // of what they compute
  std::vector<PyObject*> leaves_;
  bool writes_ = false;
  const graph::Node* last_ = nullptr;  // null: the tensor is from outside itself
  std::unordered_map<const graph::Node*, py::Owned<>> values_;
};

bool Slice::find(PyObject* fake) {
  PyObject* const real = region_.recorder.tensor_behind(fake);
  last_ = region_.recorder.node_of(fake);
  if (last_ == nullptr) last_ = region_.recorder.node_of(real);
  if (last_ == nullptr || last_->op == graph::Op::Placeholder) {
    last_ = nullptr;
    storages_.insert(aten::meta_of(fake).storage);
    if (real == fake || !take_leaf(real)) return false;
  } else {
    all_.insert(last_);
  }
  std::size_t before = 0;
  do {
    before = all_.size();
    if (!add_inputs()) return false;
    add_writes();
  } while (all_.size() != before);
  // What the region writes to a tensor from outside is not in it while it is captured.
  return last_ != nullptr || all_.empty();
}

// Functions of torch itself and Python's operators, which do the same with the same elements and nothing else.
bool may_run(PyObject* function) {
  if (Py_IS_TYPE(function, &PyMethodDescr_Type)) return true;
  const bool is_native = PyCFunction_Check(function);
  if (!is_native && !PyFunction_Check(function)) return false;
  auto module = py::Owned<>::steal(PyObject_GetAttrString(function, "__module__"));
  if (!module) PyErr_Clear();
  if (!module || !PyUnicode_Check(module.get())) return false;
  const std::string name = py::text_of(module.get());
  if (is_native) return name == "torch" || name.starts_with("torch._C.") || name == "_operator" || name == "builtins";
  return name == "torch" || name == "torch.functional" || name == "torch.nn.functional" || name == "torch._tensor";
}

bool may_run(const graph::Node& node) {
  if (node.random || node.body != nullptr || node.plain) return false;
  return node.op == graph::Op::CallMethod || (node.op == graph::Op::CallFunction && may_run(node.target.get()));
}

// Whatever nodes of the slice take is in it.
bool Slice::add_inputs() {
  std::vector<const graph::Node*> waiting(all_.begin(), all_.end());
  while (!waiting.empty()) {
    const graph::Node* node = waiting.back();
    waiting.pop_back();
    each_tensor_of(*node, [&](PyObject* tensor) {
      if (aten::is_fake(tensor)) storages_.insert(aten::meta_of(tensor).storage);
    });
    if (node->op == graph::Op::Placeholder) continue;
    if (!may_run(*node) || all_.size() > kMostNodes) return false;
    graph::for_each_input(*node, [&](const graph::Node* input) {
      if (all_.insert(input).second) waiting.push_back(input);
    });
  }
  return true;
}

// So is what writes to memory that is read there.
void Slice::add_writes() {
  for (const graph::Node* node : region_.capture->graph.nodes()) {
    if (!node->impure) continue;
    bool writes = false;
    each_storage_written(*node, [&](const void* storage) { writes |= storages_.contains(storage); });
    if (!writes) continue;
    writes_ = true;
    all_.insert(node);
  }
}

bool Slice::take_leaf(PyObject* real) {
  if (std::ranges::find(leaves_, real) != leaves_.end()) return true;
  const Source* source = region_.provenance.source_of(real);
  if (source == nullptr) return false;
  const auto bytes = aten::elements_of(real);
  if (!bytes || PyBytes_GET_SIZE(bytes.get()) > kMostBytes) return false;
  const SeenNumber* seen = region_.numbers.policy.history->find(hash_of(source));
  if (seen != nullptr && seen->bits != digest_of(bytes.get())) {
    stop_going_by_elements(*region_.capture);
    return false;
  }
  leaves_.push_back(real);
  return true;
}

void Slice::guard() const {
  if (!has_gone_by_elements(*region_.capture)) region_.capture->numbers.emplace_back(kElements, SeenNumber{});
  for (PyObject* real : leaves_) {
    const Source* source = region_.provenance.source_of(real);
    auto bytes = aten::elements_of(real);
    const SeenNumber seen{.bits = digest_of(bytes.get()), .pinned = true};
    region_.capture->numbers.emplace_back(hash_of(source), seen);
    region_.provenance.guard(Kind::TENSOR_ELEMENTS, source, std::move(bytes));
  }
}

bool Slice::copy_leaves() {
  std::unordered_set<const void*> memory;
  for (const graph::Node* node : all_) {
    if (node->op != graph::Op::Placeholder) continue;
    PyObject* const example = node->example_value.get();
    if (cat_of(example) != Cat::Tensor) return false;
    PyObject* const real = region_.recorder.tensor_behind(example);
    if (real == example || !take_leaf(real)) return false;
    // Two of one memory would have to be one copy.
    if (!memory.insert(aten::meta_of(example).storage).second && writes_) return false;
    values_[node] = py::take(PyObject_CallMethod(real, "clone", nullptr));
  }
  return true;
}

py::Owned<> Slice::run(PyObject* fake) {
  const aten::WithData outside;
  try {
    if (last_ == nullptr) {
      auto copy = py::take(PyObject_CallMethod(leaves_.front(), "clone", nullptr));
      return agrees(fake, copy.get()) ? std::move(copy) : py::Owned<>();
    }
    if (!copy_leaves()) return {};
    for (const graph::Node* node : region_.capture->graph.nodes()) {
      if (!all_.contains(node)) continue;
      py::Owned<>& value = values_[node];
      value = run_node(*node);
      if (!value || !agrees(node->example_value.get(), value.get())) return {};
    }
  } catch (const py::PythonError& error) {
    if (py::is_interruption(error.value())) throw;
    return {};
  }
  return values_.at(last_).copy();
}

py::Owned<> Slice::run_node(const graph::Node& node) const {
  const bool is_method = node.op == graph::Op::CallMethod;
  const std::size_t skipped = is_method ? 1 : 0;
  if (node.args.size() < skipped) return {};
  auto function = py::Owned<>::share(node.target.get());
  if (is_method) {
    const auto self = value_of(node.args.front());
    if (!self) return {};
    function = py::take(PyObject_GetAttr(self.get(), node.target.get()));
  }
  auto args = py::take(PyTuple_New(static_cast<Py_ssize_t>(node.args.size() - skipped)));
  for (std::size_t i = skipped; i < node.args.size(); ++i) {
    auto value = value_of(node.args[i]);
    if (!value) return {};
    PyTuple_SET_ITEM(args.get(), static_cast<Py_ssize_t>(i - skipped), value.release());
  }
  auto kwargs = py::take(PyDict_New());
  for (const auto& [name, arg] : node.kwargs) {
    const auto value = value_of(arg);
    if (!value) return {};
    py::check(PyDict_SetItem(kwargs.get(), name.get(), value.get()));
  }
  return py::take(PyObject_Call(function.get(), args.get(), kwargs.get()));
}

// Empty: it is nothing that torch takes outside of the capture.
py::Owned<> Slice::value_of(const graph::Arg& arg) const {
  using ArgKind = graph::Arg::Kind;
  switch (arg.kind) {
    case ArgKind::Node: {
      const auto found = values_.find(arg.node);
      return found == values_.end() ? py::Owned<>() : found->second.copy();
    }
    case ArgKind::Constant: {
      const Cat cat = cat_of(arg.constant.get());
      const bool is_foreign = cat == Cat::Tensor || cat == Cat::Array || cat == Cat::Symbolic;
      return is_foreign || is_number(arg.constant.get()) ? py::Owned<>() : arg.constant.copy();
    }
    case ArgKind::List:
    case ArgKind::Tuple:
    case ArgKind::Slice: {
      auto items = py::take(PyList_New(0));
      for (const graph::Arg& item : arg.items) {
        const auto value = value_of(item);
        if (!value) return {};
        py::check(PyList_Append(items.get(), value.get()));
      }
      if (arg.kind == ArgKind::List) return items;
      auto parts = py::take(PyList_AsTuple(items.get()));
      if (arg.kind == ArgKind::Tuple) return parts;
      const auto part = [&](Py_ssize_t i) { return PyTuple_GET_ITEM(parts.get(), i); };
      return py::take(PySlice_New(part(0), part(1), part(2)));
    }
    case ArgKind::Dict:
      return {};
  }
  return {};
}

// What the capture knows of a tensor is so of the one with data.
bool Slice::agrees(PyObject* example, PyObject* value) const {
  if (cat_of(example) != Cat::Tensor) return true;  // its parts are looked at one by one
  if (!aten::is_plain_tensor(value) || aten::is_fake(value)) return false;
  if (aten::is_fake(example) && !region_.recorder.fakes().open_shape(example).sizes.empty()) return false;
  const aten::Meta known = aten::meta_of(example), found = aten::meta_of(value);
  std::int64_t count = 1;
  for (const std::int64_t size : found.sizes) count *= size;
  if (known.sizes != found.sizes || count > kMostElements) return false;
  return std::ranges::all_of(std::initializer_list<const char*>{"dtype", "device"}, [&](const char* name) {
    const auto one = py::take(PyObject_GetAttrString(example, name));
    const auto other = py::take(PyObject_GetAttrString(value, name));
    return PyObject_RichCompareBool(one.get(), other.get(), Py_EQ) == 1;
  });
}

// The graph of a body has inputs of its own, and numpy writes where no node says it.
bool is_asleep(const Region& region) {
  const NumberHistory* history = region.numbers.policy.history;
  const SeenNumber* seen = history == nullptr ? nullptr : history->find(kElements);
  return history == nullptr || (seen != nullptr && seen->open) || region.capture->bodies->is_open() ||
         region.recorder.arrays.is_written;
}

// `value` with the elements in the place of the tensors that torch has taken as numbers, where it is one of these or
// holds some. `fake`: what torch got for it. Notes which were found.
py::Owned<> with_items(PyObject* value, PyObject* fake, const KnownItems& known, std::multiset<PyObject*>& found) {
  for (const auto& [tensor, number] : known) {
    if (tensor.get() != fake) continue;
    found.insert(fake);
    return number.copy();
  }
  const bool is_slice = PySlice_Check(value) && PySlice_Check(fake);
  const bool is_list = PyList_CheckExact(value) && PyList_CheckExact(fake);
  if (!is_slice && !is_list && !(PyTuple_CheckExact(value) && PyTuple_CheckExact(fake)))
    return py::Owned<>::share(value);
  const auto parts_of = [&](PyObject* whole) {
    const auto* slice = reinterpret_cast<PySliceObject*>(whole);
    return is_slice ? py::take(PyTuple_Pack(3, slice->start, slice->stop, slice->step))
                    : py::take(PySequence_Tuple(whole));
  };
  const auto parts = parts_of(value), fakes = parts_of(fake);
  const Py_ssize_t count = PyTuple_GET_SIZE(parts.get());
  if (count != PyTuple_GET_SIZE(fakes.get())) return py::Owned<>::share(value);
  const std::size_t before = found.size();
  auto made = py::take(PyTuple_New(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    auto part = with_items(PyTuple_GET_ITEM(parts.get(), i), PyTuple_GET_ITEM(fakes.get(), i), known, found);
    PyTuple_SET_ITEM(made.get(), i, part.release());
  }
  if (found.size() == before) return py::Owned<>::share(value);
  if (is_list) return py::take(PySequence_List(made.get()));
  const auto part = [&](Py_ssize_t i) { return PyTuple_GET_ITEM(made.get(), i); };
  return is_slice ? py::take(PySlice_New(part(0), part(1), part(2))) : std::move(made);
}

}  // namespace

py::Owned<> known_elements(Region& region, PyObject* fake) {
  if (is_asleep(region)) return {};
  Slice slice(region);
  auto known = slice.find(fake) ? slice.run(fake) : py::Owned<>();
  if (known) slice.guard();
  return known;
}

py::Owned<> known_result(Region& region, PyObject* function, const std::vector<PyObject*>& values, std::size_t nargs,
                         PyObject* kwnames) {
  if (!may_run(function) || aten::facts_so_far().random) return {};
  std::vector<py::Owned<>> held;
  std::vector<PyObject*> given;
  std::unordered_set<const void*> memory;
  std::vector<std::uint32_t> versions;
  for (PyObject* value : values) {
    const Cat cat = cat_of(value);
    if (cat != Cat::Tensor && (is_number(value) || !is_atom(cat))) return {};
    held.push_back(cat == Cat::Tensor ? known_elements(region, value) : py::Owned<>::share(value));
    if (!held.back()) return {};
    given.push_back(held.back().get());
    versions.push_back(cat == Cat::Tensor ? aten::version_of(given.back()) : 0);
    if (cat == Cat::Tensor) memory.insert(aten::meta_of(given.back()).storage);
  }
  if (memory.empty()) return {};
  const aten::WithData outside;
  try {
    const auto result = py::take(PyObject_Vectorcall(function, given.data(), nargs, kwnames));
    if (cat_of(result.get()) != Cat::Tensor || memory.contains(aten::meta_of(result.get()).storage)) return {};
    for (std::size_t i = 0; i < given.size(); ++i) {
      if (cat_of(given[i]) == Cat::Tensor && aten::version_of(given[i]) != versions[i]) return {};
    }
    return aten::fake_like(result.get());
  } catch (const py::PythonError& error) {
    if (py::is_interruption(error.value())) throw;
    return {};
  }
}

std::vector<py::Owned<>> with_items(std::span<PyObject* const> args, const std::vector<PyObject*>& fakes,
                                    std::size_t first, const KnownItems& known) {
  std::vector<py::Owned<>> made;
  std::set<PyObject*> asked;
  std::multiset<PyObject*> found;
  for (const auto& [tensor, number] : known) asked.insert(tensor.get());
  for (std::size_t i = 0; i < fakes.size(); ++i) {
    auto with = with_items(args[i], fakes[i], known, found);
    made.push_back(i < first ? py::Owned<>::share(args[i]) : std::move(with));
  }
  // One that is given twice may be a tensor in the other place, with a dtype that a number does not have.
  const bool is_each_once = std::ranges::equal(found, asked);
  return is_each_once ? std::move(made) : std::vector<py::Owned<>>();
}

bool has_gone_by_elements(const Capture& capture) {
  return std::ranges::any_of(capture.numbers, [](const auto& seen) { return seen.first == kElements; });
}

void stop_going_by_elements(Capture& capture) { capture.numbers.emplace_back(kElements, SeenNumber{.open = true}); }

bool goes_by_elements(const Region& region) { return region.unbacked.hints.setup.closes(kElements); }

namespace {

bool may_wish_for_elements(const Region& region) {
  const UnbackedHints& hints = region.unbacked.hints;
  return hints.may_wish && !hints.wished && !goes_by_elements(region) && !is_asleep(region);
}

bool may_be_known(Region& region, PyObject* fake) {
  Slice slice(region);
  return slice.find(fake) && slice.run(fake);
}

void go_by_elements(UnbackedHints& hints) {
  hints.wished = hints.setup;
  hints.wished->closed.push_back(kElements);
}

}  // namespace

void wish_for_elements(Region& region, const symbolic::Expr* expr) {
  const py::Gil gil;
  if (!may_wish_for_elements(region)) return;
  const auto& decided_by = region.numbers.scope()->decided_by;
  std::vector<PyObject*> fakes;
  const auto collect = [&](const auto& self, const symbolic::Expr* part) -> void {
    const auto found = decided_by.find(part);
    if (found != decided_by.end()) fakes.push_back(found->second.get());
    for (const symbolic::Expr* arg : part->args) self(self, arg);
  };
  collect(collect, expr);
  const auto is_known = [&](PyObject* fake) { return may_be_known(region, fake); };
  if (!fakes.empty() && std::ranges::all_of(fakes, is_known)) go_by_elements(region.unbacked.hints);
}

void wish_for_elements(Region& region) {
  if (!may_wish_for_elements(region)) return;
  const auto is_known = [&](const auto& symbol) { return may_be_known(region, symbol.second.get()); };
  if (std::ranges::any_of(region.numbers.scope()->decided_by, is_known)) go_by_elements(region.unbacked.hints);
}

}  // namespace pellucid::region
