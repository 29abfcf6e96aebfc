#include "aten/call_open.h"

#include <ATen/core/List.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>

namespace pellucid::aten {
namespace {

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

std::shared_ptr<SizeScope> scope_of_numbers(const c10::Stack& stack, std::size_t count) {
  std::shared_ptr<SizeScope> scope;
  const auto look_at = [&](const c10::SymInt& number) {
    if (const SizeNode* node = size_node(number); node != nullptr && !scope) scope = node->scope();
  };
  for (std::size_t i = stack.size() - count; i < stack.size(); ++i) {
    if (stack[i].isSymInt()) look_at(stack[i].toSymInt());
    if (!is_open_list(stack[i])) continue;
    for (const c10::IValue& element : stack[i].toListRef()) {
      if (element.isSymInt()) look_at(element.toSymInt());
    }
  }
  return scope;
}

void use_hints(c10::Stack& stack, std::size_t first) {
  for (std::size_t i = first; i < stack.size(); ++i) {
    c10::IValue& value = stack[i];
    if (value.isSymInt() || value.isSymFloat() || value.isSymBool() || is_open_list(value)) value = hint_of(value);
  }
}

OpenCall::OpenCall(Call& call, const std::shared_ptr<SizeScope>& scope)
    : call_(call),
      op_(call.op),
      stack_(call.stack),
      first_(stack_.size() - call.size()),
      scope_(scope),
      open_(op_, scope, {stack_.begin() + static_cast<std::ptrdiff_t>(first_), stack_.end()}) {}

void OpenCall::run(c10::DispatchKeySet keys) {
  // The parts of a composite operator come back here, each with the sizes that the kernel (or a rule that stands above
  // autograd, as composite operators do) computes.
  const bool whole =
      op_.composite ? op_.rule != nullptr && op_.size_rule != nullptr : op_.rule != nullptr || op_.size_rule != nullptr;
  const bool takes_open = op_.plan() == Plan::Decompose && op_.kernel().isValidSymUnboxed();
  {
    const QuietScope hints;
    call_.note_facts();
    call_.check_written();
    check_numbers(call_);
  }
  if (op_.plan() == Plan::OwnFake || op_.plan() == Plan::OnlyWrites) return call_.run_plan(keys);
  if (op_.composite && op_.rule != nullptr && !whole && op_.rule(call_)) return;
  if (op_.plan() == Plan::Decompose && !whole) {
    if (!takes_open) use_plain_numbers();
    return op_.kernel().callBoxed(call_.handle, keys, &stack_);
  }
  if (reshapes_open()) open_.fix_all();
  use_plain_tensors();
  {
    const QuietScope hints;
    call_.run_plan(keys);
  }
  if (reshapes_itself()) return reshape();
  keep_written();
  put_back();
  generalise();
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
void OpenCall::use_plain_tensors() {
  const auto plain = [&](const at::Tensor& tensor) {
    if (symbolic_fake(tensor) == nullptr) return tensor;
    for (const auto& [original, stand_in] : replaced_) {
      if (original.is_same(tensor)) return stand_in;
    }
    return replaced_.emplace_back(tensor, with_hints(tensor)).second;
  };
  for (std::size_t i = 0; i < call_.size(); ++i) {
    stack_[first_ + i] = with_tensors(open_.arg(i), plain);
  }
  use_hints(stack_, first_);
}

// A view in place: what it returns is what it writes.
bool OpenCall::reshapes_itself() const {
  return op_.writes && op_.reshapes && !op_.out && op_.args[0].written && op_.returned_arg.size() == 1 &&
         op_.returned_arg[0] == 0;
}

// The argument takes the shape that its stand-in got.
void OpenCall::reshape() {
  SymbolicFake* self = symbolic_fake(open_.tensor(0));
  if (self == nullptr) {
    put_back();
    return generalise();
  }
  const at::Tensor stand_in = stack_[first_].toTensor();
  open_.set_results({stand_in}, /*reshaped=*/true);
  const bool covered =
      op_.size_rule != nullptr && op_.size_rule(open_) && open_.fits() && at_hints(open_.given()[0], stand_in);
  if (!covered) {
    open_.fix_all();
    count_without_size_rule(op_);
  }
  self->set_shape(covered ? open_.given()[0] : shape_of(*scope_, stand_in));
  put_back();
}

// Where results go into tensors that stand there already, those may have got another shape: then all is constant.
void OpenCall::keep_written() {
  bool fixed = false;
  for (const auto& [original, stand_in] : replaced_) {
    SymbolicFake& fake = *symbolic_fake(original);
    const Shape shape = fake.shape();
    const auto same = [](const Exprs& exprs, c10::IntArrayRef plain) {
      return std::ranges::equal(exprs, plain, {}, [](const Expr* expr) { return expr->hint.i; });
    };
    if (same(shape.sizes, stand_in.sizes()) && same(shape.strides, stand_in.strides())) continue;
    if (!fixed) open_.fix_all();
    fixed = true;
    fake.set_shape(shape_of(*scope_, stand_in));
  }
}

void OpenCall::put_back() {
  if (replaced_.empty()) return;
  const auto original = [&](const at::Tensor& tensor) {
    for (const auto& [own, stand_in] : replaced_) {
      if (stand_in.is_same(tensor)) return own;
    }
    return tensor;
  };
  for (std::size_t i = first_; i < stack_.size(); ++i) stack_[i] = with_tensors(stack_[i], original);
  replaced_.clear();
}

// For kernels that were compiled for plain ints.
void OpenCall::use_plain_numbers() {
  for (std::size_t i = 0; i < call_.size(); ++i) {
    const c10::IValue& value = open_.arg(i);
    if (value.isSymInt()) (void)open_.plain(i);
    if (!is_open_list(value)) continue;
    for (const Expr* number : open_.numbers(i)) (void)open_.plain(number);
  }
  use_hints(stack_, first_);
}

// Whether a write gives what it writes another shape, other than one that its size rule knows. Where it shares memory
// with what is read, that they do not overlap was checked at the hints: at other sizes the operator itself may refuse.
bool OpenCall::reshapes_open() const {
  bool reshapes = false;
  const auto storage_of = [](const at::Tensor& t) {
    return t.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  };
  for (std::size_t i = 0; op_.writes && i < call_.size(); ++i) {
    if (!op_.args[i].written) continue;
    for_each_tensor(open_.arg(i), [&](const at::Tensor& tensor) {
      reshapes |= op_.reshapes && !op_.out && !reshapes_itself() && symbolic_fake(tensor) != nullptr;
      for (std::size_t j = 0; j < call_.size(); ++j) {
        for_each_tensor(open_.arg(j), [&](const at::Tensor& other) {
          if (!other.is_same(tensor) && storage_of(other) == storage_of(tensor)) Call::note_may_raise();
        });
      }
    });
  }
  return reshapes;
}

bool OpenCall::is_argument(const at::Tensor& tensor) const {
  bool found = false;
  for (std::size_t i = 0; i < open_.size(); ++i) {
    for_each_tensor(open_.arg(i), [&](const at::Tensor& argument) { found |= argument.is_same(tensor); });
  }
  return found;
}

void OpenCall::generalise() {
  std::vector<at::Tensor> results;
  for (std::size_t i = first_; i < stack_.size(); ++i) {
    for_each_tensor(stack_[i], [&](const at::Tensor& tensor) {
      if (!is_argument(tensor)) results.push_back(tensor);
    });
  }
  open_.set_results(results, /*reshaped=*/false);
  // Where a result goes into a tensor that stands there already, only broadcasting says what that has to be.
  bool covered = op_.size_rule != nullptr && (!op_.out || op_.size_rule == broadcast_sizes) && op_.size_rule(open_) &&
                 open_.fits();
  {
    const QuietScope hints;
    for (std::size_t k = 0; covered && k < results.size(); ++k) covered = at_hints(open_.given()[k], results[k]);
  }
  if (!covered) {
    open_.fix_all();
    count_without_size_rule(op_);
    return;
  }
  std::size_t k = 0;
  const auto generalised = [&](const at::Tensor& tensor) {
    if (!tensor.defined() || is_argument(tensor)) return tensor;
    const Shape& shape = open_.given()[k++];
    return is_constant(shape) ? tensor : with_shape(tensor, scope_, shape);
  };
  for (std::size_t i = first_; i < stack_.size(); ++i) {
    if (stack_[i].isTensor()) {
      stack_[i] = generalised(stack_[i].toTensor());
    } else if (stack_[i].isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : stack_[i].toTensorVector()) list.push_back(generalised(tensor));
      stack_[i] = std::move(list);
    }
  }
}

}  // namespace pellucid::aten
