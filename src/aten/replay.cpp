#include "aten/replay.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/clone.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <deque>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "aten/internal.h"
#include "aten/operator_notes.h"

namespace pellucid::aten {
namespace {

constexpr std::size_t kMostOperators = 32;

struct Noted {
  std::shared_ptr<RanOnFakes> ran;  // null: no operator so far that only computes
  bool is_whole = true;
};

Noted& noted() {
  thread_local Noted ran;
  return ran;
}

// Besides elementwise operators: what only computes, the same each time.
constexpr auto kOthers = std::to_array<std::string_view>(
    {"_to_copy", "all", "any", "clone", "copy_", "fill_", "full", "full_like", "lift_fresh", "max", "mean", "min",
     "ones", "ones_like", "scalar_tensor", "sum", "zero_", "zeros", "zeros_like"});

bool only_computes(const Operator& op, const c10::OperatorHandle& handle) {
  if (op.random || op.out || (op.writes && op.reshapes) || (op.is_view && !op.writes)) return false;
  const std::string_view base = std::string_view(op.name).substr(0, op.name.find('.'));
  return base.starts_with("_foreach_") || std::ranges::find(kOthers, base) != kOthers.end() ||
         handle.hasTag(at::Tag::pointwise);
}

bool is_small(const at::Tensor& tensor) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  return impl.device().is_cpu() && impl.layout() == c10::kStrided && !impl.has_symbolic_sizes_strides() &&
         impl.numel() == 1 && !tensor.is_neg() && !c10::isComplexType(c10::typeMetaToScalarType(impl.dtype()));
}

// A fake, or a number that torch has made a tensor of.
bool may_be_noted(const at::Tensor& tensor) {
  if (!tensor.defined() || !is_small(tensor)) return false;
  return aten::is_fake(tensor.unsafeGetTensorImpl()) || tensor.unsafeGetTensorImpl()->is_wrapped_number();
}

bool may_be_noted(const c10::IValue& value) {
  if (value.isTensor()) return may_be_noted(value.toTensor());
  if (value.isGenerator() || value.isStorage() || value.isStream() || value.isObject() || value.isPyObject() ||
      value.isSymInt() || value.isSymFloat() || value.isSymBool())
    return false;
  if (value.isDevice()) return value.toDevice().is_cpu();
  if (!value.isList()) return true;
  for (const c10::IValue& item : value.toListRef()) {
    if (!may_be_noted(item)) return false;
  }
  return true;
}

const void* memory_of(const at::Tensor& tensor) {
  return tensor.has_storage() ? tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl() : nullptr;
}

// Where the one element lies: tensors with the same key have the same value, whatever their shape.
struct Key {
  const void* memory;
  std::int64_t offset;
  c10::ScalarType dtype;
  bool operator==(const Key&) const = default;
};
struct HashOfKey {
  std::size_t operator()(const Key& key) const noexcept {
    return std::hash<const void*>{}(key.memory) * 31 + static_cast<std::size_t>(key.offset);
  }
};
Key key_of(const at::Tensor& tensor) { return {memory_of(tensor), tensor.storage_offset(), tensor.scalar_type()}; }
bool is_fake(const at::Tensor& tensor) { return aten::is_fake(tensor.unsafeGetTensorImpl()); }

bool writes(const RanOperator& ran, std::size_t argument) {
  if (!ran.handle) return false;
  const c10::AliasInfo* alias = ran.handle->schema().arguments()[argument].alias_info();
  return alias != nullptr && alias->isWrite();
}

}  // namespace

OperatorNote::OperatorNote(const Call& call)
    : first_(call.stack.size() - call.size()),
      known_(noted().ran == nullptr ? 0 : noted().ran->operators.size()),
      was_whole_(noted().is_whole) {
  for (std::size_t i = 0; i < call.size(); ++i) {  // first: most tensors are large
    if (!call.arg(i).isNone() && !may_be_noted(call.arg(i))) return;
  }
  if (builtin_operator(call.handle) == nullptr || !only_computes(call.op, call.handle)) return;
  ran_.emplace(RanOperator{.handle = call.handle, .arguments = {}, .results = {}});
  for (std::size_t i = 0; i < call.size(); ++i) ran_->arguments.push_back(call.arg(i));
}

void OperatorNote::done(const Call& call) {
  if (!ran_) return;
  for (std::size_t i = first_; i < call.stack.size(); ++i) {
    if (!may_be_noted(call.stack[i])) return;
    // Torch makes another tensor of what a constructor has made when somebody else has it.
    const bool is_new = !call.has_tensors && call.stack[i].isTensor();
    ran_->results.push_back(is_new ? c10::IValue(call.stack[i].toTensor().variable_data()) : call.stack[i]);
  }
  Noted& now = noted();
  if (now.ran == nullptr) now.ran = std::make_shared<RanOnFakes>();
  auto& operators = now.ran->operators;
  operators.resize(std::min(known_, operators.size()));
  operators.push_back(std::move(*ran_));
  now.is_whole = was_whole_;
}

void note_unknown_operator() { noted().is_whole = false; }
void forget_operators() { noted() = {}; }

// Null, which says nothing of what ran, unless there is an operator to run once more.
std::shared_ptr<const RanOnFakes> take_operators() {
  Noted taken = std::exchange(noted(), {});
  if (taken.ran != nullptr) taken.ran->is_whole = taken.is_whole;
  return std::move(taken.ran);
}

std::shared_ptr<const RanOnFakes> made_of_constants(PyObject* fake, PyObject* real) {
  const at::Tensor &value = THPVariable_Unpack(real), &made = THPVariable_Unpack(fake);
  if (!is_small(value) || is_fake(value)) return nullptr;
  auto ran = std::make_shared<RanOnFakes>();
  ran->operators.push_back({.handle = std::nullopt, .arguments = {value}, .results = {made}});
  return ran;
}

namespace {

struct Place {
  std::size_t argument;
  int item;  // of a list; -1: the argument itself
  std::size_t slot;
  std::vector<std::int64_t> sizes;
};

struct Step {
  std::optional<c10::OperatorHandle> handle;
  std::vector<c10::IValue> arguments;
  std::vector<Place> places;
  std::vector<std::size_t> results;     // slots
  std::vector<c10::ScalarType> dtypes;  // of these
};

// As below autograd, and with nobody who looks on.
const c10::DispatchKeySet kLookOn =
    c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset |
    c10::DispatchKeySet({c10::DispatchKey::Fake, c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot,
                         c10::DispatchKey::PreDispatch, c10::DispatchKey::PythonDispatcher,
                         c10::DispatchKey::FuncTorchDynamicLayerFrontMode,
                         c10::DispatchKey::FuncTorchDynamicLayerBackMode, c10::DispatchKey::FuncTorchBatched,
                         c10::DispatchKey::FuncTorchGradWrapper, c10::DispatchKey::Functionalize});

}  // namespace

struct Replay::Data {
  std::vector<Step> steps;
  std::size_t slots = 0, result = 0;
  bool writes = false;

  void add(const RanOperator& ran);
  std::size_t slot_of(const at::Tensor& tensor) {
    const auto [at, fresh] = slot_of_.try_emplace(key_of(tensor), slots);
    if (fresh) ++slots;
    return at->second;
  }

 private:
  std::unordered_map<Key, std::size_t, HashOfKey> slot_of_;
};

void Replay::Data::add(const RanOperator& ran) {
  Step step;
  const auto place = [&](std::size_t argument, int item, const at::Tensor& tensor) {
    return Place{argument, item, slot_of(tensor), tensor.sizes().vec()};
  };
  step.handle = ran.handle;
  step.arguments = ran.arguments;
  for (std::size_t i = 0; i < step.arguments.size(); ++i) {
    const c10::IValue& argument = step.arguments[i];
    writes |= aten::writes(ran, i);
    if (argument.isTensor()) {
      if (is_fake(argument.toTensor())) step.places.push_back(place(i, -1, argument.toTensor()));
      continue;
    }
    int item = 0;
    if (argument.isTensorList()) {
      for (const c10::IValue& each : argument.toListRef()) step.places.push_back(place(i, item++, each.toTensor()));
    }
  }
  for (const Place& place : step.places) step.arguments[place.argument] = c10::IValue();  // no fake is held
  for (const c10::IValue& result : ran.results) {
    for_each_tensor(result, [&](const at::Tensor& tensor) {
      step.results.push_back(slot_of(tensor));
      step.dtypes.push_back(tensor.scalar_type());
    });
  }
  steps.push_back(std::move(step));
}

namespace {

// An operator on lists computes each element of its own: the same call on some of them.
RanOperator of_elements(const RanOperator& ran, const std::vector<std::size_t>& elements, std::size_t count) {
  const auto sliced = [&](const c10::IValue& value) -> c10::IValue {
    if (!value.isList()) return value;
    const auto list = value.toList();
    if (list.size() != count) return value;
    c10::impl::GenericList some(list.elementType());
    for (const std::size_t element : elements) some.push_back(list.get(element));
    return some;
  };
  RanOperator made{.handle = ran.handle, .arguments = {}, .results = {}};
  for (const c10::IValue& argument : ran.arguments) made.arguments.push_back(sliced(argument));
  for (const c10::IValue& result : ran.results) made.results.push_back(sliced(result));
  return made;
}

bool is_on_lists(const RanOperator& ran) {
  return ran.handle && ran.handle->operator_name().name.starts_with("aten::_foreach_") && !ran.arguments.empty() &&
         ran.arguments.front().isTensorList();
}

}  // namespace

Replay::Replay() : data_(std::make_unique<Data>()) {}
Replay::~Replay() = default;

std::optional<Replay::Made> Replay::of(PyObject* fake, std::span<const Happened> happened,
                                       std::span<PyObject* const> inputs) {
  const at::Tensor& wanted = THPVariable_Unpack(fake);
  if (!is_small(wanted) || wanted.numel() != 1) return std::nullopt;
  std::unordered_set<Key, HashOfKey> needed, made;
  std::vector<at::Tensor> in_order;
  std::unordered_set<const void*> memory;
  const auto need = [&](const at::Tensor& tensor) {
    if (!is_fake(tensor) || !needed.insert(key_of(tensor)).second) return;
    in_order.push_back(tensor);
    memory.insert(memory_of(tensor));
  };
  need(wanted);
  const auto wanted_elements = [&](const RanOperator& ran) {
    const std::size_t count = ran.arguments.front().toList().size();
    std::vector<std::size_t> elements;
    const auto is_wanted = [&](const c10::IValue& value, std::size_t at, bool by_memory) {
      if (!value.isTensorList() || value.toList().size() != count) return false;
      const at::Tensor tensor = value.toTensorList().get(at);
      return by_memory ? memory.contains(memory_of(tensor)) : needed.contains(key_of(tensor));
    };
    for (std::size_t at = 0; at < count; ++at) {
      bool any = std::ranges::any_of(ran.results, [&](const auto& result) { return is_wanted(result, at, false); });
      for (std::size_t a = 0; a < ran.arguments.size(); ++a)
        any |= writes(ran, a) && is_wanted(ran.arguments[a], at, true);
      if (any) elements.push_back(at);
    }
    return elements;
  };
  std::deque<RanOperator> parts;  // of operators on lists
  std::vector<const RanOperator*> steps;
  for (std::size_t at = happened.size(); at-- > 0;) {
    const Happened& node = happened[at];
    const bool is_whole = node.ran != nullptr && node.ran->is_whole;
    for (std::size_t i = node.ran == nullptr ? 0 : node.ran->operators.size(); i-- > 0;) {
      const RanOperator& all = node.ran->operators[i];
      if (is_on_lists(all)) parts.push_back(of_elements(all, wanted_elements(all), all.arguments[0].toList().size()));
      const RanOperator& ran = is_on_lists(all) ? parts.back() : all;
      bool is_part = false;
      for (const c10::IValue& result : ran.results)
        for_each_tensor(result, [&](const at::Tensor& tensor) { is_part |= needed.contains(key_of(tensor)); });
      for (std::size_t a = 0; a < ran.arguments.size(); ++a) {
        if (!writes(ran, a)) continue;
        for_each_tensor(ran.arguments[a],
                        [&](const at::Tensor& tensor) { is_part |= memory.contains(memory_of(tensor)); });
      }
      if (!is_part) continue;
      if (node.takes_numbers || steps.size() == kMostOperators) return std::nullopt;
      steps.push_back(&ran);
      std::unordered_set<Key, HashOfKey> own;
      for (const c10::IValue& argument : ran.arguments) {
        for_each_tensor(argument, [&](const at::Tensor& tensor) {
          own.insert(key_of(tensor));
          need(tensor);
        });
      }
      for (const c10::IValue& result : ran.results) {
        for_each_tensor(result, [&](const at::Tensor& tensor) {
          if (!own.contains(key_of(tensor))) made.insert(key_of(tensor));
        });
      }
    }
    const auto is_of_needed = [&](const HeldStorage& held) { return memory.contains(held.get()); };
    if (!is_whole && node.written != nullptr && std::ranges::any_of(*node.written, is_of_needed)) return std::nullopt;
    if (is_whole) continue;
    for (PyObject* tensor : node.may_write) {
      if (memory.contains(memory_of(THPVariable_Unpack(tensor)))) return std::nullopt;
    }
  }
  Made result;
  const std::shared_ptr<Replay> replay(new Replay);
  for (const at::Tensor& tensor : in_order) {
    if (made.contains(key_of(tensor))) continue;
    const auto is_it = [&](PyObject* input) {
      const at::Tensor& one = THPVariable_Unpack(input);
      return is_small(one) && key_of(one) == key_of(tensor);
    };
    const auto input = std::ranges::find_if(inputs, is_it);
    // Two inputs that share memory now need not do so at the next call.
    if (input == inputs.end() || std::any_of(input + 1, inputs.end(), is_it)) return std::nullopt;
    result.inputs.push_back(static_cast<std::size_t>(input - inputs.begin()));
    (void)replay->data_->slot_of(tensor);
  }
  for (std::size_t i = steps.size(); i-- > 0;) replay->data_->add(*steps[i]);
  replay->data_->result = replay->data_->slot_of(wanted);
  result.replay = replay;
  result.operators = steps.size();
  return result;
}

std::optional<symbolic::Value> Replay::run(std::span<PyObject* const> inputs) const noexcept {
  const Data& data = *data_;
  try {
    const c10::impl::ExcludeDispatchKeyGuard alone(kLookOn);
    std::vector<at::Tensor> slots(data.slots);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!is_tensor(inputs[i])) return std::nullopt;
      const at::Tensor& input = THPVariable_Unpack(inputs[i]);
      if (!is_small(input)) return std::nullopt;
      slots[i] = data.writes ? at::clone(input) : input;
    }
    c10::Stack stack;
    for (const Step& step : data.steps) {
      if (!step.handle) {
        slots[step.results.front()] = at::clone(step.arguments.front().toTensor());
        continue;
      }
      stack.clear();
      for (const c10::IValue& argument : step.arguments) stack.push_back(argument);
      for (std::size_t p = 0; p < step.places.size(); ++p) {
        const Place& place = step.places[p];
        const at::Tensor& slot = slots[place.slot];
        const at::Tensor tensor = slot.sizes() == place.sizes ? slot : slot.view(place.sizes);
        if (place.item < 0) {
          stack[place.argument] = tensor;
        } else {
          if (place.item == 0) stack[place.argument] = c10::List<at::Tensor>();
          auto list = stack[place.argument].toTensorList();
          list.push_back(tensor);
        }
      }
      step.handle->callBoxed(stack);
      std::size_t next = 0;
      bool is_same = true;
      for (const c10::IValue& result : stack) {
        for_each_tensor(result, [&](const at::Tensor& tensor) {
          is_same = is_same && next < step.results.size() && tensor.scalar_type() == step.dtypes[next];
          if (is_same) slots[step.results[next++]] = tensor;
        });
      }
      if (!is_same || next != step.results.size()) return std::nullopt;
    }
    const at::Tensor& result = slots[data.result];
    if (!result.defined() || result.numel() != 1) return std::nullopt;
    const at::Scalar value = at::_local_scalar_dense(result);
    if (value.isFloatingPoint()) return symbolic::Value::real(value.toDouble());
    if (value.isBoolean()) return symbolic::Value::of(value.toBool() ? 1 : 0);
    return symbolic::Value::of(value.toLong());
  } catch (...) {
    return std::nullopt;
  }
}

namespace {

struct Range {
  const char *begin, *end;
  PyObject* owner;
};

bool add_range(std::vector<Range>& ranges, PyObject* object) {
  if (!is_tensor(object)) return false;
  const at::Tensor& tensor = THPVariable_Unpack(object);
  if (!tensor.has_storage()) return tensor.layout() == c10::kStrided && tensor.numel() == 0;
  const c10::StorageImpl& storage = *tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  const auto* begin = static_cast<const char*>(storage.data());
  if (begin != nullptr && storage.nbytes() > 0) ranges.push_back({begin, begin + storage.nbytes(), object});
  return true;
}

}  // namespace

bool are_apart(std::span<PyObject* const> tensors, std::span<PyObject* const> others) noexcept {
  try {
    std::vector<Range> read, written;
    for (PyObject* tensor : tensors) {
      if (!add_range(read, tensor)) return false;
    }
    for (PyObject* other : others) {
      if (!add_range(written, other)) return false;
    }
    const auto by_begin = [](const Range& a, const Range& b) { return a.begin < b.begin; };
    std::ranges::sort(read, by_begin);
    std::ptrdiff_t longest = 0;
    for (const Range& range : read) longest = std::max(longest, range.end - range.begin);
    for (const Range& range : written) {
      auto at = std::lower_bound(read.begin(), read.end(), Range{range.end, range.end, nullptr}, by_begin);
      while (at != read.begin()) {
        --at;
        if (at->begin + longest <= range.begin) break;
        if (at->end > range.begin && at->owner != range.owner) return false;
      }
    }
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace pellucid::aten
