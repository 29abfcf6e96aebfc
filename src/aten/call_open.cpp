// Calls with open sizes or numbers: the run at the hints, and what its results are at other sizes.
#include <ATen/core/List.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>

#include "aten/call.h"

namespace pellucid::aten {
namespace {

template <class F>
void for_each_tensor_in(const c10::IValue& value, F&& visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) visit(value.toTensor());
  } else if (value.isTensorList() || (value.isList() && value.isOptionalTensorList())) {
    for (const c10::IValue& element : value.toListRef()) {
      if (element.isTensor() && element.toTensor().defined()) visit(element.toTensor());
    }
  }
}

bool is_open_list(const c10::IValue& value) { return value.isList() && !value.isIntList() && value.isSymIntList(); }

c10::IValue hint_of(const c10::IValue& value) {
  if (value.isSymInt()) {
    const SizeNode* node = size_node(value.toSymInt());
    return node != nullptr ? c10::IValue(node->expr()->hint.i)
                           : c10::IValue(value.toSymInt().guard_int(__FILE__, __LINE__));
  }
  if (value.isSymFloat()) return value.toSymFloat().guard_float(__FILE__, __LINE__);
  if (value.isSymBool()) return value.toSymBool().guard_bool(__FILE__, __LINE__);
  if (!is_open_list(value)) return value;
  c10::List<std::int64_t> hints;
  for (const c10::IValue& element : value.toListRef()) hints.push_back(hint_of(element).toInt());
  return hints;
}

bool at_hints(const Shape& shape, const at::Tensor& result) {
  const auto equal = [](const Exprs& exprs, c10::IntArrayRef plain) {
    return std::ranges::equal(exprs, plain, {}, [](const Expr* expr) { return expr->hint.i; });
  };
  return shape.offset != nullptr && equal(shape.sizes, result.sizes()) && equal(shape.strides, result.strides()) &&
         shape.offset->hint.i == result.storage_offset();
}

}  // namespace

void Call::find_open_numbers() {
  const auto look_at = [&](const c10::SymInt& number) {
    if (const SizeNode* node = size_node(number); node != nullptr && !scope_) scope_ = node->scope();
  };
  for (std::size_t i = 0; i < size(); ++i) {
    if (arg(i).isSymInt()) look_at(arg(i).toSymInt());
    if (!is_open_list(arg(i))) continue;
    for (const c10::IValue& element : arg(i).toListRef()) {
      if (element.isSymInt()) look_at(element.toSymInt());
    }
  }
}

void Call::use_hints() {
  for (std::size_t i = 0; i < size(); ++i) {
    c10::IValue& value = stack[first_ + i];
    if (value.isSymInt() || value.isSymFloat() || value.isSymBool() || is_open_list(value)) value = hint_of(value);
  }
}

void Call::run_open(c10::DispatchKeySet keys) {
  // The parts of a composite operator come back here, each with the sizes that the kernel (or a rule that stands above
  // autograd, as composite operators do) computes.
  const bool whole =
      op.composite ? op.rule != nullptr && op.size_rule != nullptr : op.rule != nullptr || op.size_rule != nullptr;
  const bool takes_open = op.plan() == Plan::Decompose && op.kernel().isValidSymUnboxed();
  {
    const QuietScope hints;
    note_facts();
    check_written();
  }
  const std::vector<c10::IValue> arguments(stack.end() - static_cast<std::ptrdiff_t>(size()), stack.end());
  SizeCall open(op, scope_, arguments);
  if (op.composite && op.rule != nullptr && !whole && op.rule(*this)) return;
  if (op.plan() == Plan::Decompose && !whole) {
    if (!takes_open) use_plain_numbers(open);
    return op.kernel().callBoxed(handle, keys, &stack);
  }
  if (reshapes_open(open)) open.fix_all();
  use_plain_tensors(open);
  {
    const QuietScope hints;
    run_plan(keys);
  }
  if (reshapes_itself()) return reshape(open);
  keep_written(open);
  put_back();
  generalise(open);
}

namespace {

// A tensor, or a list of some, with each replaced.
template <class F>
c10::IValue with_tensors(const c10::IValue& value, F&& replace) {
  if (value.isTensor()) return value.toTensor().defined() ? c10::IValue(replace(value.toTensor())) : value;
  if (value.isTensorList()) {
    c10::List<at::Tensor> out;
    for (const at::Tensor& tensor : value.toTensorVector()) out.push_back(replace(tensor));
    return out;
  }
  if (!value.isList() || !value.isOptionalTensorList()) return value;
  c10::List<std::optional<at::Tensor>> out;
  for (const c10::IValue& element : value.toListRef())
    out.push_back(element.isTensor() ? std::optional<at::Tensor>(replace(element.toTensor())) : std::nullopt);
  return out;
}

}  // namespace

// TensorIterator refuses tensors that may be of other sizes, and kernels that ask for SymInts would decide about them.
void Call::use_plain_tensors(SizeCall& open) {
  const auto plain = [&](const at::Tensor& tensor) {
    if (symbolic_fake(tensor) == nullptr) return tensor;
    for (const auto& [original, stand_in] : replaced_) {
      if (original.is_same(tensor)) return stand_in;
    }
    return replaced_.emplace_back(tensor, with_hints(tensor)).second;
  };
  for (std::size_t i = 0; i < size(); ++i) {
    stack[first_ + i] = with_tensors(open.arg(i), plain);
  }
  use_hints();
}

// A view in place: what it returns is what it writes.
bool Call::reshapes_itself() const {
  return op.writes && op.reshapes && !op.out && op.args[0].written && op.returned_arg.size() == 1 &&
         op.returned_arg[0] == 0;
}

// The argument takes the shape that its stand-in got.
void Call::reshape(SizeCall& open) {
  SymbolicFake* self = symbolic_fake(open.tensor(0));
  if (self == nullptr) {
    put_back();
    return generalise(open);
  }
  const at::Tensor stand_in = stack[first_].toTensor();
  open.set_results({stand_in}, /*reshaped=*/true);
  const bool covered = op.size_rule != nullptr && op.size_rule(open) && at_hints(open.given()[0], stand_in);
  if (!covered) {
    open.fix_all();
    count_without_size_rule(op);
  }
  self->set_shape(covered ? open.given()[0] : shape_of(*scope_, stand_in));
  put_back();
}

// Where results go into tensors that stand there already, those may have got another shape: then all is constant.
void Call::keep_written(SizeCall& open) {
  bool fixed = false;
  for (const auto& [original, stand_in] : replaced_) {
    SymbolicFake& fake = *symbolic_fake(original);
    const Shape shape = fake.shape();
    const auto same = [](const Exprs& exprs, c10::IntArrayRef plain) {
      return std::ranges::equal(exprs, plain, {}, [](const Expr* expr) { return expr->hint.i; });
    };
    if (same(shape.sizes, stand_in.sizes()) && same(shape.strides, stand_in.strides())) continue;
    if (!fixed) open.fix_all();
    fixed = true;
    fake.set_shape(shape_of(*scope_, stand_in));
  }
}

void Call::put_back() {
  if (replaced_.empty()) return;
  const auto original = [&](const at::Tensor& tensor) {
    for (const auto& [own, stand_in] : replaced_) {
      if (stand_in.is_same(tensor)) return own;
    }
    return tensor;
  };
  for (std::size_t i = first_; i < stack.size(); ++i) stack[i] = with_tensors(stack[i], original);
  replaced_.clear();
}

// For kernels that were compiled for plain ints.
void Call::use_plain_numbers(SizeCall& open) {
  for (std::size_t i = 0; i < size(); ++i) {
    const c10::IValue& value = open.arg(i);
    if (value.isSymInt()) (void)open.plain(i);
    if (!is_open_list(value)) continue;
    for (const Expr* number : open.numbers(i)) (void)open.plain(number);
  }
  use_hints();
}

// Whether a write gives what it writes another shape, other than one that its size rule knows. Where it shares memory
// with what is read, that they do not overlap was checked at the hints: at other sizes the operator itself may refuse.
bool Call::reshapes_open(SizeCall& open) const {
  bool reshapes = false;
  const auto storage_of = [](const at::Tensor& t) {
    return t.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  };
  for (std::size_t i = 0; op.writes && i < size(); ++i) {
    if (!op.args[i].written) continue;
    for_each_tensor_in(open.arg(i), [&](const at::Tensor& tensor) {
      reshapes |= op.reshapes && !op.out && !reshapes_itself() && symbolic_fake(tensor) != nullptr;
      for (std::size_t j = 0; j < size(); ++j) {
        for_each_tensor_in(open.arg(j), [&](const at::Tensor& other) {
          if (!other.is_same(tensor) && storage_of(other) == storage_of(tensor)) note_may_raise();
        });
      }
    });
  }
  return reshapes;
}

void Call::generalise(SizeCall& open) {
  const auto is_argument = [&](const at::Tensor& tensor) {
    bool found = false;
    for (std::size_t i = 0; i < open.size(); ++i) {
      for_each_tensor_in(open.arg(i), [&](const at::Tensor& argument) { found |= argument.is_same(tensor); });
    }
    return found;
  };
  std::vector<at::Tensor> results;
  for (std::size_t i = first_; i < stack.size(); ++i) {
    for_each_tensor_in(stack[i], [&](const at::Tensor& tensor) {
      if (!is_argument(tensor)) results.push_back(tensor);
    });
  }
  open.set_results(results, /*reshaped=*/false);
  // Where a result goes into a tensor that stands there already, only broadcasting says what that has to be.
  bool covered = op.size_rule != nullptr && (!op.out || op.size_rule == broadcast_sizes) && op.size_rule(open);
  {
    const QuietScope hints;
    for (std::size_t k = 0; covered && k < results.size(); ++k) covered = at_hints(open.given()[k], results[k]);
  }
  if (!covered) {
    open.fix_all();
    count_without_size_rule(op);
    return;
  }
  std::size_t k = 0;
  const auto generalised = [&](const at::Tensor& tensor) {
    if (!tensor.defined() || is_argument(tensor)) return tensor;
    const Shape& shape = open.given()[k++];
    return is_constant(shape) ? tensor : with_shape(tensor, scope_, shape);
  };
  for (std::size_t i = first_; i < stack.size(); ++i) {
    if (stack[i].isTensor()) {
      stack[i] = generalised(stack[i].toTensor());
    } else if (stack[i].isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : stack[i].toTensorVector()) list.push_back(generalised(tensor));
      stack[i] = std::move(list);
    }
  }
}

}  // namespace pellucid::aten
