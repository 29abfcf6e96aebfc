// The one kernel of all fakes: registered for every operator, it follows the operator's plan.
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/MemoryFormat.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

#include <utility>

#include "aten/aten.h"
#include "aten/call_open.h"
#include "aten/operator_notes.h"
#include "aten/unstrided_fake.h"

namespace pellucid::aten {
namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;

// Meta kernels run below autograd, and what they allocate is a meta tensor, not a fake.
const DispatchKeySet kAboveMeta =
    c10::autograd_dispatch_keyset_with_ADInplaceOrView | DispatchKeySet(DispatchKey::Fake);

struct Noted {
  OpFacts facts;
  int operators = 0;  // that compute something
};
Noted& noted_facts() {
  thread_local Noted noted;
  return noted;
}

// The fakes (and real tensors) of one call with their twins.
class Twins {
 public:
  at::Tensor of(const at::Tensor& tensor) {
    if (!tensor.defined()) return tensor;
    for (const Pair& pair : pairs_) {
      if (pair.tensor.is_same(tensor)) return pair.twin;
    }
    pairs_.push_back({tensor, meta_twin(tensor)});
    return pairs_.back().twin;
  }

  void written(const at::Tensor& tensor) {
    for (Pair& pair : pairs_) pair.written |= pair.tensor.is_same(tensor);
  }

  // `reshapes`: the operator may give what it writes another shape (out= and the like).
  void adopt_written(bool reshapes) {
    for (const Pair& pair : pairs_) {
      if (!pair.written || !is_fake(pair.tensor.unsafeGetTensorImpl())) continue;
      TORCH_CHECK(reshapes || pair.tensor.sizes() == pair.twin.sizes(), "output with shape ", pair.tensor.sizes(),
                  " doesn't match the broadcast shape ", pair.twin.sizes());
      adopt_metadata(pair.tensor, pair.twin);
    }
  }

  // The result of a meta kernel as a fake: the argument itself, a view of one, or something new.
  at::Tensor result(const at::Tensor& meta, c10::Device device) {
    if (!meta.defined()) return meta;
    for (const Pair& pair : pairs_) {
      if (pair.twin.is_same(meta)) return pair.tensor;
    }
    const auto* storage = meta.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
    for (const Pair& pair : pairs_) {
      if (storage == nullptr || pair.twin.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl() != storage)
        continue;
      TORCH_CHECK_NOT_IMPLEMENTED(is_fake(pair.tensor.unsafeGetTensorImpl()),
                                  "pellucid: a view of a real tensor among fake ones");
      return fake_view_from_meta(meta, pair.tensor);
    }
    return fake_from_meta(meta, static_cast<int>(device.type()), device.index());
  }

 private:
  struct Pair {
    at::Tensor tensor, twin;
    bool written = false;
  };
  c10::SmallVector<Pair, 6> pairs_;
};

// A list of tensors, optional or not, with each tensor replaced.
template <class F>
c10::IValue map_list(const c10::IValue& list, F&& replace) {
  if (list.isNone()) return list;
  if (list.isTensorList()) {
    c10::List<at::Tensor> out;
    const auto in = list.toTensorList();
    out.reserve(in.size());
    for (std::size_t i = 0; i < in.size(); ++i) out.push_back(replace(in.get(i)));
    return out;
  }
  c10::List<std::optional<at::Tensor>> out;
  const auto in = list.toListRef();
  out.reserve(in.size());
  for (const c10::IValue& element : in) {
    out.push_back(element.isTensor() ? std::optional<at::Tensor>(replace(element.toTensor())) : std::nullopt);
  }
  return out;
}

// Do two fakes share memory, as at::get_overlap_status says of real tensors?
at::MemOverlapStatus overlap(const at::Tensor& a, const at::Tensor& b) {
  using Status = at::MemOverlapStatus;
  if (a.is_same(b)) return Status::Full;
  if (a.numel() == 0 || b.numel() == 0) return Status::No;
  if (!a.is_non_overlapping_and_dense() || !b.is_non_overlapping_and_dense()) return Status::TooHard;
  const auto storage_of = [](const at::Tensor& t) {
    return t.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  };
  if (storage_of(a) == nullptr || storage_of(a) != storage_of(b)) return Status::No;
  const auto begin_of = [](const at::Tensor& t) {
    return t.storage_offset() * static_cast<std::int64_t>(t.itemsize());
  };
  const auto end_of = [&](const at::Tensor& t) {
    return begin_of(t) + t.numel() * static_cast<std::int64_t>(t.itemsize());
  };
  if (begin_of(a) == begin_of(b) && end_of(a) == end_of(b))
    return a.strides() == b.strides() ? Status::Full : Status::Partial;
  return begin_of(a) < end_of(b) && begin_of(b) < end_of(a) ? Status::Partial : Status::No;
}

}  // namespace

// What the real kernels check before they write; meta kernels see no memory.
void Call::check_overlap(const at::Tensor& written) {
  TORCH_CHECK(at::has_internal_overlap(written) != at::MemOverlap::Yes,
              "unsupported operation: more than one element of the written-to tensor refers to a single memory "
              "location. Please clone() the tensor before performing the operation.");
  for (std::size_t i = 0; i < op.args.size(); ++i) {
    for_each_tensor(arg(i), [&](const at::Tensor& other) {
      const auto status = op.args[i].written ? at::MemOverlapStatus::No : overlap(written, other);
      TORCH_CHECK(status != at::MemOverlapStatus::Partial &&
                      (status != at::MemOverlapStatus::Full || !op.facts.has(Fact::Scatters)),
                  "unsupported operation: some elements of the input tensor and the written-to tensor refer to a "
                  "single memory location. Please clone() the tensor before performing the operation.");
    });
  }
}

Call::Call(const Operator& op_, const c10::OperatorHandle& handle_, c10::Stack& stack_)
    : op(op_), handle(handle_), stack(stack_), first_(stack_.size() - op_.args.size()) {
  find_scope();
}

void Call::find_scope() {
  if (op.takes_sizes) scope_ = scope_of_numbers(stack, op.args.size());
  if (!op.takes_tensors) return;
  for (std::size_t i = 0; i < op.args.size(); ++i) {
    if (op.args[i].kind == ArgKind::Tensor || op.args[i].kind == ArgKind::TensorList) {
      for_each_tensor(arg(i), [&](const at::Tensor& tensor) { inspect(tensor); });
    }
  }
}

void Call::inspect(const at::Tensor& tensor) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  const bool scalar = impl.dim() == 0 && impl.device().type() == c10::kCPU;  // a CPU scalar follows the other tensors
  if (!has_tensors || (device_from_scalar_ && !scalar)) {
    device = impl.device();
    device_from_scalar_ = scalar;
  } else if (!scalar && impl.device() != device && !op.facts.has(Fact::MixesDevices)) {
    TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, ", device,
                " and ", impl.device(), "!");
  }
  has_tensors = true;
  has_fakes |= is_fake(&impl);
  has_unstrided |= unstrided_fake(&impl) != nullptr;
  has_quantised |= is_fake(&impl) && impl.is_quantized();
  if (impl.has_symbolic_sizes_strides() && !scope_) {
    if (const SymbolicFake* fake = symbolic_fake(tensor)) scope_ = fake->scope();
  }
}

void Call::give(c10::IValue result) {
  torch::jit::drop(stack, size());
  stack.push_back(std::move(result));
}
void Call::give(c10::IValue first, c10::IValue second) {
  give(std::move(first));
  stack.push_back(std::move(second));
}
void Call::give(c10::IValue first, c10::IValue second, c10::IValue third) {
  give(std::move(first), std::move(second));
  stack.push_back(std::move(third));
}

at::Tensor Call::fresh(c10::IntArrayRef sizes, c10::ScalarType dtype) const {
  return new_fake(sizes.data(), sizes.size(), nullptr, static_cast<int>(dtype), static_cast<int>(device.type()),
                  device.index());
}
at::Tensor Call::fresh(c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType dtype) const {
  return new_fake(sizes.data(), sizes.size(), strides.data(), static_cast<int>(dtype), static_cast<int>(device.type()),
                  device.index());
}

at::Tensor Call::fresh(c10::IntArrayRef sizes, c10::MemoryFormat format, c10::ScalarType dtype) const {
  if (format == c10::MemoryFormat::ChannelsLast) return fresh(sizes, c10::get_channels_last_strides_2d(sizes), dtype);
  if (format == c10::MemoryFormat::ChannelsLast3d) return fresh(sizes, c10::get_channels_last_strides_3d(sizes), dtype);
  return fresh(sizes, dtype);
}
at::Tensor Call::fresh_like(const at::Tensor& tensor, c10::ScalarType dtype) const {
  if (tensor.is_non_overlapping_and_dense()) return fresh(tensor.sizes(), tensor.strides(), dtype);
  return fresh(tensor.sizes(), at::infer_dense_strides(tensor.sizes(), tensor.strides()), dtype);
}

void Call::needs_data() const { TORCH_CHECK(false, kNeedsData, " (aten::", op.name, ")"); }

namespace {

// Also at other sizes than those of the capture.
bool may_be_empty(const at::Tensor& tensor) {
  const SymbolicFake* fake = symbolic_fake(tensor);
  if (fake == nullptr) return tensor.numel() == 0;
  const Shape shape = fake->shape();
  return !std::ranges::all_of(shape.sizes,
                              [&](const Expr* size) { return fake->scope()->space.range(size).least >= 1; });
}

}  // namespace

bool Call::dtypes_may_raise() const {
  bool bools = false, integers = false, floats = false, complexes = false, mixed = false, empty = false;
  c10::ScalarType last = c10::ScalarType::Float;
  for (std::size_t i = 0; i < op.args.size(); ++i) {
    if (static_cast<int>(i) == op.dtype && arg(i).isInt() && !op.dtypes.bools)
      if (static_cast<c10::ScalarType>(arg(i).toInt()) == c10::ScalarType::Bool) return true;
    for_each_tensor(arg(i), [&](const at::Tensor& tensor) {
      const c10::ScalarType dtype = tensor.scalar_type();
      bools |= dtype == c10::ScalarType::Bool;
      empty |= may_be_empty(tensor);
      integers |= c10::isIntegralType(dtype, /*includeBool=*/false);
      mixed |= floats && c10::isFloatingType(dtype) && dtype != last;
      if (c10::isFloatingType(dtype)) last = dtype;
      floats |= c10::isFloatingType(dtype);
      complexes |= c10::isComplexType(dtype);
    });
  }
  if (empty && !op.dtypes.any_mixture) return true;
  if (complexes) return !op.dtypes.complexes;
  if (floats) return !op.dtypes.floats || (mixed && !op.dtypes.any_mixture);
  if (integers) return !op.dtypes.integers;
  return bools && !op.dtypes.bools;
}

bool Call::may_raise() const {
  if (op.raises == Raises::Anywhere || numbers_may_raise() || reaches_beyond()) return true;
  if (device.type() == c10::kCPU && dtypes_may_raise()) return true;
  if (op.raises == Raises::Never || device.type() != c10::kCPU) return false;
  if (op.raises == Raises::OnCpu) return true;
  for (std::size_t i = 0; i < op.args.size(); ++i) {
    bool floating = false;
    for_each_tensor(arg(i), [&](const at::Tensor& tensor) {
      floating |= !c10::isIntegralType(tensor.scalar_type(), /*includeBool=*/true);
    });
    if (floating || arg(i).isDouble() || arg(i).isComplexDouble()) return false;
  }
  return true;
}

void Call::note_facts() {
  if (op.is_view && !op.writes && !reaches_beyond()) return;
  // A composite operator without a rule is seen again by its parts.
  if (op.rule == nullptr && op.plan() == Plan::Decompose && op.composite) return;
  Noted& noted = noted_facts();
  const auto write = [&](const at::Tensor& tensor) {
    const c10::Storage& storage = tensor.unsafeGetTensorImpl()->unsafe_storage();
    noted.facts.written.emplace_back(storage.unsafeGetStorageImpl(), [held = storage](const void*) {});
  };
  ++noted.operators;
  note_unknown_operator();
  noted.facts.may_raise |= may_raise();
  noted.facts.random |= op.random && !never_drops();
  for (std::size_t i = 0; op.writes && i < op.args.size(); ++i) {
    if (op.args[i].written) for_each_tensor(arg(i), write);
  }
  if (op.training >= 0 && arg(static_cast<std::size_t>(op.training)).toBool()) {
    for (const std::size_t i : op.statistics) for_each_tensor(arg(i), write);
  }
  const bool first = noted.operators == 1;
  noted.facts.overwrites = op.writes && overwrites() && (first || noted.facts.overwrites);
}

void Call::note_may_raise() { noted_facts().facts.may_raise = true; }
void note_only_as_captured() { noted_facts().facts.only_as_captured = true; }

bool Call::never_drops() const {
  return op.dropout >= 0 && arg(static_cast<std::size_t>(op.dropout)).toDouble() == 0.0;
}

bool Call::overwrites() const {
  if (!op.overwrites) return false;
  for (std::size_t i = 0; i < size(); ++i) {
    if (arg(i).isBool() && handle.schema().arguments()[i].name() == "accumulate") return !arg(i).toBool();
  }
  return true;
}

const OpFacts& facts_so_far() noexcept { return noted_facts().facts; }
OpFacts take_facts() {
  forget_operators();
  return std::exchange(noted_facts(), {}).facts;
}

void Call::check_written() {
  for (std::size_t i = 0; op.writes && i < op.args.size(); ++i) {
    if (!op.args[i].written) continue;
    for_each_tensor(arg(i), [&](const at::Tensor& tensor) {
      TORCH_CHECK(is_fake(tensor.unsafeGetTensorImpl()), "pellucid: aten::", op.name,
                  " would write a fake tensor into a real one");
      check_overlap(tensor);
    });
  }
}

void Call::run(DispatchKeySet keys) {
  if (has_quantised && op.quantised_rule == nullptr) return run_quantised(*this, keys);
  if (has_unstrided) return run_unstrided(*this, keys);
  // Nobody records what runs without a scope: the program's graph has no part in it.
  if (op.unbacked_rule != nullptr && scope_of_thread() != nullptr && op.unbacked_rule(*this)) return;
  if (scope_ != nullptr && !QuietScope::is_active()) return OpenCall(*this, scope_).run(keys);
  if (scope_ != nullptr) use_hints(stack, first_);
  OperatorNote note(*this);
  note_facts();
  check_written();
  check_numbers(*this);
  run_plan(keys);
  note.done(*this);
}

void Call::run_plan(DispatchKeySet keys) {
  if (has_quantised) return run_quantised(*this, keys);
  if (op.rule != nullptr && op.rule(*this)) return;
  // Of operators of the program nothing below counts the writes: torch does, around them.
  const auto bump_written = [this] {
    for (std::size_t i = 0; op.writes && i < op.args.size(); ++i) {
      if (op.args[i].written)
        for_each_tensor(arg(i), [](const at::Tensor& t) { t.unsafeGetTensorImpl()->bump_version(); });
    }
  };
  switch (op.plan()) {
    case Plan::NeedsData:
      needs_data();
    case Plan::OwnFake:
      bump_written();
      return handle.callBoxedForDispatchKey(DispatchKey::Meta, stack);
    case Plan::OnlyWrites:
      bump_written();
      return torch::jit::drop(stack, size());
    case Plan::Missing:
      TORCH_CHECK_NOT_IMPLEMENTED(false, "pellucid: no fake kernel for aten::", op.name);
    case Plan::Decompose:
      return op.kernel().callBoxed(handle, keys, &stack);
    case Plan::PythonMeta:
      count_without_rule(op);
      [[fallthrough]];
    case Plan::Meta:
      return on_twins();
  }
}

void Call::on_twins() {
  Twins twins;
  c10::Device result_device = device;
  for (std::size_t i = 0; i < op.args.size(); ++i) {
    c10::IValue& value = stack[first_ + i];
    const ArgFact fact = op.args[i];
    if (fact.kind == ArgKind::Device && !value.isNone()) {
      result_device = value.toDevice();
      value = c10::Device(c10::kMeta);
    } else if (fact.kind == ArgKind::Device && !has_tensors) {
      value = c10::Device(c10::kMeta);
    } else if (fact.kind == ArgKind::Tensor && value.isTensor()) {
      at::Tensor tensor = value.toTensor();
      value = twins.of(tensor);
      if (fact.written) twins.written(tensor);
    } else if (fact.kind == ArgKind::TensorList) {
      value = map_list(value, [&](const at::Tensor& tensor) {
        at::Tensor twin = twins.of(tensor);
        if (fact.written) twins.written(tensor);
        return twin;
      });
    }
  }
  {
    c10::impl::ExcludeDispatchKeyGuard below(kAboveMeta);
    if (op.plan() == Plan::Meta) {
      op.kernel().callBoxed(handle, DispatchKeySet(DispatchKey::Meta), &stack);
    } else {
      handle.callBoxedForDispatchKey(DispatchKey::Meta, stack);
    }
  }
  if (op.writes) twins.adopt_written(op.reshapes);
  for (std::size_t i = first_; i < stack.size(); ++i) {
    c10::IValue& value = stack[i];
    if (value.isTensor()) {
      value = twins.result(value.toTensor(), result_device);
    } else if (value.isTensorList()) {
      value = map_list(value, [&](const at::Tensor& meta) { return twins.result(meta, result_device); });
    }
  }
}

namespace {

// PrivateUse3: some argument is a fake.
struct FakeKernel final : c10::OperatorKernel {
  void operator()(const c10::OperatorHandle& handle, DispatchKeySet keys, c10::Stack* stack) {
    if (const Operator* op = builtin_operator(handle)) {
      Call(*op, handle, *stack).run(keys);
    } else {
      const Operator foreign(handle);
      Call(foreign, handle, *stack).run(keys);
    }
  }
};

// The key Fake, included by FakeScope::call: sees every operator, so factories too.
struct ScopeKernel final : c10::OperatorKernel {
  void operator()(const c10::OperatorHandle& handle, DispatchKeySet keys, c10::Stack* stack) {
    if (const Operator* op = builtin_operator(handle)) return run(*op, handle, keys, stack);
    const Operator foreign(handle);
    run(foreign, handle, keys, stack);
  }

 private:
  static void run(const Operator& op, const c10::OperatorHandle& handle, DispatchKeySet keys, c10::Stack* stack) {
    Call call(op, handle, *stack);
    const bool factory = !call.has_tensors && makes_tensors(op, handle);
    if (call.has_fakes || factory) return call.run(keys);
    const c10::impl::ExcludeDispatchKeyGuard real(
        DispatchKeySet(DispatchKey::Fake));  // what a kernel of real tensors allocates is real
    handle.redispatchBoxed(keys & DispatchKeySet(DispatchKeySet::FULL_AFTER, DispatchKey::Fake), stack);
  }
  static bool makes_tensors(const Operator& op, const c10::OperatorHandle& handle) {
    for (const ArgFact& fact : op.args) {
      if (fact.kind == ArgKind::Device) return true;
    }
    // A composite without tensor arguments may call factories.
    return op.plan() == Plan::Decompose && !handle.schema().returns().empty();
  }
};

bool has_rule(const std::string& name) { return find_rule(name) != nullptr || find_unstrided_rule(name) != nullptr; }

}  // namespace

void register_kernels() {
  static bool done = false;
  if (done) return;
  done = true;
  auto& dispatcher = c10::Dispatcher::singleton();
  const auto probe = dispatcher.findSchemaOrThrow("aten::add", "Tensor");
  for (const DispatchKey key : {DispatchKey::PrivateUse3, DispatchKey::Fake}) {
    TORCH_CHECK(!probe.hasKernelForDispatchKey(key), "pellucid: another library has claimed the dispatch key ", key);
  }
  static auto& registrations = *new std::vector<c10::RegistrationHandleRAII>;  // for the life of the process
  const auto names = dispatcher.getAllOpNames();
  registrations.reserve(names.size() + 16);
  const char* const debug = "pellucid fake kernel";
  registrations.push_back(dispatcher.registerFallback(
      DispatchKey::Fake, c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<ScopeKernel>()), debug));
  for (const DispatchKey key : {DispatchKey::PrivateUse3, DispatchKey::SparsePrivateUse3,
                                DispatchKey::SparseCsrPrivateUse3, DispatchKey::QuantizedPrivateUse3}) {
    registrations.push_back(dispatcher.registerFallback(
        key, c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<FakeKernel>()), debug));
  }
  // Operators of a library without a derivative of their own: for these keys torch has no fallback.
  static auto& autograd = *new torch::Library(torch::Library::IMPL, "_", DispatchKey::AutogradPrivateUse3, debug, 0);
  autograd.fallback(torch::autograd::basicAutogradNotImplementedFallback());
  // Structured operators have a composite kernel that wins over a fallback, so every operator that is not composite
  // gets its own. A composite one with a rule of ours reads data in its C++ function: the rule stands above autograd
  // too.
  for (const c10::OperatorName& name : names) {
    if (name.name.rfind("aten::", 0) != 0) continue;
    const auto handle = dispatcher.findSchema(name);
    if (!handle) continue;
    const auto claim = [&](DispatchKey key) {
      registrations.push_back(
          dispatcher.registerImpl(name, key, c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<FakeKernel>()),
                                  std::nullopt, nullptr, debug));
    };
    const bool composite = handle->hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd);
    const bool ruled = composite && has_rule(operator_name(name));
    if (!composite || ruled) claim(DispatchKey::PrivateUse3);
    if (ruled) claim(DispatchKey::AutogradPrivateUse3);
  }
}

}  // namespace pellucid::aten
